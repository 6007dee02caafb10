#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "ledger.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "store.h"
#include "wire.h"

using namespace gd2fs;

namespace {

constexpr std::size_t ARENA = 16 * MiB;

// An arena of plain memory with its books, and everything that records need.
struct Books {
  explicit Books(std::size_t bytes = ARENA)
      : words(bytes / 8),
        arena(std::as_writable_bytes(std::span(words))),
        account(bytes, bytes / 8),
        allocator(Ledger::front_bytes(bytes), bytes),
        ledger(arena, allocator, account) {
    ledger.format({"cluster", "node-1", 7, MachineStart::now()});
  }

  std::vector<std::uint64_t> words;
  std::span<std::byte> arena;
  Account account;
  Allocator allocator;
  Ledger ledger;
};

ExtentRecord record_of(std::string_view name, std::uint64_t tag, std::uint64_t bytes,
                       std::span<const std::uint64_t> hashes) {
  ExtentRecord record;
  record.name = name;
  record.is_page = true;
  record.tag = tag;
  record.length = bytes;
  record.extent.offset = 1 * MiB;
  record.extent.bytes = static_cast<std::uint32_t>(bytes);
  record.hashes = hashes;
  return record;
}

std::multiset<std::string> names_in(std::span<const std::byte> arena) {
  std::multiset<std::string> names;
  Ledger::scan(arena, [&](const ExtentRecord& record) { names.emplace(record.name); });
  return names;
}

std::uint64_t used(const Books& books, Use use) {
  return books.account.sums()[static_cast<std::size_t>(use)];
}

std::unique_ptr<Store> open_store(std::size_t bytes) {
  StoreOptions options;
  options.arena = {bytes, Rung::plain, ""};
  options.evict_above = options.evict_below = 1;
  auto store = Store::open(options);
  REQUIRE(store);
  return std::move(*store);
}

PieceRef fill(const Reserved& reserved, std::uint64_t seed) {
  REQUIRE(reserved.status == Status::ok);
  std::mt19937_64 random(seed);
  std::vector<std::span<std::byte>> runs;
  reserved.piece->runs(0, reserved.piece->length(), runs);
  for (const auto run : runs)
    std::generate(run.begin(), run.end(), [&] { return std::byte(random()); });
  for (std::size_t block = 0; block < reserved.piece->hashes().size(); ++block) {
    const std::uint64_t at = block * BLOCK_BYTES;
    const std::uint64_t bytes = std::min(BLOCK_BYTES, reserved.piece->length() - at);
    reserved.piece->set_hash(block, reserved.piece->hash_of(at, bytes));
  }
  return reserved.piece;
}

std::map<std::string, Store::Recorded> scan(std::span<const std::byte> arena) {
  std::map<std::string, Store::Recorded> found;
  Store::scan_records(arena, [&](Store::Recorded&& one) {
    const std::string key =
        one.name + " " + std::to_string(one.chunk) + " " + std::to_string(one.tag);
    REQUIRE(found.emplace(key, std::move(one)).second);
  });
  return found;
}

}  // namespace

