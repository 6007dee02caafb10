#include "store_node.h"

#include <algorithm>

namespace gd2fs::sim {

StoreNode::StoreNode(PolicyKind policy, std::uint64_t memory_blocks, std::uint64_t disk_blocks)
    : kind_(policy),
      memory_blocks_(std::max<std::uint64_t>(memory_blocks, 1)),
      disk_blocks_(disk_blocks) {
  clear();
}

Where StoreNode::find(Block block) const noexcept {
  const std::uint32_t slot = table_.find(block);
  if (slot == NO_SLOT) return Where::nowhere;
  return at(slot).is_in_memory ? Where::memory : Where::disk;
}

bool StoreNode::read(Block block) {
  const std::uint32_t slot = table_.find(block);
  if (slot == NO_SLOT) return false;
  Entry& entry = at(slot);
  if (entry.is_in_memory) {
    policy_->use(entry.hook, ++clock_);
  } else {
    HookList::unlink(entry.hook);  // first: making room may drop what is cold
    into_memory(entry);
  }
  return true;
}

bool StoreNode::put(Block block) {
  if (table_.find(block) != NO_SLOT) return false;
  into_memory(make(block));
  return true;
}

void StoreNode::clear() {
  board_ = std::make_unique<Board>();
  policy_ = make_policy(kind_, *board_, 0, &key_of);
  cold_ = std::make_unique<HookList>();
  table_.clear();
  chunks_.clear();
  free_.clear();
  in_memory_ = on_disk_ = 0;
}

// The hook is the first member of a standard-layout struct: both have the same address.
StoreNode::Entry& StoreNode::entry_of(EvictionHook& hook) noexcept {
  return reinterpret_cast<Entry&>(hook);
}

std::uint64_t StoreNode::key_of(const EvictionHook& hook) noexcept {
  return reinterpret_cast<const Entry&>(hook).block;  // as `entry_of`
}

void StoreNode::into_memory(Entry& entry) {
  while (in_memory_ >= memory_blocks_) evict_one();
  entry.is_in_memory = true;
  ++in_memory_;
  const std::uint64_t now = ++clock_;
  policy_->add(entry.hook, now, now);
}

// As Index::take_victim does it, with nobody who holds a piece.
void StoreNode::evict_one() {
  for (;;) {
    const auto pick = next_of(kind_, *board_, ++clock_);
    EvictionHook* const hook = policy_->head(pick->queue);
    if (!policy_->is_let_go(*hook, ++clock_)) continue;
    Entry& entry = entry_of(*hook);
    policy_->evicted(*hook);
    policy_->remove(*hook);
    entry.is_in_memory = false;
    --in_memory_;
    ++counts_.evicted;
    if (entry.is_on_disk || take_disk_room()) {
      counts_.disk_written += entry.is_on_disk ? 0 : 1;
      on_disk_ += entry.is_on_disk ? 0 : 1;
      entry.is_on_disk = true;
      cold_->link_newest(*hook, clock_);
    } else {
      forget(entry);
    }
    return;
  }
}

/// For one block more. False: there is no disk, or all of it is copies of what is in memory.
bool StoreNode::take_disk_room() {
  if (on_disk_ < disk_blocks_) return true;
  EvictionHook* const coldest = cold_->oldest();
  if (coldest == nullptr) return false;
  HookList::unlink(*coldest);
  --on_disk_;
  ++counts_.disk_dropped;
  forget(entry_of(*coldest));
  return true;
}

StoreNode::Entry& StoreNode::make(Block block) {
  if (free_.empty()) {
    const auto first = static_cast<std::uint32_t>(chunks_.size() * CHUNK);
    chunks_.push_back(std::make_unique<Entry[]>(CHUNK));
    for (std::uint32_t slot = first + CHUNK; slot-- > first;) free_.push_back(slot);
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  Entry& entry = at(slot);
  entry = {};
  entry.block = block;
  entry.slot = slot;
  entry.hook.grains = 1;  // all blocks have one size
  table_.insert(block, slot);
  return entry;
}

void StoreNode::forget(Entry& entry) {
  table_.erase(entry.block);
  free_.push_back(entry.slot);
}

}  // namespace gd2fs::sim
