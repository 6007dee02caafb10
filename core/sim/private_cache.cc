#include "private_cache.h"

namespace gd2fs::sim {

void PrivateCache::use(Block block) {
  if (!is_there()) return;
  std::uint32_t at = table_.find(block);
  if (at != NO_SLOT) {
    unlink(at);
  } else {
    at = free_slot();
    slots_[at].block = block;
    table_.insert(block, at);
  }
  link_newest(at);
}

void PrivateCache::clear() {
  table_.clear();
  slots_.clear();
}

void PrivateCache::link_newest(std::uint32_t at) {
  const std::uint32_t newest = slots_[0].older;
  slots_[at].older = newest;
  slots_[at].newer = 0;
  slots_[newest].newer = at;
  slots_[0].older = at;
}

void PrivateCache::unlink(std::uint32_t at) {
  slots_[slots_[at].older].newer = slots_[at].newer;
  slots_[slots_[at].newer].older = slots_[at].older;
}

std::uint32_t PrivateCache::free_slot() {
  if (slots_.empty()) slots_.push_back({0, 0, 0});
  if (table_.size() < blocks_max_) {
    slots_.push_back({0, 0, 0});
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }
  const std::uint32_t oldest = slots_[0].newer;
  unlink(oldest);
  table_.erase(slots_[oldest].block);
  ++evicted_;
  return oldest;
}

}  // namespace gd2fs::sim