TEST_CASE("a record is read back field by field") {
  Books books;
  const std::vector<std::uint64_t> hashes{11, 22};
  ExtentRecord record = record_of("/ns/file", 5, 100'000, hashes);
  record.is_page = false;
  record.chunk = 3, record.seq = 9, record.offset = 77, record.length = 300'000;
  record.expires_ms = 123'456, record.extent.place = 131'072;
  record.replicas = 3, record.eviction_class = 5;
  REQUIRE(books.ledger.write(record) != 0);

  int count = 0;
  Ledger::scan(books.arena, [&](const ExtentRecord& read) {
    ++count;
    CHECK(read.name == "/ns/file");
    CHECK_FALSE(read.is_page);
    CHECK(read.replicas == 3);
    CHECK(read.eviction_class == 5);
    CHECK(read.chunk == 3);
    CHECK(read.tag == 5);
    CHECK(read.seq == 9);
    CHECK(read.offset == 77);
    CHECK(read.length == 300'000);
    CHECK(read.expires_ms == 123'456);
    CHECK(read.extent.offset == 1 * MiB);
    CHECK(read.extent.bytes == 100'000);
    CHECK(read.extent.place == 131'072);
    CHECK(std::equal(read.hashes.begin(), read.hashes.end(), hashes.begin(), hashes.end()));
  });
  CHECK(count == 1);
}

TEST_CASE("records come and go, and the arena always names exactly those that are there") {
  Books books;
  std::mt19937_64 random(3);
  std::vector<std::pair<std::string, std::uint32_t>> written;
  const std::vector<std::uint64_t> hashes(32, 1);
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 100 < 55) {
      std::string name(1 + random() % (random() % 8 == 0 ? NAME_BYTES_MAX : 60), 'x');
      name += std::to_string(step);
      name.resize(std::min(name.size(), NAME_BYTES_MAX));
      const std::uint64_t blocks = 1 + random() % 32;
      const auto number = books.ledger.write(
          record_of(name, 1, blocks * BLOCK_BYTES, std::span(hashes).first(blocks)));
      REQUIRE(number != 0);
      written.emplace_back(name, number);
    } else if (!written.empty()) {
      std::swap(written[random() % written.size()], written.back());
      books.ledger.release(written.back().second);
      written.pop_back();
    }
    if (step % 4000 != 3999) continue;
    std::multiset<std::string> expected;
    for (const auto& [name, number] : written) expected.insert(name);
    REQUIRE(names_in(books.arena) == expected);
    REQUIRE(used(books, Use::free) == books.allocator.free_bytes());
  }

  for (const auto& [name, number] : written) books.ledger.release(number);
  CHECK(names_in(books.arena).empty());
  // The last slab of each size stays.
  CHECK(used(books, Use::records) <= Ledger::front_bytes(ARENA) + 5 * Ledger::SLAB_BYTES);
  CHECK(books.allocator.is_consistent());
}

TEST_CASE("a struck record is read no more") {
  Books books;
  const std::vector<std::uint64_t> hashes{1};
  const auto first = books.ledger.write(record_of("a", 1, 100, hashes));
  books.ledger.write(record_of("b", 2, 100, hashes));

  books.ledger.strike(first);
  books.ledger.strike(first);

  CHECK(names_in(books.arena) == std::multiset<std::string>{"b"});
}

TEST_CASE("without room for a slab a record is not written, and nothing is lost") {
  Books books(2 * MiB);
  std::vector<Extent> all;
  const std::uint64_t free = books.allocator.free_bytes();
  books.account.move(Use::free, Use::live, free - 32 * KiB);
  REQUIRE(books.allocator.allocate(free - 32 * KiB, all));
  const std::vector<std::uint64_t> hashes{1};

  CHECK(books.ledger.write(record_of("a", 1, 100, hashes)) == 0);

  CHECK(used(books, Use::free) == 32 * KiB);
  CHECK(books.allocator.free_bytes() == 32 * KiB);
  books.ledger.release(0);
}

TEST_CASE(
    "any flipped bit of a record, a slab's head or the superblock hides what it vouched for") {
  Books books;
  const std::vector<std::uint64_t> hashes{1};
  const std::string name = "name";
  REQUIRE(books.ledger.write(record_of(name, 1, 100, hashes)) != 0);
  std::size_t record_at = 0;
  for (std::size_t at = GRAIN_BYTES; at + 4 < ARENA; at += 128) {
    if (std::memcmp(books.arena.data() + at, "GD2R", 4) == 0) record_at = at;
  }
  REQUIRE(record_at != 0);
  const std::size_t slab_at = record_at / Ledger::SLAB_BYTES * Ledger::SLAB_BYTES;

  const auto flip_hides = [&](std::size_t at, std::size_t bytes) {
    for (std::size_t bit = 0; bit < bytes * 8; ++bit) {
      books.arena[at + bit / 8] ^= std::byte(1 << bit % 8);
      const bool is_hidden = names_in(books.arena).empty();
      books.arena[at + bit / 8] ^= std::byte(1 << bit % 8);
      if (!is_hidden) return false;
    }
    return true;
  };

  CHECK(flip_hides(record_at, 80 + 8 + name.size()));
  CHECK(flip_hides(slab_at, 24));
  CHECK(flip_hides(0, 80));
  CHECK(names_in(books.arena).size() == 1);
}

TEST_CASE("an arena of random bytes or of a foreign size says nothing and does not crash") {
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> words(1 * MiB / 8);
  std::generate(words.begin(), words.end(), std::ref(random));
  CHECK(names_in(std::as_bytes(std::span(words))).empty());

  Books books;
  const std::vector<std::uint64_t> hashes{1};
  books.ledger.write(record_of("a", 1, 100, hashes));
  CHECK(names_in(books.arena.first(ARENA / 2)).empty());
  CHECK(names_in(books.arena.first(100)).empty());
}

TEST_CASE("garbage in slabs that the bitmap names is skipped") {
  Books books;
  const std::vector<std::uint64_t> hashes{1};
  for (int i = 0; i < 2000; ++i)
    books.ledger.write(record_of("a" + std::to_string(i), 1, 100, hashes));
  std::mt19937_64 random(9);
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 500; ++i) books.arena[random() % ARENA] = std::byte(random());
    for (const std::string& name : names_in(books.arena)) REQUIRE(name.starts_with("a"));
  }
}

TEST_CASE("what a store has published is read back whole, with the hashes of its bytes") {
  const auto store = open_store(32 * MiB);
  for (std::uint64_t i = 0; i < 300; ++i) {
    const std::string name = "ns" + std::string(1, '\0') + std::to_string(i);
    PieceSpec spec;
    spec.name = name, spec.is_page = true, spec.tag = i, spec.length = 4 * KiB;
    REQUIRE(store->publish_page(fill(store->reserve(spec), i)) == Status::ok);
  }
  for (std::uint64_t i = 0; i < 300; i += 2) {
    REQUIRE(store->drop_page("ns" + std::string(1, '\0') + std::to_string(i)));
  }
  // Scattered over the holes: blocks straddle its extents.
  PieceSpec spec;
  spec.name = "/ns/f", spec.chunk = 4, spec.tag = 1000, spec.offset = 12,
  spec.length = 3 * MiB + 17;
  const PieceRef piece = fill(store->reserve(spec), 1000);
  REQUIRE(store->stage(piece) == Status::ok);
  CHECK(scan(store->arena().memory()).size() == 150);

  REQUIRE(store->publish("/ns/f", 4, 1000, 5) == Status::ok);

  auto found = scan(store->arena().memory());
  CHECK(found.size() == 151);
  const Store::Recorded& recorded = found.at("/ns/f 4 1000");
  CHECK(recorded.seq == 5);
  CHECK(recorded.offset == 12);
  CHECK(recorded.length == spec.length);
  CHECK(std::equal(recorded.hashes.begin(), recorded.hashes.end(), piece->hashes().begin(),
                   piece->hashes().end()));
  std::string stored, live;
  for (const Extent& extent : recorded.extents) {
    stored.append(reinterpret_cast<const char*>(store->arena().memory().data()) + extent.offset,
                  extent.bytes);
  }
  std::vector<std::span<std::byte>> runs;
  piece->runs(0, piece->length(), runs);
  for (const auto run : runs) live.append(reinterpret_cast<const char*>(run.data()), run.size());
  CHECK(stored == live);
}

TEST_CASE("a dropped piece is not read back, even while someone holds it") {
  const auto store = open_store(16 * MiB);
  PieceSpec spec;
  spec.name = "/ns/f", spec.tag = 1, spec.length = 5 * MiB;
  const PieceRef held = fill(store->reserve(spec), 1);
  REQUIRE(store->stage(held) == Status::ok);
  REQUIRE(store->publish("/ns/f", 0, 1, 1) == Status::ok);
  REQUIRE(scan(store->arena().memory()).size() == 1);

  store->drop_file("/ns/f");

  CHECK(scan(store->arena().memory()).empty());
}

TEST_CASE("a piece that lacks the record of one extent is not read back") {
  const auto store = open_store(16 * MiB);
  PieceSpec spec;
  spec.name = "/ns/f", spec.tag = 1, spec.length = 5 * MiB;
  {
    const PieceRef piece = fill(store->reserve(spec), 1);
    REQUIRE(store->stage(piece) == Status::ok);
    REQUIRE(store->publish("/ns/f", 0, 1, 1) == Status::ok);
  }
  std::vector<std::byte> copy(store->arena().memory().begin(), store->arena().memory().end());
  REQUIRE(scan(copy).size() == 1);
  for (std::size_t at = GRAIN_BYTES; at < copy.size(); at += 128) {
    if (std::memcmp(copy.data() + at, "GD2R", 4) != 0) continue;
    copy[at + 40] ^= std::byte{1};
    break;
  }

  CHECK(scan(copy).empty());
}
