#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "raw_peer.h"

namespace gd2fs::testing {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string refusal(const Server& server, const wire::Hello& hello) {
  RawPeer peer(server);
  Bytes out;
  wire::encode_hello(out, hello);
  peer.send(out);
  return peer.farewell();
}

std::uint64_t free_bytes(const Server& server) { return server.counts().store.free_bytes; }

/// Is this node still of use?
bool is_alive(const Server& server) {
  RawPeer peer = RawPeer::greeted(server);
  const Bytes bytes = random_bytes(70'000, 99);
  peer.put(page("alive"), bytes);
  const bool is_there = peer.fetch(Op::get, {page("alive", bytes.size())}).bodies.at(0) == bytes;
  return is_there && peer.answer(Op::drop, page("alive")).status == Status::ok;
}

TEST_CASE("another cluster, version or node list is refused with what was expected and got") {
  auto server = start_node();

  wire::Hello cluster = RawPeer::hello();
  cluster.cluster = "other";
  const std::string by_cluster = refusal(*server, cluster);
  CHECK(contains(by_cluster, "`test`"));
  CHECK(contains(by_cluster, "`other`"));

  wire::Hello version = RawPeer::hello();
  version.version_min = 2;
  version.version_max = 9;
  CHECK(contains(refusal(*server, version), "speaks version 1, the other side 2 to 9"));

  wire::Hello list = RawPeer::hello();
  list.list_hash.fill(std::byte{8});
  const std::string by_list = refusal(*server, list);
  CHECK(contains(by_list, "node `a` has node list 07070707"));
  CHECK(contains(by_list, "08080808"));
  CHECK(server->counts().refused == 3);
}

TEST_CASE("the same node list is welcome") {
  auto server = start_node();
  RawPeer peer(*server);
  wire::Hello hello = RawPeer::hello();
  hello.list_hash.fill(std::byte{7});

  peer.greet(hello);

  CHECK(peer.answer(Op::ping, {}).status == Status::ok);
}

TEST_CASE("what is not a greeting is refused") {
  auto server = start_node();

  RawPeer web(*server);
  web.send(std::as_bytes(std::span("GET / HTTP/1.1\r\nHost: node\r\n\r\n........")));
  CHECK(contains(web.farewell(), "malformed"));

  RawPeer large(*server);
  Bytes out;
  wire::FrameWriter frame(out, Kind::hello, 0);
  frame.bytes(Bytes(HELLO_BYTES_MAX + 1));
  frame.finish(0, 0, 0);
  large.send(out);
  CHECK(contains(large.farewell(), "at most 512"));

  RawPeer early(*server);
  early.ask(Op::ping, {});
  CHECK(contains(early.farewell(), "HELLO"));
}

TEST_CASE("a stranger who says nothing is closed after two seconds") {
  auto server = start_node();
  RawPeer peer(*server);

  CHECK(contains(peer.farewell(), "2000 ms"));
}

TEST_CASE("one source has at most so many unproven connections") {
  auto server = start_node();
  std::vector<RawPeer> peers;
  for (std::size_t count = 0; count < UNAUTHENTICATED_MAX; ++count) peers.emplace_back(*server);
  REQUIRE(eventually([&] { return server->counts().accepted == UNAUTHENTICATED_MAX; }));

  RawPeer last(*server);
  CHECK(contains(last.farewell(), "have not proven themselves yet"));

  peers.clear();
  REQUIRE(eventually([&] { return server->counts().connections == 0; }));
  CHECK(is_alive(*server));
}

TEST_CASE("more requests in flight than a stream may have end it") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  for (std::size_t count = 0; count < REQUESTS_MAX; ++count) {
    peer.ask(Op::offer, {page("k" + std::to_string(count), 100)});
  }
  for (std::size_t count = 0; count < REQUESTS_MAX; ++count) {
    REQUIRE(peer.receive().header.kind == Kind::grant);
  }

  peer.ask(Op::offer, {page("one too many", 100)});

  CHECK(contains(peer.farewell(), "64 requests"));
  CHECK(server->counts().protocol_faults == 1);
}

TEST_CASE("an unknown op, or one between nodes, answers invalid and the stream goes on") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);

  for (const int op : {17, 63, 69, 200}) {
    Bytes out;
    wire::FrameWriter frame(out, Kind::request, ++peer.last_id);
    frame.u8(static_cast<std::uint8_t>(op));
    frame.bytes(Bytes(31));
    frame.finish(0, 0, 0);
    peer.send(out);
    CHECK(peer.answers(peer.last_id).at(0).status == Status::invalid);
  }
  for (const Op op : {Op::replicate, Op::pull, Op::epoch, Op::is_listed}) {
    CHECK(peer.answer(op, file_piece("/ns/f", 0, 0, 0, 1)).status == Status::invalid);
  }
  CHECK(peer.answer(Op::ping, {}).status == Status::ok);
}

