// StoreNode: one GD2FS node as far as its memory and its disk decide what is found there.
//
// The order in which blocks leave memory is the product's own: its policies (eviction/) on hooks
// that have a block instead of a piece. Below memory, as there: what leaves memory is written to
// disk, and what has been on disk alone for longest leaves that first.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "../eviction/board.h"
#include "../eviction/hook_list.h"
#include "../eviction/policies.h"
#include "block_table.h"

namespace gd2fs::sim {

enum class Where : std::uint8_t { nowhere, memory, disk };

struct StoreCounts {
  std::uint64_t evicted = 0;       // from memory, wherever to
  std::uint64_t disk_written = 0;  // blocks, of these
  std::uint64_t disk_dropped = 0;  // blocks that left the disk for want of room
};

class StoreNode {
 public:
  static constexpr std::uint64_t UNLIMITED = ~std::uint64_t{0};

  /// How many blocks there is room for in memory, at least one, and on disk: 0 without.
  StoreNode(PolicyKind policy, std::uint64_t memory_blocks, std::uint64_t disk_blocks);

  Where find(Block block) const noexcept;
  /// A read: it is fresher, and in memory from here on. False: it is not there.
  bool read(Block block);
  /// A write: nothing happens when it is there already. True: it came.
  bool put(Block block);
  /// The node has died.
  void clear();

  const StoreCounts& counts() const noexcept { return counts_; }

 private:
  struct Entry {
    EvictionHook hook;  // first: the entry is found by it
    Block block = 0;
    std::uint32_t slot = 0;
    bool is_on_disk = false;
    bool is_in_memory = false;
  };
  static constexpr std::size_t CHUNK = 1024;  // entries that are made at once, and stay in place

  static Entry& entry_of(EvictionHook& hook) noexcept;
  static std::uint64_t key_of(const EvictionHook& hook) noexcept;

  Entry& at(std::uint32_t slot) const noexcept { return chunks_[slot / CHUNK][slot % CHUNK]; }
  void into_memory(Entry& entry);
  void evict_one();
  bool take_disk_room();
  Entry& make(Block block);
  void forget(Entry& entry);

  const PolicyKind kind_;
  const std::uint64_t memory_blocks_;
  const std::uint64_t disk_blocks_;
  std::unique_ptr<Board> board_;
  std::unique_ptr<EvictionPolicy> policy_;
  std::unique_ptr<HookList> cold_;  // on disk alone, the first to have left memory first
  BlockTable table_;
  std::vector<std::unique_ptr<Entry[]>> chunks_;
  std::vector<std::uint32_t> free_;
  std::uint64_t in_memory_ = 0, on_disk_ = 0;
  std::uint64_t clock_ = 0;  // counts steps: no two have the same time, as on a real clock
  StoreCounts counts_;
};

}  // namespace gd2fs::sim
