// What a node does with one-sided transfers of clients that break the rules.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#define GD2FS_TEST_RDMA
#include <poll.h>

#include <chrono>
#include <functional>
#include <optional>

#include "checksum.h"
#include "raw_peer.h"
#include "rdma_setup.h"
#include "rpc.h"

using namespace gd2fs;
using Clock = std::chrono::steady_clock;

namespace {

/// A client that says what it likes.
struct RawClient {
  RawClient() : server(start()), side("tcp"), sink(4 * MiB, CANARY), memory(side.take(sink)) {
    wire::Hello hello = testing::RawPeer::hello();
    hello.capabilities = wire::RDMA;
    peer.emplace(*server);
    peer->greet(hello);
  }
  static std::unique_ptr<Server> start() {
    choose("tcp");
    ServerOptions options = testing::options_of(64 * MiB);
    options.rdma = test_rdma();
    options.hold_silence_ms = 2'000;
    return testing::start_node(options);
  }

  void send_peer() {
    wire::Bytes out;
    wire::encode_peer(out, side.worker->address());
    peer->send(out);
  }
  void reach() {
    send_peer();
    const testing::Frame answer = receive();
    REQUIRE(answer.header.kind == wire::Kind::peer);
    REQUIRE(answer.table.empty());
  }
  void name(std::uint32_t number = 1) {
    wire::Bytes out;
    wire::encode_key(out, key(number));
    peer->send(out);
  }
  /// At once: what comes behind the fault is thrown away for a while only.
  void name_too_many() {
    wire::Bytes all;
    for (std::uint32_t number = 1; number <= KEYS_MAX + 1; ++number)
      wire::encode_key(all, key(number));
    peer->send(all);
  }
  wire::Key key(std::uint32_t number) const {
    return {number, address(), sink.size(),
            wire::Bytes(memory->key().begin(), memory->key().end())};
  }
  std::uint64_t address(std::size_t at = 0) const {
    return reinterpret_cast<std::uintptr_t>(sink.data() + at);  // for the node, as a number
  }
  /// The next frame, while UCX moves what it has to.
  testing::Frame receive() {
    const auto until = Clock::now() + std::chrono::seconds(10);
    pollfd socket{peer->fd(), POLLIN, 0};
    while (poll(&socket, 1, 0) == 0 && Clock::now() < until) side.worker->progress();
    return peer->receive();
  }
  void read(std::vector<wire::Sink> sinks, std::uint64_t bytes, std::uint16_t flags = 0) {
    wire::Request request;
    request.head.op = wire::Op::get;
    request.items = {{.name = page_name("ns", "k"), .flags = flags, .length = bytes}};
    request.sinks = std::move(sinks);
    wire::Bytes out;
    wire::encode_request(out, ++peer->last_id, 0, request);
    peer->send(out);
  }
  std::uint64_t offer(std::uint64_t bytes) {
    const std::uint64_t id = peer->ask(
        wire::Op::offer,
        {{.name = page_name("ns", "k"), .flags = wire::ITEM_PAGE, .length = bytes, .tag = 7}});
    REQUIRE(receive().header.kind == wire::Kind::grant);
    return id;
  }
  /// Each block of an offer in about as many sinks as a SOURCE may name.
  void shred() {
    constexpr std::uint32_t BYTES = 8;
    const std::uint64_t id = offer(4 * MiB);
    wire::Bytes all;
    for (std::size_t at = 0; at < 4 * MiB; at += BLOCK_BYTES) {
      wire::Source source;
      source.data.pieces = {
          {.item = 0, .hashes = 1, .length = BLOCK_BYTES, .offset = at, .tag = 7}};
      source.data.hashes = {0};
      for (std::size_t sink = 0; sink < BLOCK_BYTES; sink += BYTES)
        source.sinks.push_back({1, BYTES, address(at + sink)});
      wire::encode_source(all, id, source, 0);
    }
    peer->send(all);
  }
  void source(std::uint64_t id, std::uint64_t bytes, std::uint64_t wrong = 0,
              std::uint16_t item = 0) {
    wire::Source source;
    source.data.pieces = {{.item = item,
                           .hashes = static_cast<std::uint16_t>(wire::blocks_of(bytes)),
                           .length = static_cast<std::uint32_t>(bytes),
                           .tag = 7}};
    for (std::size_t at = 0; at < bytes; at += BLOCK_BYTES)
      source.data.hashes.push_back(
          checksum(std::span(sink).subspan(at, std::min<std::size_t>(BLOCK_BYTES, bytes - at))));
    source.data.hashes.back() += wrong;
    source.sinks = {{1, static_cast<std::uint32_t>(bytes), address()}};
    wire::Bytes out;
    wire::encode_source(out, id, source, 0);
    peer->send(out);
  }
  Status response() {
    testing::Frame frame = receive();
    while (frame.header.kind != wire::Kind::response) frame = receive();
    wire::TableReader table(frame.table);
    return wire::decode_response(table, 1)->front().status;
  }

  std::unique_ptr<Server> server;
  UcxSide side;
  Memory sink;
  ucx::MemoryRef memory;
  std::optional<testing::RawPeer> peer;
};

}  // namespace

TEST_CASE("a node pulls what a SOURCE names, and compares it in its own memory") {
  NEEDS_UCX();
  RawClient client;
  client.sink = random_bytes(client.sink.size(), 5);
  client.reach();
  client.name();
  const std::uint64_t bytes = 3 * MiB + 12'345;

  client.source(client.offer(bytes), bytes, 1);
  CHECK(client.response() == Status::corrupt);
  client.source(client.offer(bytes), bytes);
  CHECK(client.response() == Status::ok);

  const Memory sent(client.sink.begin(), client.sink.begin() + std::ptrdiff_t(bytes));
  std::fill(client.sink.begin(), client.sink.end(), CANARY);
  const auto all = static_cast<std::uint32_t>(client.sink.size());
  client.read({{1, all, client.address()}}, all);
  CHECK(client.receive().header.kind == wire::Kind::placed);
  CHECK(client.response() == Status::ok);
  CHECK(std::equal(sent.begin(), sent.end(), client.sink.begin()));
  CHECK(std::all_of(client.sink.begin() + std::ptrdiff_t(bytes), client.sink.end(),
                    [](std::byte each) { return each == CANARY; }));
}

