#include "region.h"

#include <bit>

#include "assertion.h"

namespace gd2fs {

namespace {

constexpr std::uint32_t PART_GRAINS_MAX = static_cast<std::uint32_t>(PART_BYTES_MAX / GRAIN_BYTES);
constexpr std::uint32_t ALIGNED_TRIES_MAX = 16;  // blocks looked at for one aligned run

// How many grains lie between `start` and the next multiple of `alignment` (a power of two).
constexpr std::uint32_t gap_to(std::uint32_t start, std::uint32_t alignment) noexcept {
  return (alignment - start % alignment) % alignment;
}

}  // namespace

Region::Region(std::uint64_t base_grain, std::uint64_t begin_grain, std::uint64_t end_grain)
    : base_(base_grain) {
  GD2FS_ASSERT(base_grain <= begin_grain && begin_grain < end_grain);
  GD2FS_ASSERT(end_grain - base_grain < NONE / 2);
  for (auto& row : lists_) row.fill(NONE);
  first_ = new_block();
  Block& all = at(first_);
  all.start = static_cast<std::uint32_t>(begin_grain - base_grain);
  all.grains = static_cast<std::uint32_t>(end_grain - begin_grain);
  link(first_);
  update_hint();
}

std::uint64_t Region::take(std::uint64_t grains, std::uint32_t part, std::vector<Extent>& out) {
  const std::lock_guard lock(mutex_);
  std::uint64_t taken = 0;
  while (taken < grains) {
    const auto want = static_cast<std::uint32_t>(std::min<std::uint64_t>(part, grains - taken));
    const std::uint32_t found = find(want);
    if (found == NONE) break;
    // Whole huge pages are a preference: only for full parts, and only where this block offers one.
    const std::uint32_t gap = want == PART_GRAINS_MAX ? gap_to(at(found).start, want) : 0;
    const bool fits = gap + want <= at(found).grains;
    out.push_back(extent_of(cut(found, fits ? gap : 0, want)));
    taken += want;
  }
  if (taken > 0) update_hint();
  return taken;
}

bool Region::take_aligned(std::uint32_t grains, Extent& out) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t sure = find(2 * grains - 1);
  std::uint32_t found = sure;
  std::uint32_t tries = 0;
  const auto fits = [&](std::uint32_t index) {
    return gap_to(at(index).start, grains) + grains <= at(index).grains;
  };
  // Shorter blocks may happen to lie right; they are better used up than a longer one is cut.
  Place place = place_of(grains);
  for (; tries < ALIGNED_TRIES_MAX && place.row < ROWS; ++tries) {
    std::uint32_t index = lists_[place.row][place.column];
    for (; index != NONE && tries < ALIGNED_TRIES_MAX && !fits(index); ++tries)
      index = at(index).next;
    if (index != NONE && fits(index)) {
      found = index;
      break;
    }
    place =
        place.column + 1 < COLUMNS ? Place{place.row, place.column + 1} : Place{place.row + 1, 0};
  }
  if (found == NONE) return false;
  out = extent_of(cut(found, gap_to(at(found).start, grains), grains));
  update_hint();
  return true;
}

Extent Region::divide(Extent& extent, std::uint32_t bytes) {
  const std::lock_guard lock(mutex_);
  GD2FS_ASSERT(bytes > 0 && bytes < extent.bytes && bytes % GRAIN_BYTES == 0);
  GD2FS_ASSERT(at(extent.block).is_used && !at(extent.block).is_free);
  const auto grains = static_cast<std::uint32_t>(bytes / GRAIN_BYTES);
  Extent rest = extent_of(split(extent.block, grains));
  rest.bytes = extent.bytes - bytes;
  rest.place = extent.place + bytes;
  extent.bytes = bytes;
  return rest;
}

