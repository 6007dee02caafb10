#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "extent.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <map>
#include <random>
#include <thread>

#include "../../core/limits.h"  // the system has a limits.h of its own

using namespace gd2fs;

namespace {

// What is handed out, as ranges of the arena: refuses overlap and what lies outside.
class Taken {
 public:
  explicit Taken(std::uint64_t begin, std::uint64_t end) : begin_(begin), end_(end) {}

  bool add(const Extent& extent) {
    const std::uint64_t end = extent.offset + whole_grains(extent.bytes);
    if (extent.offset < begin_ || end > end_ || extent.offset % GRAIN_BYTES != 0) return false;
    const auto next = ranges_.lower_bound(extent.offset);
    if (next != ranges_.end() && next->first < end) return false;
    if (next != ranges_.begin() && std::prev(next)->second > extent.offset) return false;
    ranges_.emplace(extent.offset, end);
    return true;
  }
  void remove(const Extent& extent) { ranges_.erase(extent.offset); }

 private:
  std::uint64_t begin_, end_;
  std::map<std::uint64_t, std::uint64_t> ranges_;
};

std::uint64_t sum(const std::vector<Extent>& extents) {
  std::uint64_t bytes = 0;
  for (const Extent& extent : extents) bytes += extent.bytes;
  return bytes;
}

std::uint64_t grains_of(const std::vector<Extent>& extents) {
  std::uint64_t bytes = 0;
  for (const Extent& extent : extents) bytes += whole_grains(extent.bytes);
  return bytes;
}

}  // namespace

TEST_CASE("any mix of allocations and frees never overlaps and loses nothing") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const std::uint64_t begin = (1 + random() % 9) * GRAIN_BYTES;
    const std::uint64_t end = seed % 2 == 0 ? 64 * MiB : 2 * GiB + 36 * KiB;
    Allocator allocator(begin, end);
    Taken taken(begin, end);
    std::vector<std::vector<Extent>> pieces;
    std::uint64_t free = end - begin;
    for (int step = 0; step < 4000; ++step) {
      if (random() % 5 < 3) {
        const double log = static_cast<double>(random() % 1000) / 1000 * 13;
        const auto bytes = static_cast<std::uint64_t>(std::exp2(log) * 4096) - random() % 4096;
        std::vector<Extent> extents;
        const bool got = allocator.allocate(bytes, extents);
        REQUIRE(got == (whole_grains(bytes) <= free));
        if (!got) continue;
        REQUIRE(sum(extents) == bytes);
        std::uint64_t place = 0;
        for (const Extent& extent : extents) {
          REQUIRE(extent.place == place);
          REQUIRE(extent.bytes <= PART_BYTES_MAX);
          REQUIRE(taken.add(extent));
          place += extent.bytes;
        }
        free -= whole_grains(bytes);
        pieces.push_back(std::move(extents));
      } else if (!pieces.empty()) {
        std::swap(pieces[random() % pieces.size()], pieces.back());
        for (const Extent& extent : pieces.back()) taken.remove(extent);
        free += grains_of(pieces.back());
        allocator.free(pieces.back());
        pieces.pop_back();
      }
      REQUIRE(allocator.free_bytes() == free);
      if (step % 500 == 0) REQUIRE(allocator.is_consistent());
    }
    for (const auto& extents : pieces) allocator.free(extents);
    CHECK(allocator.is_consistent());
    CHECK(allocator.free_bytes() == end - begin);
    CHECK(allocator.free_runs() == (end > GiB ? end / GiB : 1));
  }
}

TEST_CASE(
    "full parts of an empty arena lie on huge pages, and an arena can be used to its last grain") {
  Allocator allocator(20 * KiB, 1 * GiB);
  std::vector<Extent> extents;
  REQUIRE(allocator.allocate(16 * MiB, extents));
  for (const Extent& extent : extents) CHECK(extent.offset % PART_BYTES_MAX == 0);

  CHECK(allocator.allocate(allocator.free_bytes(), extents));
  CHECK(allocator.free_bytes() == 0);
  std::vector<Extent> none;
  CHECK_FALSE(allocator.allocate(1, none));
  CHECK(none.empty());
}

