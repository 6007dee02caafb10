// Region: one lock's worth of the arena, cut by two-level segregated fit.
//
// Lengths are sorted into rows (powers of two) of 16 columns; one bit per list says which have
// something, so that the smallest list that surely fits is found by two bit scans. A block's
// descriptor knows its neighbours in memory, so that a freed block joins free neighbours at once:
// no two free blocks ever touch.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "extent.h"

namespace gd2fs {

class Region {
 public:
  /// Covers grains `[begin, end)` of the arena; numbers inside are counted from `base`, a multiple
  /// of 2 MiB.
  Region(std::uint64_t base_grain, std::uint64_t begin_grain, std::uint64_t end_grain);

  /// Cuts up to `grains`, in parts of at most `part` grains, while runs of that length are there.
  /// How many it took.
  std::uint64_t take(std::uint64_t grains, std::uint32_t part, std::vector<Extent>& out);
  /// One run of `grains` (a power of two) that starts at a multiple of it. False: none found.
  bool take_aligned(std::uint32_t grains, Extent& out);
  /// Takes just this run. False: some of it is taken, or lies outside.
  bool claim(Extent& extent);
  /// Gives back extents of this region; how many grains.
  std::uint64_t give(std::span<const Extent> extents);
  /// See Allocator::cut.
  Extent divide(Extent& extent, std::uint32_t bytes);

  /// No run of this region is longer than its list's longest: a hint without the lock.
  bool may_have(std::uint32_t grains) const noexcept { return longest_grains() >= grains; }
  /// At least so long is its longest free run; a hint without the lock.
  std::uint32_t longest_grains() const noexcept { return longest_.load(std::memory_order_relaxed); }
  std::uint64_t free_runs() const noexcept { return free_runs_.load(std::memory_order_relaxed); }
  /// Walks all blocks; adds what is free to `free_grains`.
  bool is_consistent(std::uint64_t& free_grains) const;

 private:
  static constexpr std::uint32_t NONE = ~std::uint32_t{0};
  static constexpr std::uint32_t COLUMNS = 16;
  static constexpr std::uint32_t ROWS =
      29;  // row 0 holds lengths 1 to 15, row r from 16 << (r - 1)
  static constexpr std::uint32_t POOL_BLOCKS =
      4096;  // descriptors are got in such lots and never move

  struct Block {
    std::uint32_t start = 0, grains = 0;
    std::uint32_t left = NONE, right = NONE;  // neighbours in memory
    std::uint32_t prev = NONE,
                  next = NONE;  // in its free list; `next` also links unused descriptors
    bool is_free = false;
    bool is_used = false;
  };
  struct Place {
    std::uint32_t row, column;
  };

  static Place place_of(std::uint32_t grains) noexcept;
  Block& at(std::uint32_t index) const { return pool_[index / POOL_BLOCKS][index % POOL_BLOCKS]; }
  std::uint32_t new_block();
  void retire_block(std::uint32_t index);
  void link(std::uint32_t index);
  void unlink(std::uint32_t index);
  void update_hint() noexcept;
  std::uint32_t find(std::uint32_t grains) const;
  std::uint32_t cut(std::uint32_t index, std::uint32_t skip, std::uint32_t grains);
  std::uint32_t split(std::uint32_t index, std::uint32_t grains);
  std::uint32_t join(std::uint32_t left, std::uint32_t right);
  std::uint64_t give_one(const Extent& extent);
  Extent extent_of(std::uint32_t index) const;

  // Guards: everything below. Held for arithmetic only.
  mutable std::mutex mutex_;
  std::uint64_t base_;
  std::uint32_t first_ = 0;       // the block at the lowest address
  std::uint32_t claimed_ = NONE;  // the last one that was: the next one mostly lies behind it
  std::uint32_t unused_ = NONE;
  std::uint32_t rows_ = 0;
  std::array<std::uint32_t, ROWS> columns_{};
  std::array<std::array<std::uint32_t, COLUMNS>, ROWS> lists_{};
  std::vector<std::unique_ptr<Block[]>> pool_;
  std::atomic<std::uint32_t> longest_{
      0};  // the shortest length of the highest list that is not empty
  std::atomic<std::uint32_t> free_runs_{0};  // changed under the lock, read without
};

}  // namespace gd2fs