bool Region::claim(Extent& extent) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t begin = extent.offset / GRAIN_BYTES - base_;
  const auto grains = static_cast<std::uint32_t>(whole_grains(extent.bytes) / GRAIN_BYTES);
  // Invariant: also a descriptor that has been used anew since lies in the list of blocks.
  const bool is_ahead = claimed_ != NONE && at(claimed_).is_used && at(claimed_).start <= begin;
  std::uint32_t index = is_ahead ? claimed_ : first_;
  while (index != NONE && std::uint64_t{at(index).start} + at(index).grains <= begin)
    index = at(index).right;
  if (index == NONE || !at(index).is_free || at(index).start > begin) return false;
  const auto skip = static_cast<std::uint32_t>(begin - at(index).start);
  if (std::uint64_t{skip} + grains > at(index).grains) return false;
  claimed_ = cut(index, skip, grains);
  extent.block = claimed_;
  update_hint();
  return true;
}

std::uint64_t Region::give(std::span<const Extent> extents) {
  const std::lock_guard lock(mutex_);
  std::uint64_t grains = 0;
  for (const Extent& extent : extents) grains += give_one(extent);
  update_hint();
  return grains;
}

bool Region::is_consistent(std::uint64_t& free_grains) const {
  const std::lock_guard lock(mutex_);
  std::uint32_t expected = at(first_).start;
  std::uint32_t left = NONE;
  std::uint64_t walked = 0, runs = 0;
  for (std::uint32_t index = first_; index != NONE; left = index, index = at(index).right) {
    const Block& block = at(index);
    if (!block.is_used || block.start != expected || block.left != left || block.grains == 0)
      return false;
    if (block.is_free && left != NONE && at(left).is_free) return false;
    expected += block.grains;
    walked += block.is_free ? block.grains : 0;
    runs += block.is_free ? 1 : 0;
  }
  std::uint64_t listed = 0;
  for (std::uint32_t row = 0; row < ROWS; ++row) {
    if ((columns_[row] != 0) != ((rows_ >> row & 1) != 0)) return false;
    for (std::uint32_t column = 0; column < COLUMNS; ++column) {
      const std::uint32_t head = lists_[row][column];
      if ((head != NONE) != ((columns_[row] >> column & 1) != 0)) return false;
      for (std::uint32_t index = head; index != NONE; index = at(index).next)
        listed += at(index).grains;
    }
  }
  free_grains += walked;
  return walked == listed && runs == free_runs();
}

Region::Place Region::place_of(std::uint32_t grains) noexcept {
  if (grains < COLUMNS) return {0, grains};
  const auto log = static_cast<std::uint32_t>(std::bit_width(grains) - 1);
  return {log - 3, (grains >> (log - 4)) - COLUMNS};
}

std::uint32_t Region::new_block() {
  if (unused_ == NONE) {
    const auto first = static_cast<std::uint32_t>(pool_.size() * POOL_BLOCKS);
    pool_.push_back(std::make_unique<Block[]>(POOL_BLOCKS));
    for (std::uint32_t i = 0; i < POOL_BLOCKS; ++i)
      at(first + i).next = i + 1 < POOL_BLOCKS ? first + i + 1 : NONE;
    unused_ = first;
  }
  const std::uint32_t index = unused_;
  unused_ = at(index).next;
  at(index) = Block{};
  at(index).is_used = true;
  return index;
}

void Region::retire_block(std::uint32_t index) {
  at(index) = Block{};
  at(index).next = unused_;
  unused_ = index;
}

