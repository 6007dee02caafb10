#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "store_setup.h"

#include <algorithm>

using namespace gd2fs;

TEST_CASE("a piece of a file is found by its tag when staged, as the latest only when live") {
  const auto store = open_store(16 * MiB);
  const PieceRef piece = store->reserve(file_spec("/ns/f", 3, 77, 4096, 8192)).piece;
  fill(piece, 77);
  REQUIRE(store->stage(piece) == Status::ok);
  CHECK(store->find_piece("/ns/f", 3, 77, true) == piece);
  CHECK(store->find_latest("/ns/f", 3, 4096, 100, true) == nullptr);
  CHECK(store->reserve(file_spec("/ns/f", 3, 77, 4096, 8192)).status == Status::have);

  CHECK(store->publish("/ns/f", 3, 77, 9) == Status::ok);

  CHECK(store->find_latest("/ns/f", 3, 5000, 7288, true) == piece);
  CHECK(store->find_latest("/ns/f", 3, 5000, 7289, true) == nullptr);
  CHECK(store->find_latest("/ns/f", 3, 4095, 2, true) == nullptr);
  CHECK(store->find_piece("/ns/f", 2, 77, true) == nullptr);
  CHECK(store->find_piece("/ns/g", 3, 77, true) == nullptr);
  CHECK(piece->seq() == 9);
  CHECK(store->publish("/ns/f", 3, 78, 9) == Status::miss);
}

TEST_CASE("a piece that newer ones cover goes, one that shows anywhere stays") {
  const auto store = open_store(16 * MiB);
  REQUIRE(put_piece(*store, file_spec("/ns/f", 0, 1, 0, 100'000), 1) == Status::ok);
  REQUIRE(put_piece(*store, file_spec("/ns/f", 0, 2, 0, 60'000), 2) == Status::ok);
  REQUIRE(put_piece(*store, file_spec("/ns/f", 0, 3, 60'000, 39'999), 3) == Status::ok);
  CHECK(store->find_piece("/ns/f", 0, 1, false) != nullptr);

  REQUIRE(put_piece(*store, file_spec("/ns/f", 0, 4, 50'000, 50'000), 4) == Status::ok);

  CHECK(store->find_piece("/ns/f", 0, 1, false) == nullptr);
  CHECK(store->find_piece("/ns/f", 0, 2, false) != nullptr);
  CHECK(store->find_piece("/ns/f", 0, 3, false) == nullptr);
  CHECK(store->counts().pieces == 2);
  REQUIRE(put_piece(*store, file_spec("/ns/f", 0, 5, 50'000, 10), 3) == Status::ok);
  CHECK(store->find_piece("/ns/f", 0, 5, false) == nullptr);
}

TEST_CASE("staged pieces are named once their writer has been silent long enough") {
  const auto store = open_store(16 * MiB);
  REQUIRE(store->stage(store->reserve(file_spec("/ns/f", 1, 5, 0, 100)).piece) == Status::ok);
  REQUIRE(put_piece(*store, file_spec("/ns/f", 1, 6, 200, 100), 2) == Status::ok);
  CHECK(store->staged_before(boottime_ms() - STAGED_MS, 10).empty());

  const auto names = store->staged_before(boottime_ms(), 10);

  REQUIRE(names.size() == 1);
  CHECK(names[0].name == "/ns/f");
  CHECK(names[0].chunk == 1);
  CHECK(names[0].tag == 5);
}

TEST_CASE("a chunk never has more pieces than its limit, and the newest is among them") {
  const auto store = open_store(16 * MiB);
  for (std::uint64_t tag = 1; tag <= 1500; ++tag) {
    REQUIRE(store->stage(store->reserve(file_spec("/ns/f", 0, tag, 0, 100)).piece) == Status::ok);
  }

  CHECK(store->counts().staged_bytes == 1024 * GRAIN_BYTES);
  CHECK(store->find_piece("/ns/f", 0, 1500, false) != nullptr);
}

TEST_CASE("dropping a file drops all its pieces and no others") {
  const auto store = open_store(16 * MiB);
  for (std::uint64_t i = 0; i < 300; ++i) {
    REQUIRE(put_piece(*store, file_spec("/ns/f", i, 1, 0, 100), 1) == Status::ok);
  }
  REQUIRE(put_piece(*store, file_spec("/ns/ff", 0, 1, 0, 100), 1) == Status::ok);

  CHECK(store->drop_file("/ns/f") == 300);

  CHECK(store->drop_file("/ns/f") == 0);
  CHECK(store->counts().pieces == 1);
  CHECK(store->drop_piece("/ns/ff", 0, 1));
  CHECK_FALSE(store->drop_piece("/ns/ff", 0, 1));
}

TEST_CASE("clearing a namespace takes its pages and files, and leaves its neighbours") {
  const auto store = open_store(32 * MiB);
  for (std::size_t i = 0; i < 2000; ++i) {
    REQUIRE(put_page(*store, key(i), 100, i) == Status::ok);
    REQUIRE(put_page(*store, page_name("ns2", std::to_string(i)), 100, i) == Status::ok);
  }
  for (std::uint64_t i = 0; i < 200; ++i) {
    const std::string file = std::to_string(i);
    REQUIRE(put_piece(*store, file_spec("/ns/" + file, 0, 1, 0, 100), 1) == Status::ok);
    REQUIRE(put_piece(*store, file_spec("/ns2/" + file, 0, 1, 0, 100), 1) == Status::ok);
  }

  CHECK(store->clear("ns") == 2200);

  CHECK(store->counts().pages == 2000);
  CHECK(store->counts().pieces == 200);
  CHECK(store->find_page(page_name("ns2", "1999"), false) != nullptr);
}

TEST_CASE("keys of a namespace are listed in order, a part at a time") {
  const auto store = open_store(32 * MiB);
  std::vector<std::string> expected;
  for (std::size_t i = 0; i < 1000; ++i) {
    REQUIRE(put_page(*store, key(i), 10 + i, i) == Status::ok);
    REQUIRE(put_page(*store, page_name("other", std::to_string(i)), 10, i) == Status::ok);
    expected.push_back("key" + std::to_string(i));
  }
  std::sort(expected.begin(), expected.end());

  std::vector<std::string> listed;
  for (bool more = true; more;) {
    const auto part = store->list_pages("ns", listed.empty() ? "" : listed.back(), 64, more);
    REQUIRE(part.size() <= 64);
    for (const auto& entry : part) listed.push_back(entry.name);
  }

  CHECK(listed == expected);
}