TEST_CASE("a broken frame ends the stream and frees what it was filling") {
  auto server = start_node();
  const std::uint64_t before = free_bytes(*server);
  const Bytes block = random_bytes(BLOCK_BYTES, 1);
  using Fault = std::function<void(RawPeer&, std::uint64_t)>;
  const std::vector<std::pair<std::string, Fault>> faults = {
      {"came before",
       [&](RawPeer& peer, std::uint64_t id) {
         peer.send_data(id, 0, 0, block);
         peer.send_data(id, 0, 0, block);
       }},
      {"past the end",
       [&](RawPeer& peer, std::uint64_t id) { peer.send_data(id, 0, 4 * BLOCK_BYTES, block); }},
      {"not cut", [&](RawPeer& peer, std::uint64_t id) { peer.send_data(id, 0, 100, block); }},
      {"not cut",
       [&](RawPeer& peer, std::uint64_t id) {
         peer.send_data(id, 0, 0, wire::View(block).first(100));
       }},
      {"no such item", [&](RawPeer& peer, std::uint64_t id) { peer.send_data(id, 1, 0, block); }},
      {"never made", [&](RawPeer& peer, std::uint64_t id) { peer.send_data(id + 1, 0, 0, block); }},
      {"ids rise",
       [&](RawPeer& peer, std::uint64_t) {
         peer.last_id = 0;
         peer.ask(Op::ping, {});
       }},
      {"check",
       [&](RawPeer& peer, std::uint64_t) {
         Bytes out;
         wire::encode_ack(out, Kind::ack, 1, 0);
         out[20] ^= std::byte{1};
         peer.send(out);
       }},
  };

  for (const auto& [reason, fault] : faults) {
    RawPeer peer = RawPeer::greeted(*server);
    const auto id = peer.ask(Op::offer, {page("k", 4 * BLOCK_BYTES)});
    REQUIRE(peer.grants(id).at(0).status == Status::ok);
    fault(peer, id);
    const std::string said = peer.farewell();
    CHECK_MESSAGE(contains(said, reason), said);
  }
  CHECK(server->counts().protocol_faults == faults.size());
  CHECK(eventually([&] { return free_bytes(*server) == before; }));
}

TEST_CASE("an eager offer of too much is refused before anything is allocated") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);

  peer.ask(Op::offer, {page("k", EAGER_BYTES_MAX + 1)}, wire::EAGER);

  CHECK(contains(peer.farewell(), "262145 B, at most 262144"));
}

TEST_CASE("nothing goes past a site's rule by coming without having been asked for") {
  ServerOptions options = options_of(64 * MiB);
  options.is_judged = true;
  auto server = start_node(options);
  RawPeer peer = RawPeer::greeted(*server);

  peer.ask(Op::offer, {page("k", 100)}, wire::EAGER);

  CHECK(contains(peer.farewell(), "100 B, at most 0"));
}

TEST_CASE("a writer that vanishes leaves nothing behind") {
  auto server = start_node();
  const std::uint64_t before = free_bytes(*server);
  for (std::size_t round = 0; round < 20; ++round) {
    RawPeer peer = RawPeer::greeted(*server);
    const Bytes bytes = random_bytes(MiB, round);
    const auto id = peer.ask(Op::offer, {page("k", MiB)});
    REQUIRE(peer.grants(id).at(0).status == Status::ok);
    Bytes out;
    peer.send_data(id, 0, 0, wire::View(bytes).first(256 * KiB));
    peer.send(wire::View(random_bytes(20, round)));  // the beginning of a frame that never comes
    peer.close();
  }

  CHECK(eventually([&] { return free_bytes(*server) == before; }));
  CHECK(is_alive(*server));
}

TEST_CASE("a cancelled offer frees its memory, and what was under way is thrown away") {
  auto server = start_node();
  const std::uint64_t before = free_bytes(*server);
  RawPeer peer = RawPeer::greeted(*server);
  const Bytes bytes = random_bytes(512 * KiB, 3);
  const auto id = peer.ask(Op::offer, {page("k", bytes.size())});
  REQUIRE(peer.grants(id).at(0).status == Status::ok);
  peer.send_data(id, 0, 0, wire::View(bytes).first(256 * KiB));

  Bytes out;
  wire::encode_ack(out, Kind::cancel, id, 0);
  peer.send(out);

  CHECK(peer.answers(id).at(0).status == Status::cancelled);
  CHECK(free_bytes(*server) == before);
  peer.send_data(id, 0, 256 * KiB, wire::View(bytes).subspan(256 * KiB));
  CHECK(peer.answer(Op::ping, {}).status == Status::ok);
}

