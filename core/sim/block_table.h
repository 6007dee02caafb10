// BlockTable: which slot has a block. Open addressing, no room for what is not there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gd2fs::sim {

using Block = std::uint32_t;  // numbered from 0; the same number is the same prefix
inline constexpr std::uint32_t NO_SLOT = ~std::uint32_t{0};

class BlockTable {
 public:
  std::uint32_t find(Block block) const noexcept {
    if (places_.empty()) return NO_SLOT;
    for (std::size_t at = home(block);; at = next(at)) {
      if (places_[at].slot == NO_SLOT || places_[at].block == block) return places_[at].slot;
    }
  }

  /// It is not there yet.
  void insert(Block block, std::uint32_t slot);
  /// It is there. What was pushed on by it moves back, so that no marks stay.
  void erase(Block block);
  void clear() noexcept;
  std::size_t size() const noexcept { return size_; }

 private:
  static constexpr std::uint32_t ROW = 8;

  struct Place {
    Block block = 0;
    std::uint32_t slot = NO_SLOT;
  };

  /// Eight blocks in a row, as a prompt has them, lie in one line of the processor's cache.
  std::size_t home(Block block) const noexcept {
    const std::uint64_t row = (std::uint64_t{block / ROW} * 0x9E3779B97F4A7C15ull) >> shift_;
    return static_cast<std::size_t>(row) * ROW + block % ROW;
  }
  std::size_t next(std::size_t at) const noexcept { return (at + 1) & (places_.size() - 1); }
  void grow();

  std::vector<Place> places_;  // a power of two, at most three quarters full
  std::size_t size_ = 0;
  unsigned shift_ = 0;
};

}  // namespace gd2fs::sim
