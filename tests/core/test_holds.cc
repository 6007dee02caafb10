// Bytes that leave the arena by reference: when, how many, and until when they are held.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "holds.h"

#include "raw_peer.h"
#include "transport/splice.h"
#include "transport/unix.h"

namespace gd2fs::testing {
namespace {

constexpr std::size_t ARENA_BYTES = 64 * MiB;  // so a stream may hold 1 MiB

ServerOptions splicing() {
  ServerOptions options = options_of(ARENA_BYTES);
  options.store.arena.rung = Rung::thp;
  options.zero_copy = ZeroCopy::on;
  return options;
}

RawPeer holding_peer(const Server& server) {
  RawPeer peer(server);
  wire::Hello hello = RawPeer::hello();
  hello.capabilities = wire::SPLICE_HOLDS;
  peer.greet(hello);
  return peer;
}

void acknowledge(RawPeer& peer, std::uint64_t consumed) {
  Bytes out;
  wire::encode_ack(out, Kind::ack, 0, consumed);
  peer.send(out);
}

TEST_CASE("a page of memory that changes after its splice is seen changed") {
  auto arena = Arena::open({.bytes = 2 * MiB, .rung = Rung::thp, .path = ""});
  REQUIRE(arena);

  const std::string fault = splice_fault(arena->memory());

  // Some systems forbid it, or copy: then this says so, and nothing is spliced there.
  CHECK((fault.empty() || fault.find("refused") != std::string::npos ||
         fault.find("copies") != std::string::npos || fault.find("pipe") != std::string::npos));
}

TEST_CASE("a pool gives at most so many pipes, and takes back only empty ones") {
  PipePool pool;
  std::vector<std::unique_ptr<Pipe>> taken;
  for (std::size_t at = 0; at < PipePool::PIPES_MAX; ++at) {
    if (auto pipe = pool.take()) taken.push_back(std::move(pipe));
  }
  REQUIRE(taken.size() == PipePool::PIPES_MAX);
  CHECK(pool.take() == nullptr);

  std::byte left{7};
  const iovec run{&left, 1};
  REQUIRE(taken.back()->fill(std::span(&run, 1)) == 1);
  pool.give(std::move(taken.back()));  // closed: its bytes belong to nobody now
  const auto fresh = pool.take();

  REQUIRE(fresh != nullptr);
  CHECK(fresh->filled() == 0);
}

TEST_CASE("a reader that acknowledges nothing gets copies once its share is held") {
  auto server = start_node(splicing());
  if (!RawPeer::greeted(*server).is_splicing_offered) {
    MESSAGE("skipped: this system does not splice without a copy");
    return;
  }
  RawPeer peer = holding_peer(*server);
  const Bytes bytes = random_bytes(8 * MiB, 3);
  REQUIRE(peer.put(page("k"), bytes) == Status::ok);

  const Fetched fetched = peer.fetch(Op::get, {page("k", bytes.size())});

  CHECK(fetched.bodies.at(0) == bytes);
  CHECK(server->counts().bytes_spliced == 1 * MiB);
  CHECK(server->counts().held_bytes == 1 * MiB);
  acknowledge(peer, bytes.size());
  CHECK(eventually([&] { return server->counts().held_bytes == 0; }));
}

TEST_CASE("dropped pages stay in the arena until their reader has them") {
  auto server = start_node(splicing());
  RawPeer peer = holding_peer(*server);
  if (!peer.is_splicing_offered) return;
  const Bytes bytes = random_bytes(1 * MiB, 4);
  REQUIRE(peer.put(page("k"), bytes) == Status::ok);
  peer.fetch(Op::get, {page("k", bytes.size())});

  peer.answer(Op::drop, page("k"));

  CHECK(server->counts().store.zombie_bytes == 1 * MiB);
  acknowledge(peer, bytes.size());
  CHECK(eventually([&] { return server->counts().store.zombie_bytes == 0; }));
}

TEST_CASE("a reader that takes nothing is cut off, one that reads slowly is not") {
  ServerOptions options = splicing();
  options.hold_silence_ms = 300;
  auto server = start_node(options);
  RawPeer stuck = holding_peer(*server);
  if (!stuck.is_splicing_offered) return;
  const Bytes bytes = random_bytes(8 * MiB, 5);
  REQUIRE(stuck.put(page("k"), bytes) == Status::ok);

  stuck.ask(Op::get, {page("k", bytes.size())});

  CHECK(eventually([&] { return server->counts().cut_off == 1; }));
  CHECK(eventually([&] { return server->counts().held_bytes == 0; }));
  CHECK(eventually([&] { return server->counts().connections == 0; }));
}

TEST_CASE(
    "a reader of this host that takes nothing of copies is cut off, one that is slow is not") {
  ServerOptions options = options_of(ARENA_BYTES);
  options.hold_silence_ms = 300;
  // Its Unix socket is named after it: other processes run this test, too.
  options.map = map_of({{"a", "node-" + std::to_string(getpid()) + ":1"}});
  auto server = start_node(options);
  RawPeer stuck(local::connect_to(server->socket_name()));
  RawPeer slow(local::connect_to(server->socket_name()));
  stuck.greet(RawPeer::hello());
  slow.greet(RawPeer::hello());
  const Bytes bytes = random_bytes(8 * MiB, 5);
  REQUIRE(slow.put(page("k"), bytes) == Status::ok);

  stuck.ask(Op::get, {page("k", bytes.size())});
  slow.ask(Op::get, {page("k", bytes.size())});
  Bytes taken;
  CHECK(eventually([&] {
    Bytes some(4 * KiB);
    REQUIRE(slow.try_receive(some));
    taken.insert(taken.end(), some.begin(), some.end());
    pollfd until_cut{stuck.fd(), POLLRDHUP, 0};
    return poll(&until_cut, 1, 1) == 1;
  }));

  CHECK(server->counts().cut_off == 1);
  CHECK(taken.size() < bytes.size());
  Bytes rest(bytes.size() - taken.size());
  CHECK(slow.try_receive(rest));
}

TEST_CASE("who does not promise to say what it has read gets copies") {
  auto server = start_node(splicing());
  RawPeer peer = RawPeer::greeted(*server);
  const Bytes bytes = random_bytes(4 * MiB, 6);
  REQUIRE(peer.put(page("k"), bytes) == Status::ok);

  CHECK(peer.fetch(Op::get, {page("k", bytes.size())}).bodies.at(0) == bytes);

  CHECK(server->counts().bytes_spliced == 0);
}

TEST_CASE("a stream's holds are counted, and end with it") {
  serve::HoldBudget budget(64 * MiB);
  {
    serve::Holds holds(budget);
    const PieceRef nobody;
    holds.count(100);
    holds.add(1'000, std::span(&nobody, 1));
    CHECK(holds.bytes() == 1'000);
    CHECK(holds.release(100, 1));
    CHECK(holds.bytes() == 1'000);
    CHECK(holds.waiting_since_ms(5) == 1);
    CHECK(!holds.release(1'101, 6));
    CHECK(holds.release(1'100, 6));
    CHECK(holds.bytes() == 0);
    CHECK(holds.waiting_since_ms(7) == 0);
    holds.add(2'000, std::span(&nobody, 1));
    CHECK(budget.held_bytes == 2'000);
    CHECK(!holds.has_room(1 * MiB));
    CHECK(holds.has_room(1 * MiB - 2'000));
  }
  CHECK(budget.held_bytes == 0);
}

}  // namespace
}  // namespace gd2fs::testing
