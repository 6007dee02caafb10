// Raw peer: a blocking client that speaks frames, well-formed or not. And a node to speak to.
#pragma once

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <xxhash.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "introduction.h"
#include "name.h"
#include "placement.h"
#include "server.h"
#include "transport/tcp.h"
#include "wire.h"

namespace gd2fs::testing {

using wire::Bytes;
using wire::Kind;
using wire::Op;

inline constexpr std::int64_t PATIENCE_MS = 10'000;

inline Bytes random_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(count);
  for (std::size_t at = 0; at < count; at += 8) {
    const std::uint64_t value = random();
    std::memcpy(&bytes[at], &value, std::min<std::size_t>(8, count - at));  // never past the end
  }
  return bytes;
}

/// Polls until `is_true` or patience ends.
inline bool eventually(const std::function<bool()>& is_true) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(PATIENCE_MS);
  while (!is_true()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

inline wire::Map map_of(const std::vector<std::pair<std::string, std::string>>& nodes) {
  wire::Map map;
  map.epoch = 1;
  map.list_hash.fill(std::byte{7});
  for (const auto& [name, address] : nodes) {
    wire::MapNode node;
    node.id = node_id(name);
    node.addresses = name + "=" + address;
    map.nodes.push_back(node);
  }
  return map;
}

inline ServerOptions options_of(std::size_t arena_bytes, const std::string& name = "a") {
  ServerOptions options;
  options.cluster = "test";
  options.name = name;
  options.listen = {"127.0.0.1:0"};
  options.map = map_of({{name, "127.0.0.1:1"}});
  options.boot = 42;
  options.store.arena.bytes = arena_bytes;
  options.store.arena.rung = Rung::plain;
  return options;
}

inline std::unique_ptr<Server> start_node(const ServerOptions& options) {
  auto server = Server::start(options);
  REQUIRE_MESSAGE(static_cast<bool>(server), server.error().message);
  return std::move(*server);
}
inline std::unique_ptr<Server> start_node(std::size_t arena_bytes = 64 * MiB) {
  return start_node(options_of(arena_bytes));
}

struct Frame {
  wire::Header header;
  Bytes table;
  Bytes payload;
};

/// What a GET or READ came to: per item its bytes, in place, and its answer.
struct Fetched {
  std::vector<Bytes> bodies;
  std::vector<wire::ResponseItem> answers;
  std::size_t frames = 0;
};

class RawPeer {
 public:
  explicit RawPeer(const Server& server) : RawPeer(server.addresses().front()) {}
  explicit RawPeer(tcp::Descriptor socket) : socket_(std::move(socket)) {}
  explicit RawPeer(const std::string& address) {
    auto target = tcp::parse_host_port(address);
    auto resolved = tcp::resolve(*target);
    auto socket = tcp::connect_within(resolved->front(), nullptr, 2'000);
    REQUIRE(static_cast<bool>(socket));
    socket_ = std::move(*socket);
  }

  static wire::Hello hello() {
    wire::Hello hello;
    hello.cluster = "test";
    return hello;
  }
  /// A stream that may be used.
  static RawPeer greeted(const Server& server, wire::StreamClass kind = wire::StreamClass::bulk) {
    RawPeer peer(server);
    wire::Hello hello = RawPeer::hello();
    hello.stream_class = kind;
    peer.greet(hello);
    return peer;
  }

  void greet(const wire::Hello& hello, const std::optional<Token>& token = {}) {
    Introduction introduction(std::make_shared<TokenSource>(token));
    Bytes out;
    introduction.hello(out, hello);
    send(out);
    const Frame challenge = receive();
    REQUIRE(challenge.header.kind == Kind::challenge);
    const auto offered = wire::decode_challenge(challenge.table);
    REQUIRE(offered.has_value());
    capabilities = offered->capabilities;
    is_splicing_offered = (capabilities & wire::SPLICE_HOLDS) != 0;
    out.clear();
    introduction.proof(out, challenge.table);
    send(out);
    const Frame welcome = receive();
    REQUIRE(welcome.header.kind == Kind::welcome);
    REQUIRE(introduction.takes_welcome(welcome.table));
    rights = wire::decode_welcome(welcome.table)->rights;
    const Frame told = receive();
    REQUIRE(told.header.kind == Kind::map);
    map = *wire::decode_map(told.table);
  }

  /// False: the other side has closed.
  bool try_send(wire::View bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0)
        bytes = bytes.subspan(static_cast<std::size_t>(sent));
      else if (errno != EAGAIN || !wait(POLLOUT))
        return false;
    }
    return true;
  }
  void send(wire::View bytes) { REQUIRE(try_send(bytes)); }

  bool try_receive(std::span<std::byte> into) {
    while (!into.empty()) {
      const ssize_t got = recv(fd(), into.data(), into.size(), MSG_DONTWAIT);
      if (got > 0)
        into = into.subspan(static_cast<std::size_t>(got));
      else if (got == 0 || errno != EAGAIN || !wait(POLLIN))
        return false;
    }
    return true;
  }
  std::optional<Frame> try_receive_frame() {
    Frame frame;
    std::array<std::byte, HEADER_BYTES> head;
    if (!try_receive(head)) return {};
    const auto header = wire::decode_header(head);
    REQUIRE(header.has_value());
    frame.header = *header;
    frame.table.resize(header->table_bytes);
    frame.payload.resize(header->payload_bytes());
    if (!try_receive(frame.table) || !try_receive(frame.payload)) return {};
    REQUIRE(wire::check_matches(head, frame.table));
    return frame;
  }
  Frame receive() {
    auto frame = try_receive_frame();
    REQUIRE(frame.has_value());
    return std::move(*frame);
  }
  /// The reason of a GOODBYE, after which the stream must end.
  std::string farewell() {
    while (auto frame = try_receive_frame()) {
      if (frame->header.kind != Kind::goodbye) continue;
      std::byte more;
      CHECK(!try_receive(std::span(&more, 1)));
      return wire::decode_goodbye(frame->table);
    }
    return "no GOODBYE came";
  }
  bool is_closed_by_peer() {
    while (try_receive_frame()) {
    }
    return true;
  }

  /// Sends a REQUEST, answers its id.
  std::uint64_t ask(Op op, std::vector<wire::Item> items, std::uint8_t flags = 0,
                    std::uint32_t deadline_ms = 0) {
    wire::Request request;
    request.head.op = op;
    request.head.deadline_ms = deadline_ms;
    request.head.map_epoch = epoch;
    request.items = std::move(items);
    Bytes out;
    wire::encode_request(out, ++last_id, flags, request);
    send(out);
    return last_id;
  }
  /// The last frame of a request.
  Frame response(std::uint64_t id) {
    for (;;) {
      Frame frame = receive();
      REQUIRE(frame.header.kind != Kind::goodbye);
      if (frame.header.kind == Kind::response && frame.header.request == id) return frame;
    }
  }
  std::vector<wire::ResponseItem> answers(std::uint64_t id) {
    const Frame frame = response(id);
    CHECK((frame.header.flags & wire::LAST) != 0);
    wire::TableReader table(frame.table);
    return *wire::decode_response(table, frame.header.items);
  }
  wire::ResponseItem answer(Op op, wire::Item item) {
    return answers(ask(op, {std::move(item)})).at(0);
  }

  /// One DATA frame of one run of an item, with its sums.
  void send_data(std::uint64_t id, std::uint16_t item, std::uint64_t offset, wire::View bytes,
                 std::uint64_t spoil = 0) {
    wire::DataTable table;
    for (std::size_t at = 0; at < bytes.size(); at += BLOCK_BYTES) {
      const auto block = bytes.subspan(at, std::min<std::size_t>(BLOCK_BYTES, bytes.size() - at));
      table.hashes.push_back(XXH3_64bits(block.data(), block.size()) + spoil);
    }
    table.pieces.push_back({.item = item,
                            .hashes = static_cast<std::uint16_t>(table.hashes.size()),
                            .length = static_cast<std::uint32_t>(bytes.size()),
                            .offset = offset});
    Bytes out;
    wire::encode_data(out, id, 0, table, 0);
    send(out);
    send(bytes);
  }
  /// All of an item, in frames of at most 1 MiB.
  void send_body(std::uint64_t id, std::uint16_t item, wire::View bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += PAYLOAD_BYTES_MAX) {
      const std::size_t length = std::min(PAYLOAD_BYTES_MAX, bytes.size() - at);
      send_data(id, item, at, bytes.subspan(at, length));
    }
  }
  std::vector<wire::Grant> grants(std::uint64_t id) {
    const Frame frame = receive();
    REQUIRE(frame.header.kind == Kind::grant);
    REQUIRE(frame.header.request == id);
    return *wire::decode_grant(frame.table, frame.header.items);
  }

  Status put(wire::Item item, wire::View bytes) {
    item.length = bytes.size();
    const bool is_eager = bytes.size() <= EAGER_BYTES_MAX;
    const std::uint64_t id = ask(Op::offer, {std::move(item)}, is_eager ? wire::EAGER : 0);
    if (is_eager || grants(id).at(0).status == Status::ok) send_body(id, 0, bytes);
    return answers(id).at(0).status;
  }

  /// Runs a GET or READ to its end; verifies every block.
  Fetched fetch(Op op, std::vector<wire::Item> items) {
    Fetched fetched;
    for (const wire::Item& item : items) fetched.bodies.emplace_back(item.length);
    const std::uint64_t id = ask(op, std::move(items));
    for (;;) {
      const Frame frame = receive();
      REQUIRE(frame.header.request == id);
      if (frame.header.kind == Kind::response) {
        wire::TableReader table(frame.table);
        fetched.answers = *wire::decode_response(table, frame.header.items);
        return fetched;
      }
      REQUIRE(frame.header.kind == Kind::data);
      place(frame, fetched);
    }
  }

  int fd() const { return socket_.get(); }
  void close() { socket_.close(); }
  std::uint64_t last_id = 0;
  std::uint64_t epoch = 0;  // of the map that requests go by
  bool is_splicing_offered = false;
  std::uint64_t capabilities = 0;  // of CHALLENGE
  std::uint8_t rights = 0;         // of WELCOME
  wire::Map map;                   // that came with it

 private:
  bool wait(short events) {
    pollfd waiting{fd(), events, 0};
    return poll(&waiting, 1, static_cast<int>(PATIENCE_MS)) == 1;
  }
  static void place(const Frame& frame, Fetched& fetched) {
    ++fetched.frames;
    const auto table =
        wire::decode_data(frame.table, frame.header.items, frame.header.payload_bytes());
    REQUIRE(table.has_value());
    std::size_t at = 0, hash = 0;
    for (const wire::DataPiece& piece : table->pieces) {
      Bytes& body = fetched.bodies.at(piece.item);
      REQUIRE(piece.offset + piece.length <= body.size());
      std::memcpy(&body[piece.offset], &frame.payload[at], piece.length);  // checked above
      for (std::size_t done = 0; done < piece.length; done += BLOCK_BYTES) {
        const std::size_t length = std::min<std::size_t>(BLOCK_BYTES, piece.length - done);
        REQUIRE(XXH3_64bits(&frame.payload[at + done], length) == table->hashes.at(hash++));
      }
      at += piece.length;
    }
  }

  tcp::Descriptor socket_;
};

inline wire::Item page(const std::string& key, std::uint64_t length = 0) {
  wire::Item item;
  item.name = page_name("pages", key);
  item.flags = wire::ITEM_PAGE;
  item.length = length;
  item.tag = 5;
  return item;
}

inline wire::Item file_piece(const std::string& path, std::uint64_t chunk, std::uint64_t offset,
                             std::uint64_t length, std::uint64_t tag) {
  wire::Item item;
  item.name = path;
  item.chunk = chunk;
  item.offset = offset;
  item.length = length;
  item.tag = tag;
  return item;
}

}  // namespace gd2fs::testing
