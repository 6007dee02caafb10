#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "raw_peer.h"

namespace gd2fs::testing {
namespace {

TEST_CASE("an eager page is read back as it was put") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  const Bytes bytes = random_bytes(100'000, 1);

  REQUIRE(peer.put(page("k"), bytes) == Status::ok);
  const Fetched fetched = peer.fetch(Op::get, {page("k", bytes.size())});

  CHECK(fetched.answers.at(0).status == Status::ok);
  CHECK(fetched.answers.at(0).length == bytes.size());
  CHECK(fetched.bodies.at(0) == bytes);
}

TEST_CASE("a page of several frames is granted, sent and read back") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  const Bytes bytes = random_bytes(3 * MiB + 12'345, 2);

  REQUIRE(peer.put(page("k"), bytes) == Status::ok);
  const Fetched fetched = peer.fetch(Op::get, {page("k", 4 * MiB)});

  CHECK(fetched.frames == 4);
  CHECK(fetched.answers.at(0).length == bytes.size());
  CHECK(std::equal(bytes.begin(), bytes.end(), fetched.bodies.at(0).begin()));
}

TEST_CASE("a page that is longer than the buffer answers its length and no bytes") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  REQUIRE(peer.put(page("k"), random_bytes(5'000, 3)) == Status::ok);

  const Fetched fetched = peer.fetch(Op::get, {page("k", 4'999), page("none", 1)});

  CHECK(fetched.frames == 0);
  CHECK(fetched.answers.at(0).status == Status::invalid);
  CHECK(fetched.answers.at(0).length == 5'000);
  CHECK(fetched.answers.at(1).status == Status::miss);
}

TEST_CASE("16 MiB in one piece, its frames in any order") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  const Bytes bytes = random_bytes(16 * MiB, 4);
  const wire::Item piece = file_piece("/ns/file", 0, 0, bytes.size(), 77);

  const auto id = peer.ask(Op::offer, {piece});
  REQUIRE(peer.grants(id).at(0).status == Status::ok);
  std::vector<std::size_t> order(16);
  for (std::size_t index = 0; index < order.size(); ++index) order[index] = index;
  std::shuffle(order.begin(), order.end(), std::mt19937(4));
  for (const std::size_t index : order) {
    peer.send_data(id, 0, index * MiB, wire::View(bytes).subspan(index * MiB, MiB));
  }
  REQUIRE(peer.answers(id).at(0).status == Status::ok);
  const Fetched fetched = peer.fetch(Op::read, {piece});

  CHECK(fetched.answers.at(0).status == Status::ok);
  CHECK(fetched.bodies.at(0) == bytes);
}

TEST_CASE("any range of a piece is what was written there") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  constexpr std::uint64_t AT = 1'000;  // of the piece, in its chunk
  const Bytes bytes = random_bytes(2 * MiB + 777, 5);
  REQUIRE(peer.put(file_piece("/ns/file", 3, AT, 0, 9), bytes) == Status::ok);
  REQUIRE(peer.answer(Op::publish, file_piece("/ns/file", 3, 1, 0, 9)).status == Status::ok);

  std::mt19937_64 random(5);
  for (std::size_t round = 0; round < 100; ++round) {
    std::vector<wire::Item> items;
    for (std::size_t count = random() % 4 + 1; count > 0; --count) {
      const std::uint64_t begin = random() % bytes.size();
      const std::uint64_t longest = round % 2 == 0 ? bytes.size() : 70'000;
      const std::uint64_t length =
          std::min<std::uint64_t>(random() % longest + 1, bytes.size() - begin);
      items.push_back(file_piece("/ns/file", 3, AT + begin, length, 9));
    }
    const Fetched fetched = peer.fetch(Op::read, items);
    for (std::size_t index = 0; index < items.size(); ++index) {
      REQUIRE(fetched.answers.at(index).status == Status::ok);
      const auto begin = static_cast<std::ptrdiff_t>(items[index].offset - AT);
      const Bytes& body = fetched.bodies.at(index);
      REQUIRE(std::equal(body.begin(), body.end(), bytes.begin() + begin));
    }
  }
}

TEST_CASE("a range that the piece does not cover is a miss") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  REQUIRE(peer.put(file_piece("/ns/file", 0, 100, 0, 9), random_bytes(1'000, 6)) == Status::ok);

  const Fetched fetched = peer.fetch(
      Op::read, {file_piece("/ns/file", 0, 99, 2, 9), file_piece("/ns/file", 0, 1'099, 2, 9),
                 file_piece("/ns/file", 0, 100, 1'000, 8), file_piece("/ns/file", 1, 100, 1'000, 9),
                 file_piece("/ns/file", 0, ~std::uint64_t{0} - 1, 4, 9)});

  for (std::size_t index = 0; index < 4; ++index) {
    CHECK(fetched.answers.at(index).status == Status::miss);
  }
  CHECK(fetched.answers.at(4).status == Status::invalid);
}

TEST_CASE("a range of a page is what the page has of it, perhaps nothing") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  const Bytes bytes = random_bytes(200'000, 7);
  REQUIRE(peer.put(page("key"), bytes) == Status::ok);
  const auto range = [](std::uint64_t offset, std::uint64_t length) {
    wire::Item item = page("key", length);
    item.flags |= wire::ITEM_RANGE;
    item.offset = offset;
    return item;
  };

  const Fetched fetched = peer.fetch(
      Op::get, {range(0, 65'536), range(65'536, 131'072), range(131'072, 500'000),
                range(70'000, 10), range(200'000, 5), range(~std::uint64_t{0}, 5), range(10, 0)});

  for (std::size_t index = 0; index < 7; ++index) {
    REQUIRE(fetched.answers.at(index).status == Status::ok);
    CHECK(fetched.answers.at(index).length == bytes.size());
    CHECK(fetched.answers.at(index).gen == fetched.answers.at(0).gen);
  }
  const auto part = [&](std::size_t from, std::size_t to) {
    return Bytes(bytes.begin() + static_cast<std::ptrdiff_t>(from),
                 bytes.begin() + static_cast<std::ptrdiff_t>(to));
  };
  CHECK(fetched.bodies.at(0) == part(0, 65'536));
  CHECK(fetched.bodies.at(1) == part(65'536, 196'608));
  CHECK(Bytes(fetched.bodies.at(2).begin(), fetched.bodies.at(2).begin() + 68'928) ==
        part(131'072, 200'000));
  CHECK(fetched.bodies.at(3) == part(70'000, 70'010));
  for (const std::size_t index : {4u, 5u}) CHECK(fetched.bodies.at(index) == Bytes(5));
}

TEST_CASE("a second put of a key moves no bytes") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  REQUIRE(peer.put(page("k"), random_bytes(400'000, 7)) == Status::ok);
  const std::uint64_t bytes_in = server->counts().bytes_in;

  const auto id = peer.ask(Op::offer, {page("k", 400'000)});
  const auto grants = peer.grants(id);

  CHECK(grants.at(0).status == Status::have);
  CHECK(peer.answers(id).at(0).status == Status::have);
  CHECK(server->counts().bytes_in == bytes_in);
}

TEST_CASE("bytes of an eager put that is not wanted are thrown away") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  const Bytes first = random_bytes(50'000, 8);
  REQUIRE(peer.put(page("k"), first) == Status::ok);

  CHECK(peer.put(page("k"), random_bytes(50'000, 9)) == Status::have);

  CHECK(peer.fetch(Op::get, {page("k", 50'000)}).bodies.at(0) == first);
}

TEST_CASE("several items in one frame, some refused") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  const Bytes bytes = random_bytes(30'000, 10);
  REQUIRE(peer.put(page("b"), bytes) == Status::ok);
  const auto id =
      peer.ask(Op::offer, {page("a", 30'000), page("b", 30'000), page("c", 30'000)}, wire::EAGER);

  for (std::uint16_t item = 0; item < 3; ++item) peer.send_data(id, item, 0, bytes);
  const auto answers = peer.answers(id);

  CHECK(answers.at(0).status == Status::ok);
  CHECK(answers.at(1).status == Status::have);
  CHECK(answers.at(2).status == Status::ok);
  CHECK(peer.fetch(Op::get, {page("c", 30'000)}).bodies.at(0) == bytes);
}

TEST_CASE("bytes that do not match their sum are never readable and their memory comes back") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  const std::uint64_t free_bytes = server->counts().store.free_bytes;
  const Bytes bytes = random_bytes(200'000, 11);

  const auto id = peer.ask(Op::offer, {page("k", bytes.size())});
  REQUIRE(peer.grants(id).at(0).status == Status::ok);
  peer.send_data(id, 0, 0, bytes, 1);

  CHECK(peer.answers(id).at(0).status == Status::corrupt);
  CHECK(peer.fetch(Op::get, {page("k", bytes.size())}).answers.at(0).status == Status::miss);
  CHECK(server->counts().store.free_bytes == free_bytes);
  CHECK(server->counts().corrupt_in == 1);
}

TEST_CASE("a batch of 4096 pages comes in few frames") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  constexpr std::size_t COUNT = 4096;
  constexpr std::size_t PAGE = 300;
  std::vector<wire::Item> items;
  for (std::size_t index = 0; index < COUNT; ++index) {
    items.push_back(page("key" + std::to_string(index), PAGE));
  }
  const Bytes bytes = random_bytes(COUNT * PAGE, 12);
  // The node lends a stream a share of its arena at a time: what it answers `retry` to is offered
  // again.
  std::vector<std::size_t> missing(COUNT);
  for (std::size_t index = 0; index < COUNT; ++index) missing[index] = index;
  while (!missing.empty()) {
    std::vector<wire::Item> offered;
    for (const std::size_t index : missing) offered.push_back(items[index]);
    const auto id = peer.ask(Op::offer, offered);
    const auto grants = peer.grants(id);
    for (const wire::Grant& grant : grants) {
      if (grant.status != Status::ok) continue;
      peer.send_data(id, grant.item, 0,
                     wire::View(bytes).subspan(missing[grant.item] * PAGE, PAGE));
    }
    const auto answers = peer.answers(id);
    std::vector<std::size_t> again;
    for (std::size_t index = 0; index < answers.size(); ++index) {
      REQUIRE((answers[index].status == Status::ok || answers[index].status == Status::retry));
      if (answers[index].status == Status::retry) again.push_back(missing[index]);
    }
    REQUIRE(again.size() < missing.size());
    missing = again;
  }

  const Fetched fetched = peer.fetch(Op::get, items);

  // A frame has what the node finds within a millisecond: some more of them where it is slow.
  CHECK(fetched.frames <= COUNT / 32);
  for (std::size_t index = 0; index < COUNT; ++index) {
    const auto at = static_cast<std::ptrdiff_t>(index * PAGE);
    REQUIRE(
        std::equal(fetched.bodies[index].begin(), fetched.bodies[index].end(), bytes.begin() + at));
  }
}

TEST_CASE("a reader that pauses while its page is dropped and all memory reused gets its bytes") {
  auto server = start_node(32 * MiB);
  RawPeer writer = RawPeer::greeted(*server);
  RawPeer reader = RawPeer::greeted(*server);
  const Bytes bytes = random_bytes(8 * MiB, 13);
  REQUIRE(writer.put(page("slow"), bytes) == Status::ok);

  const auto id = reader.ask(Op::get, {page("slow", bytes.size())});
  REQUIRE(eventually([&] { return server->counts().hits > 0 || server->counts().bytes_out > 0; }));
  REQUIRE(writer.answer(Op::drop, page("slow")).status == Status::ok);
  const Bytes other = random_bytes(2 * MiB, 14);
  for (std::size_t index = 0; index < 20; ++index) {
    REQUIRE(writer.put(page("other" + std::to_string(index)), other) == Status::ok);
  }
  CHECK(server->counts().store.evicted_pieces > 0);

  Bytes read(bytes.size());
  for (;;) {
    const Frame frame = reader.receive();
    REQUIRE(frame.header.request == id);
    if (frame.header.kind == Kind::response) break;
    const auto table =
        wire::decode_data(frame.table, frame.header.items, frame.header.payload_bytes());
    REQUIRE(table->pieces.size() == 1);
    std::memcpy(&read[table->pieces[0].offset], frame.payload.data(), frame.payload.size());
  }
  CHECK(read == bytes);
  CHECK(eventually([&] { return server->counts().store.zombie_bytes == 0; }));
}

TEST_CASE("a small get beside bulk on the same stream does not wait for all of it") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  const Bytes bulk = random_bytes(6 * MiB, 14);
  REQUIRE(peer.put(page("bulk"), bulk) == Status::ok);
  REQUIRE(peer.put(page("small"), random_bytes(100, 15)) == Status::ok);

  const auto bulk_id = peer.ask(Op::get, {page("bulk", bulk.size())});
  const auto small_id = peer.ask(Op::get, {page("small", 100)});
  std::vector<std::uint64_t> ends;
  while (ends.size() < 2) {
    const Frame frame = peer.receive();
    if (frame.header.kind == Kind::response) ends.push_back(frame.header.request);
  }

  CHECK(ends == std::vector<std::uint64_t>{small_id, bulk_id});
}

TEST_CASE("a node with open streams stops within a second") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  const auto id = peer.ask(Op::offer, {page("k", MiB)});
  REQUIRE(peer.grants(id).at(0).status == Status::ok);

  const auto begin = std::chrono::steady_clock::now();
  server = nullptr;

  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(1));
  CHECK(peer.is_closed_by_peer());
}

}  // namespace
}  // namespace gd2fs::testing