TEST_CASE("frames of transfers that break a rule end the stream, and move nothing") {
  NEEDS_UCX();
  using Rule = std::pair<const char*, std::function<void(RawClient&)>>;
  const std::vector<Rule> rules{
      {"a KEY", [](RawClient& client) { client.name(); }},
      {"a PEER", [](RawClient& client) { client.reach(), client.send_peer(); }},
      {"a KEY came twice", [](RawClient& client) { client.reach(), client.name(), client.name(); }},
      {"names memory",
       [](RawClient& client) {
         client.read({{1, 4096, 0}}, 4096);
       }},
      {"names memory",
       [](RawClient& client) {
         client.reach(), client.name();
         client.read({{2, 4096, client.address()}}, 4096);
       }},
      {"names memory",
       [](RawClient& client) {
         client.reach(), client.name();
         client.read({{1, 4096, client.address(client.sink.size() - 4095)}}, 4096);
       }},
      {"names memory",
       [](RawClient& client) {
         client.reach(), client.name();
         client.read({{1, 4096, client.address() - 1}}, 4096);
       }},
      {"names memory",
       [](RawClient& client) {
         client.reach(), client.name();
         client.read({{1, 4096, client.address()}}, 4096, wire::ITEM_VIEW);
       }},
      {"malformed",
       [](RawClient& client) {
         client.reach(), client.name();
         client.read({{1, 4095, client.address()}}, 4096);
       }},
      {"a SOURCE", [](RawClient& client) { client.source(1, 4096); }},
      {"names memory",
       [](RawClient& client) {
         client.reach();
         client.source(client.offer(4096), 4096);
       }},
      {"of no request",
       [](RawClient& client) {
         client.reach(), client.name();
         client.source(99, 4096);
       }},
      {"came before",
       [](RawClient& client) {
         client.reach(), client.name();
         const std::uint64_t id = client.offer(4 * MiB);
         client.source(id, 64 * KiB), client.source(id, 64 * KiB);
       }},
      {"sinks wait", [](RawClient& client) { client.reach(), client.name(), client.shred(); }},
      {"registrations", [](RawClient& client) { client.reach(), client.name_too_many(); }},
  };
  for (const auto& [reason, broken] : rules) {
    RawClient client;
    broken(client);
    const std::string farewell = client.peer->farewell();
    CAPTURE(farewell);
    CHECK(farewell.find(reason) != std::string::npos);
    CHECK(is_filled(client.sink, CANARY));
    CHECK(eventually([&] { return is_at_rest(*client.server); }));
  }
}

TEST_CASE("a client that takes nothing of what moves to it is cut off") {
  NEEDS_UCX();
  choose("tcp");
  RawClient client;
  client.sink = random_bytes(client.sink.size(), 5);
  client.reach();
  client.name();
  client.source(client.offer(4 * MiB), 4 * MiB);
  CHECK(client.response() == Status::ok);

  for (int reads = 0; reads < 8; ++reads)
    client.read({{1, 4 * MiB, client.address()}}, 4 * MiB);  // and it never calls UCX again

  CHECK(eventually([&] { return client.server->counts().connections == 0; }));
  CHECK(is_at_rest(*client.server));
}

TEST_CASE("what is offered and refused is not taken, however often its SOURCE comes") {
  NEEDS_UCX();
  RawClient client;
  client.reach();
  client.name();
  wire::Request request;
  const std::uint64_t id = client.peer->ask(
      wire::Op::offer,
      {{.name = page_name("ns", "none"), .flags = wire::ITEM_PAGE, .tag = 7},
       {.name = page_name("ns", "k"), .flags = wire::ITEM_PAGE, .length = BLOCK_BYTES, .tag = 7}});
  REQUIRE(client.receive().header.kind == wire::Kind::grant);

  for (int frame = 0; frame < 1'000; ++frame) client.source(id, BLOCK_BYTES);  // of the first
  client.source(id, BLOCK_BYTES, 0, 1);

  while (client.receive().header.kind != wire::Kind::response) {
  }
  CHECK(moved(*client.server, serve::Direction::in) == BLOCK_BYTES);
  CHECK(is_at_rest(*client.server));
}

TEST_CASE(
    "a node that comes back to an item in one table breaks a rule, as it would be read twice") {
  Rpc rpc(wire::Op::get, nullptr, NEVER_MS);
  Memory room(2 * BLOCK_BYTES);
  const Buffer all = whole(room);
  BufferCursor cursor(std::span(&all, 1));
  for (int item = 0; item < 2; ++item) rpc.add({}, cursor, BLOCK_BYTES);
  rpc.rewind();
  const auto table_of = [](std::initializer_list<std::uint16_t> items) {
    wire::DataTable table;
    for (const std::uint16_t item : items)
      table.pieces.push_back({.item = item, .hashes = 1, .length = BLOCK_BYTES, .tag = 1});
    return table;
  };

  CHECK(rpc.is_next(table_of({0, 1})));
  CHECK(rpc.is_next(table_of({1})));
  CHECK_FALSE(rpc.is_next(table_of({0, 1, 0})));
  CHECK_FALSE(rpc.is_next(table_of({0, 0})));
  CHECK_FALSE(rpc.is_next(table_of({1, 0})));
}