TEST_CASE("an aligned run starts at a multiple of itself, also in the smallest gap that holds it") {
  Allocator allocator(0, 1 * MiB);
  std::vector<Extent> all;
  for (int i = 0; i < 256; ++i) REQUIRE(allocator.allocate(GRAIN_BYTES, all));
  CHECK_FALSE(allocator.allocate_aligned(64 * KiB));
  const auto at = [&](std::uint64_t offset) {
    return *std::find_if(all.begin(), all.end(), [&](auto& e) { return e.offset == offset; });
  };
  for (std::uint64_t i = 0; i < 20; ++i) {
    const Extent extent = at(60 * KiB + i * GRAIN_BYTES);
    allocator.free(std::span(&extent, 1));
  }

  const auto run = allocator.allocate_aligned(64 * KiB);

  REQUIRE(run);
  CHECK(run->offset == 64 * KiB);
  CHECK(run->bytes == 64 * KiB);
  CHECK_FALSE(allocator.allocate_aligned(64 * KiB));
  allocator.free(std::span(&*run, 1));
  CHECK(allocator.free_bytes() == 80 * KiB);
  CHECK(allocator.is_consistent());
}

// Small pieces for a while, then large ones, over and over, the oldest evicted: what makes
// contiguous allocators fail.
TEST_CASE("phases of small and of large pieces keep the arena full, and one never evicts much") {
  constexpr std::uint64_t ARENA = 4 * GiB;
  Allocator allocator(64 * KiB, ARENA);
  std::mt19937_64 random(42);
  std::deque<std::vector<Extent>> pieces;  // oldest first, but for those that were used again
  std::uint64_t live = 0, evicted_worst = 0, count = 0, extents_count = 0;
  double fill_least = 1;
  std::chrono::nanoseconds spent{0};
  const auto timed = [&](auto&& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    spent += std::chrono::steady_clock::now() - start;
  };
  for (int epoch = 0; epoch < 12; ++epoch) {
    const bool is_small = epoch % 2 == 0;
    for (std::uint64_t turnover = 0; turnover < ARENA;) {
      const std::uint64_t bytes =
          is_small ? 20 * KiB + random() % (492 * KiB) : 2 * MiB + random() % (14 * MiB);
      // One in ten of the old ones was used: it stays for another round. One in ten of all was
      // dropped.
      if (!pieces.empty() && random() % 10 == 0) {
        pieces.push_back(std::move(pieces.front()));
        pieces.pop_front();
      }
      if (!pieces.empty() && random() % 10 == 0) {
        auto& dropped = pieces[random() % pieces.size()];
        live -= grains_of(dropped);
        timed([&] { allocator.free(dropped); });
        dropped.clear();
      }
      if (allocator.free_bytes() < whole_grains(bytes)) {
        fill_least = std::min(fill_least, static_cast<double>(live) / static_cast<double>(ARENA));
      }
      std::uint64_t evicted = 0;
      while (allocator.free_bytes() < whole_grains(bytes)) {
        evicted += grains_of(pieces.front());
        timed([&] { allocator.free(pieces.front()); });
        pieces.pop_front();
      }
      live -= evicted;
      evicted_worst = std::max(evicted_worst, evicted - std::min(evicted, bytes));
      std::vector<Extent> extents;
      bool got = false;
      timed([&] { got = allocator.allocate(bytes, extents); });
      REQUIRE(got);
      live += grains_of(extents);
      extents_count += extents.size();
      turnover += bytes;
      ++count;
      pieces.push_back(std::move(extents));
    }
  }
  MESSAGE("least fill " << fill_least << ", most evicted beyond its size " << evicted_worst / 1024
                        << " KiB, extents per piece "
                        << static_cast<double>(extents_count) / static_cast<double>(count)
                        << ", allocate and free " << spent.count() / static_cast<long>(count)
                        << " ns a piece, " << spent.count() / static_cast<long>(extents_count)
                        << " ns an extent");

  CHECK(fill_least >= 0.95);
  CHECK(evicted_worst <= EVICT_SLACK_BYTES);
  CHECK(allocator.is_consistent());
}

