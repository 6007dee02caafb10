#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "reattachment.h"

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <set>
#include <string>

#include "kept_arena.h"

using namespace gd2fs;

namespace {

constexpr std::size_t ARENA = 32 * MiB;
constexpr std::size_t DATA_FROM = 2 * GRAIN_BYTES;  // behind superblocks and bitmap

std::size_t count_pages(const Store& store) { return store.counts().pages; }

/// Of pages key(0) to key(count - 1), those that are there; all with the bytes of `mark_of`.
template <class MarkOf>
std::set<std::size_t> right_pages(Store& store, std::size_t count, MarkOf mark_of) {
  std::set<std::size_t> there;
  for (std::size_t i = 0; i < count; ++i) {
    const PieceRef page = store.find_page(key(i), false);
    if (page == nullptr || !is_checked(page)) continue;
    REQUIRE(is_filled_with(page, mark_of(i)));
    there.insert(i);
  }
  return there;
}

}  // namespace

TEST_CASE("a store that is opened again has what was live, and nothing else") {
  const KeptArena kept(ARENA);
  {
    const auto store = kept.open();
    CHECK(store->recovery().is_kept);
    CHECK_FALSE(store->recovery().is_attached);
    CHECK(store->recovery().fault == "it is new");
    for (std::size_t i = 0; i < 100; ++i)
      REQUIRE(put_page(*store, key(i), 1 + i * 700, i) == Status::ok);
    for (std::size_t i = 0; i < 100; i += 3) REQUIRE(store->drop_page(key(i)));
    REQUIRE(put_piece(*store, file_spec("/ns/f", 0, 1, 0, 5 * MiB), 1) == Status::ok);
    REQUIRE(put_piece(*store, file_spec("/ns/f", 1, 2, 10, 100'000), 2) == Status::ok);
    const Reserved staged = store->reserve(file_spec("/ns/g", 0, 3, 0, 4096));
    fill(staged.piece, 3);
    REQUIRE(store->stage(staged.piece) == Status::ok);
    REQUIRE(store->reserve(file_spec("/ns/h", 0, 4, 0, 4096)).status == Status::ok);
  }

  const auto store = kept.open();

  const ArenaRecovery& recovery = store->recovery();
  CHECK(recovery.is_attached);
  CHECK(recovery.pages == 66);
  CHECK(recovery.pieces == 3);
  CHECK(recovery.partial + recovery.unsound + recovery.expired == 0);
  const auto pages = right_pages(*store, 100, [](std::size_t i) { return i; });
  CHECK(pages.size() == 66);
  CHECK(pages.count(0) == 0);
  const PieceRef large = store->find_piece("/ns/f", 0, 1, true);
  REQUIRE(large != nullptr);
  CHECK(is_checked(large));
  CHECK(is_filled_with(large, 1));
  const PieceRef latest = store->find_latest("/ns/f", 1, 10, 100'000, true);
  REQUIRE(latest != nullptr);
  CHECK(latest->seq() == 2);
  // Its commit may have been acknowledged: its home is asked, as ever.
  const PieceRef staged = store->find_piece("/ns/g", 0, 3, false);
  REQUIRE(staged != nullptr);
  CHECK(staged->state() == PieceState::staged);
  CHECK((is_checked(staged) && is_filled_with(staged, 3)));
  CHECK(store->publish("/ns/g", 0, 3, 7) == Status::ok);
  CHECK(store->is_safe(*staged));
  CHECK(store->find_piece("/ns/h", 0, 4, false) == nullptr);
  CHECK(sum(store->counts()) == ARENA);
}

TEST_CASE("memory of attached pieces is neither given twice nor lost") {
  const KeptArena kept(ARENA);
  for (std::uint64_t round = 0; round < 6; ++round) {
    const auto store = kept.open();
    std::mt19937_64 random(round);
    for (std::size_t step = 0; step < 3000; ++step) {
      const std::size_t i = random() % 600;
      if (random() % 4 == 0) {
        store->drop_page(key(i));
      } else {
        const Status status = put_page(*store, key(i), 1 + random() % (300 * KiB), i);
        REQUIRE((status == Status::ok || status == Status::have));
      }
    }
    const auto there = right_pages(*store, 600, [](std::size_t i) { return i; });
    REQUIRE(there.size() == count_pages(*store));
    REQUIRE(sum(store->counts()) == ARENA);
  }
  const auto store = kept.open();
  CHECK(store->recovery().pages > 50);
  CHECK(store->clear("ns") == store->recovery().pages);
  const StoreCounts counts = store->counts();
  CHECK(counts.free_bytes + counts.record_bytes == ARENA);
  CHECK(put_page(*store, key(0), counts.free_bytes - Ledger::SLAB_BYTES, 5) == Status::ok);
}

TEST_CASE("whatever bits flip, no wrong byte is taken for right") {
  const KeptArena kept(16 * MiB);
  {
    const auto store = kept.open();
    for (std::size_t i = 0; i < 200; ++i)
      REQUIRE(put_page(*store, key(i), 1 + i * 200, i) == Status::ok);
    REQUIRE(put_piece(*store, file_spec("/ns/f", 0, 9, 0, 3 * MiB + 5), 1) == Status::ok);
  }
  const std::vector<char> whole = kept.read();
  std::size_t lost = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    std::vector<char> bad = whole;
    // Some in records alone, some anywhere.
    const std::size_t until = seed % 2 == 0 ? bad.size() : 512 * KiB;
    for (int flips = 0; flips < 400; ++flips) {
      char& byte = bad[DATA_FROM + random() % (until - DATA_FROM)];
      byte = static_cast<char>(byte ^ (1 << random() % 8));
    }
    kept.write(bad);
    const auto store = kept.open();
    const auto there = right_pages(*store, 200, [](std::size_t i) { return i; });
    lost += 200 - there.size();
    const PieceRef piece = store->find_piece("/ns/f", 0, 9, false);
    if (piece != nullptr && is_checked(piece)) REQUIRE(is_filled_with(piece, 9));
    REQUIRE(sum(store->counts()) == kept.bytes);
    // A page that is wrong is stored anew, not said to be there.
    for (std::size_t i = 0; i < 200; ++i) {
      const Status status = put_page(*store, key(i), 1 + i * 200, i);
      REQUIRE((status == Status::ok) == (there.count(i) == 0));
    }
    REQUIRE(right_pages(*store, 200, [](std::size_t i) { return i; }).size() == 200);
  }
  CHECK(lost > 100);  // else the flips were no test
}

TEST_CASE("an arena of another node, cluster or layout begins empty, and says why") {
  const KeptArena kept(4 * MiB);
  const auto filled = [&] {
    ::unlink(kept.path().c_str());
    REQUIRE(put_page(*kept.open(), key(1), 5000, 1) == Status::ok);
  };
  const auto fault_with = [&](const StoreOptions& options) {
    const auto store = KeptArena::open(options);
    CHECK(count_pages(*store) == 0);
    CHECK_FALSE(store->recovery().is_attached);
    return store->recovery().fault;
  };
  StoreOptions options = kept.options();

  filled();
  options.node_name = "n2";
  CHECK(fault_with(options) == "it belongs to node `n1`");
  filled();
  options = kept.options();
  options.cluster = "c2";
  CHECK(fault_with(options) == "it belongs to cluster `c1`");
  filled();
  std::vector<char> content = kept.read();
  content[4] = 9;
  kept.write(content);
  CHECK(fault_with(kept.options()) == "another version of gd2fs wrote it, in layout 9");
  filled();
  content = kept.read();
  content[20] = static_cast<char>(content[20] ^ 1);
  kept.write(content);
  CHECK(fault_with(kept.options()) == "its first page is damaged");
  // Formatted means formatted: nothing of before comes back to its old owner.
  CHECK(count_pages(*kept.open()) == 0);
}

TEST_CASE("an arena of another size is refused and stays as it is") {
  const KeptArena kept(4 * MiB);
  REQUIRE(put_page(*kept.open(), key(1), 5000, 1) == Status::ok);
  StoreOptions options = kept.options();
  options.arena.bytes = 8 * MiB;

  CHECK_FALSE(Store::open(options));

  CHECK(count_pages(*kept.open()) == 1);
}

TEST_CASE("the superblock that is being written is not the one that counts") {
  const KeptArena kept(4 * MiB);
  REQUIRE(put_page(*kept.open(), key(1), 5000, 1) == Status::ok);
  for (int start = 0; start < 3; ++start) CHECK(count_pages(*kept.open()) == 1);
  // Four starts: the second copy is the later one.
  for (const std::size_t at : {std::size_t{0}, GRAIN_BYTES / 2}) {
    const std::vector<char> whole = kept.read();
    std::vector<char> torn = whole;
    std::memset(torn.data() + at, 0x55, 100);
    kept.write(torn);
    CHECK(count_pages(*kept.open()) == 1);
    kept.write(whole);
  }
}

TEST_CASE("times to live go on over a restart, of the machine too") {
  const KeptArena kept(4 * MiB);
  StoreOptions options = kept.options();
  {
    const auto store = KeptArena::open(options);
    const std::string name = key(1);
    PieceSpec spec = page_spec(name, 5000, 1);
    spec.ttl_s = 1000;
    const Reserved reserved = store->reserve(spec);
    fill(reserved.piece, 1);
    REQUIRE(store->publish_page(reserved.piece) == Status::ok);
    REQUIRE(put_page(*store, key(2), 5000, 2) == Status::ok);
  }
  const auto left_s = [&] {
    const auto store = KeptArena::open(options);
    CHECK(store->find_page(key(2), false) != nullptr);
    const PieceRef page = store->find_page(key(1), false);
    if (page == nullptr) return 0u;
    CHECK((is_checked(page) && is_filled_with(page, 1)));
    return page->ttl_left_s();
  };
  CHECK(left_s() > 990);

  // The machine has begun anew, by its clock 600 s after it had begun before.
  options.machine.id[0] ^= 1;
  options.machine.began_ms += 600'000;
  const std::uint32_t later_s = left_s();
  CHECK(later_s > 390);
  CHECK(later_s <= 400);
  CHECK(left_s() > 390);
  options.machine.id[0] ^= 1;
  options.machine.began_ms += 600'000;
  CHECK(left_s() == 0);
}

TEST_CASE("of two records that claim the same memory one at most is believed") {
  const KeptArena kept(4 * MiB);
  kept.open().reset();
  std::vector<char> content = kept.read();
  {
    std::vector<std::uint64_t> words(content.size() / 8);
    std::memcpy(words.data(), content.data(), content.size());
    const auto arena = std::as_writable_bytes(std::span(words));
    Account account(content.size(), content.size());
    Allocator allocator(Ledger::front_bytes(content.size()), content.size());
    Ledger ledger(arena, allocator, account);
    const std::uint64_t hash = 5;
    const auto write = [&](std::string_view name, std::uint64_t at) {
      ExtentRecord record;
      record.name = name;
      record.is_page = true;
      record.length = 10'000;
      record.extent.offset = at;
      record.extent.bytes = 10'000;
      record.hashes = std::span(&hash, 1);
      REQUIRE(ledger.write(record) != 0);
    };
    write(key(1), 1 * MiB);
    write(key(2), 1 * MiB + GRAIN_BYTES);
    write(key(3), 2 * MiB);
    write(key(4), 64 * KiB);  // the slab of these records themselves
    write("no name", 3 * MiB);
    std::memcpy(content.data(), words.data(), content.size());
  }
  kept.write(content);

  const auto store = kept.open();

  CHECK(store->recovery().pages == 2);
  CHECK(store->recovery().unsound == 3);
  CHECK(store->find_page(key(3), false) != nullptr);
  CHECK(sum(store->counts()) == kept.bytes);
}