TEST_CASE("a cancelled read ends once") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  REQUIRE(peer.put(page("k"), random_bytes(6 * MiB, 4)) == Status::ok);

  const auto id = peer.ask(Op::get, {page("k", 6 * MiB)});
  Bytes out;
  wire::encode_ack(out, Kind::cancel, id, 0);
  peer.send(out);
  const Status status = peer.answers(id).at(0).status;

  CHECK((status == Status::cancelled || status == Status::ok));
  const auto ping = peer.ask(Op::ping, {});
  const Frame next = peer.receive();
  CHECK(next.header.request == ping);
}

TEST_CASE("a grant that is not used expires and frees its memory") {
  auto server = start_node();
  const std::uint64_t before = free_bytes(*server);
  RawPeer peer = RawPeer::greeted(*server);

  const auto late = peer.ask(Op::offer, {page("late", 100)}, 0, 200);
  const auto idle = peer.ask(Op::offer, {page("idle", 100)}, 0, 0);

  CHECK(peer.answers(late).at(0).status == Status::expired);
  CHECK(peer.answers(idle).at(0).status == Status::expired);
  CHECK(free_bytes(*server) == before);
}

TEST_CASE("an answer to ACK with CONFIRM says that the bytes were held") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  const Bytes bytes = random_bytes(1'000, 8);
  REQUIRE(peer.put(page("k"), bytes) == Status::ok);
  peer.fetch(Op::get, {page("k", bytes.size())});
  Bytes out;
  wire::encode_ack(out, Kind::ack, 7, bytes.size(), wire::CONFIRM);

  peer.send(out);

  const Frame frame = peer.receive();
  CHECK(frame.header.kind == Kind::acked);
  CHECK(frame.header.request == 7);
  CHECK(frame.header.consumed == bytes.size());
}

TEST_CASE("who claims to have read more than was sent is shown out") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  Bytes out;
  wire::encode_ack(out, Kind::ack, 0, 1);

  peer.send(out);

  CHECK(peer.farewell() == "a frame says that more was read than was ever sent");
}

/// A well-formed conversation as bytes, to be bent.
Bytes conversation(std::mt19937_64& random) {
  Bytes out;
  wire::encode_hello(out, RawPeer::hello());
  wire::encode_proof(out, wire::Proof{});
  std::uint64_t id = 0;
  for (std::size_t count = random() % 6 + 1; count > 0; --count) {
    wire::Request request;
    const auto op = static_cast<Op>(random() % 14 + 1);
    request.head.op = wire::item_bytes(op) == 0 ? Op::ping : op;
    request.items.push_back(
        random() % 2 == 0
            ? page("k" + std::to_string(random() % 3), random() % 200'000)
            : file_piece("/ns/f", random() % 2, random() % 1000, random() % 200'000, random() % 3));
    wire::encode_request(out, ++id, random() % 2 == 0 ? wire::EAGER : 0, request);
    if (request.head.op != Op::offer || request.items[0].length == 0) continue;
    wire::DataTable table;
    table.hashes.resize(wire::blocks_of(request.items[0].length));
    table.pieces.push_back({.hashes = static_cast<std::uint16_t>(table.hashes.size()),
                            .length = static_cast<std::uint32_t>(request.items[0].length)});
    wire::encode_data(out, id, 0, table, 0);
    out.resize(out.size() + request.items[0].length);
  }
  return out;
}

TEST_CASE("cut, bent and random streams leave the node alive and its memory free") {
  auto server = start_node();
  REQUIRE(is_alive(*server));
  const std::uint64_t before = free_bytes(*server);
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    Bytes out = conversation(random);
    if (seed % 3 == 0) out.resize(random() % out.size() + 1);
    for (std::size_t bends = seed % 3 == 1 ? random() % 4 + 1 : 0; bends > 0; --bends) {
      out[random() % out.size()] ^= static_cast<std::byte>(1u << random() % 8);
    }
    RawPeer peer(*server);
    peer.try_send(out);
    shutdown(peer.fd(), SHUT_WR);
    CHECK_MESSAGE(peer.is_closed_by_peer(), "seed " << seed);
  }

  RawPeer sweeper = RawPeer::greeted(*server);
  for (const char* key : {"k0", "k1", "k2"}) sweeper.answer(Op::drop, page(key));
  sweeper.answer(Op::drop, file_piece("/ns/f", 0, 0, 0, 0));
  CHECK(eventually([&] { return free_bytes(*server) == before; }));
  CHECK(is_alive(*server));
}

}  // namespace
}  // namespace gd2fs::testing