TEST_CASE("threads that allocate and free at once get separate memory and lose none") {
  constexpr std::uint64_t ARENA = 4 * GiB;
  Allocator allocator(0, ARENA);
  std::vector<std::thread> threads;
  std::atomic<bool> is_short{false};
  std::vector<std::vector<std::vector<Extent>>> kept(4);
  for (std::size_t id = 0; id < kept.size(); ++id) {
    threads.emplace_back([&, id] {
      std::mt19937_64 random(id);
      auto& mine = kept[id];
      std::uint64_t bytes_held = 0;
      for (int step = 0; step < 4000; ++step) {
        const std::uint64_t bytes = 4 * KiB + random() % (4 * MiB);
        // Each holds at most its quarter, so there is always room.
        while (!mine.empty() && bytes_held + whole_grains(bytes) > ARENA / 4) {
          std::swap(mine[random() % mine.size()], mine.back());
          bytes_held -= grains_of(mine.back());
          allocator.free(mine.back());
          mine.pop_back();
        }
        std::vector<Extent> extents;
        if (!allocator.allocate(bytes, extents)) is_short = true;
        bytes_held += grains_of(extents);
        mine.push_back(std::move(extents));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK_FALSE(is_short);
  Taken taken(0, ARENA);
  for (const auto& mine : kept) {
    for (const auto& extents : mine) {
      for (const Extent& extent : extents) REQUIRE(taken.add(extent));
      allocator.free(extents);
    }
  }

  CHECK(allocator.free_bytes() == ARENA);
  CHECK(allocator.free_runs() == 4);
  CHECK(allocator.is_consistent());
}

TEST_CASE(
    "what is claimed is just what was asked for, in any order, and what is free stays whole") {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const std::uint64_t begin = 3 * GRAIN_BYTES;
    const std::uint64_t end = seed % 2 == 0 ? 32 * MiB : 3 * GiB;
    std::vector<Extent> kept;
    {
      Allocator before(begin, end);
      for (int i = 0; i < 300; ++i) before.allocate(1 + random() % (256 * KiB), kept);
      std::shuffle(kept.begin(), kept.end(), random);
      kept.resize(kept.size() / 2);
    }
    if (seed % 3 != 0)
      std::sort(kept.begin(), kept.end(),
                [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
    Allocator allocator(begin, end);
    Taken taken(begin, end);
    for (Extent& extent : kept) {
      extent.block = 0;
      REQUIRE(allocator.claim(extent));
      REQUIRE(taken.add(extent));
    }
    REQUIRE(allocator.is_consistent());
    CHECK(allocator.free_bytes() == end - begin - grains_of(kept));
    for (Extent extent : kept) REQUIRE_FALSE(allocator.claim(extent));

    std::vector<Extent> rest;
    REQUIRE(allocator.allocate(allocator.free_bytes(), rest));
    for (const Extent& extent : rest) REQUIRE(taken.add(extent));
    allocator.free(rest);
    allocator.free(kept);
    CHECK(allocator.is_consistent());
    CHECK(allocator.free_bytes() == end - begin);
  }
}

TEST_CASE("what lies outside, or is no run of grains, cannot be claimed") {
  Allocator allocator(2 * GRAIN_BYTES, 4 * MiB);
  const auto claim = [&](std::uint64_t offset, std::uint32_t bytes) {
    Extent extent;
    extent.offset = offset, extent.bytes = bytes;
    return allocator.claim(extent);
  };

  CHECK_FALSE(claim(0, 4096));
  CHECK_FALSE(claim(GRAIN_BYTES, 3 * GRAIN_BYTES));
  CHECK_FALSE(claim(4 * MiB, 4096));
  CHECK_FALSE(claim(4 * MiB - GRAIN_BYTES, 2 * GRAIN_BYTES));
  CHECK_FALSE(claim(~std::uint64_t{0} / GRAIN_BYTES * GRAIN_BYTES, 4096));
  CHECK_FALSE(claim(3 * GRAIN_BYTES + 1, 4096));
  CHECK_FALSE(claim(3 * GRAIN_BYTES, 0));
  CHECK(claim(4 * MiB - GRAIN_BYTES, 1));
  CHECK(allocator.is_consistent());
}
