// PrivateCache: what an engine keeps by itself, on its device or in host memory. The least recently
// used block goes first, as in the engines themselves.
#pragma once

#include <cstdint>
#include <vector>

#include "block_table.h"

namespace gd2fs::sim {

class PrivateCache {
 public:
  /// `blocks_max`: how many there is room for; UNLIMITED, or 0 for no cache at all.
  explicit PrivateCache(std::uint64_t blocks_max) : blocks_max_(blocks_max) {}

  static constexpr std::uint64_t UNLIMITED = ~std::uint64_t{0};

  bool has(Block block) const noexcept { return table_.find(block) != NO_SLOT; }
  /// It is the freshest from here on, and comes in if it was not there.
  void use(Block block);
  void clear();

  bool is_there() const noexcept { return blocks_max_ != 0; }
  std::uint64_t evicted() const noexcept { return evicted_; }

 private:
  struct Slot {
    Block block;
    std::uint32_t older, newer;  // a ring through slot 0, which has no block
  };

  void link_newest(std::uint32_t at);
  void unlink(std::uint32_t at);
  std::uint32_t free_slot();

  std::uint64_t blocks_max_;
  BlockTable table_;
  std::vector<Slot> slots_;
  std::uint64_t evicted_ = 0;
};

}  // namespace gd2fs::sim