void Region::link(std::uint32_t index) {
  Block& block = at(index);
  const Place place = place_of(block.grains);
  std::uint32_t& head = lists_[place.row][place.column];
  block.prev = NONE;
  block.next = head;
  block.is_free = true;
  free_runs_.store(free_runs_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (head != NONE) at(head).prev = index;
  head = index;
  rows_ |= 1u << place.row;
  columns_[place.row] |= 1u << place.column;
}

void Region::unlink(std::uint32_t index) {
  Block& block = at(index);
  const Place place = place_of(block.grains);
  if (block.prev != NONE)
    at(block.prev).next = block.next;
  else
    lists_[place.row][place.column] = block.next;
  if (block.next != NONE) at(block.next).prev = block.prev;
  block.prev = block.next = NONE;
  block.is_free = false;
  free_runs_.store(free_runs_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  if (lists_[place.row][place.column] != NONE) return;
  columns_[place.row] &= ~(1u << place.column);
  if (columns_[place.row] == 0) rows_ &= ~(1u << place.row);
}

void Region::update_hint() noexcept {
  std::uint32_t longest = 0;
  if (rows_ != 0) {
    const auto row = static_cast<std::uint32_t>(std::bit_width(rows_) - 1);
    const auto column = static_cast<std::uint32_t>(std::bit_width(columns_[row]) - 1);
    longest = row == 0 ? column : (column + COLUMNS) << (row - 1);
  }
  longest_.store(longest, std::memory_order_relaxed);
}

// A block of at least `grains`: the first of the smallest list whose every block is long enough.
std::uint32_t Region::find(std::uint32_t grains) const {
  Place place = place_of(grains);
  const std::uint32_t own = lists_[place.row][place.column];
  if (own != NONE && at(own).grains >= grains) return own;
  const std::uint32_t right =
      place.column + 1 < COLUMNS ? columns_[place.row] >> (place.column + 1) : 0;
  if (right != 0) {
    place.column += 1 + static_cast<std::uint32_t>(std::countr_zero(right));
  } else {
    const std::uint32_t rows = rows_ >> (place.row + 1);
    if (rows == 0) return NONE;
    place.row += 1 + static_cast<std::uint32_t>(std::countr_zero(rows));
    place.column = static_cast<std::uint32_t>(std::countr_zero(columns_[place.row]));
  }
  return lists_[place.row][place.column];
}

// Takes `grains` out of the free block `index`, `skip` grains from its start. What is over stays
// free.
std::uint32_t Region::cut(std::uint32_t index, std::uint32_t skip, std::uint32_t grains) {
  unlink(index);
  if (skip > 0) {
    const std::uint32_t rest = split(index, skip);
    link(index);
    index = rest;
  }
  if (at(index).grains > grains) link(split(index, grains));
  return index;
}

// Shortens a block to `grains`; answers the new block of what follows, which is in no list.
std::uint32_t Region::split(std::uint32_t index, std::uint32_t grains) {
  const std::uint32_t rest = new_block();
  Block& block = at(index);
  Block& tail = at(rest);
  tail.start = block.start + grains;
  tail.grains = block.grains - grains;
  tail.left = index;
  tail.right = block.right;
  if (tail.right != NONE) at(tail.right).left = rest;
  block.right = rest;
  block.grains = grains;
  return rest;
}

std::uint32_t Region::join(std::uint32_t left, std::uint32_t right) {
  Block& block = at(left);
  block.grains += at(right).grains;
  block.right = at(right).right;
  if (block.right != NONE) at(block.right).left = left;
  retire_block(right);
  return left;
}

std::uint64_t Region::give_one(const Extent& extent) {
  GD2FS_ASSERT(extent.block < pool_.size() * POOL_BLOCKS);
  std::uint32_t index = extent.block;
  const std::uint32_t grains = at(index).grains;
  // A second free of the same extent, or a foreign one, would hand one piece's memory to another.
  GD2FS_ASSERT(at(index).is_used && !at(index).is_free);
  GD2FS_ASSERT((base_ + at(index).start) * GRAIN_BYTES == extent.offset);
  GD2FS_ASSERT(whole_grains(extent.bytes) == grains * GRAIN_BYTES);
  const std::uint32_t left = at(index).left;
  if (left != NONE && at(left).is_free) {
    unlink(left);
    index = join(left, index);
  }
  const std::uint32_t right = at(index).right;
  if (right != NONE && at(right).is_free) {
    unlink(right);
    join(index, right);
  }
  link(index);
  return grains;
}

Extent Region::extent_of(std::uint32_t index) const {
  const Block& block = at(index);
  Extent extent;
  extent.offset = (base_ + block.start) * GRAIN_BYTES;
  extent.bytes = static_cast<std::uint32_t>(block.grains * GRAIN_BYTES);
  extent.block = index;
  return extent;
}

}  // namespace gd2fs
