// Board: what the instances of one namespace's policy, one in each shard, tell each other.
//
// Written under the lock of the shard that it is about, read without any: hints, true a moment ago.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "../limits.h"
#include "policy.h"

namespace gd2fs {

inline constexpr std::size_t INDEX_SHARDS = 64;
inline constexpr std::uint64_t NEVER_NS = ~std::uint64_t{0};

class Board {
 public:
  Board() {
    for (auto& queue : head_ns_)
      for (auto& head : queue) head.store(NEVER_NS, std::memory_order_relaxed);
  }

  /// `hook`: the head of that queue now, or nothing. Most uses change no head: then no line that
  /// all shards read is written.
  void note_head(std::size_t queue, std::size_t shard, const EvictionHook* hook) noexcept {
    const std::uint64_t head_ns = hook == nullptr ? NEVER_NS : hook->used_ns;
    std::atomic<std::uint64_t>& noted = head_ns_[queue][shard];
    if (noted.load(std::memory_order_relaxed) != head_ns)
      noted.store(head_ns, std::memory_order_relaxed);
  }
  void add(std::size_t queue, std::uint32_t grains) noexcept {
    counts_[queue].fetch_add(1, std::memory_order_relaxed);
    grains_[queue].fetch_add(grains, std::memory_order_relaxed);
  }
  void remove(std::size_t queue, std::uint32_t grains) noexcept {
    counts_[queue].fetch_sub(1, std::memory_order_relaxed);
    grains_[queue].fetch_sub(grains, std::memory_order_relaxed);
  }
  std::uint64_t count(std::size_t queue) const noexcept {
    return counts_[queue].load(std::memory_order_relaxed);
  }
  std::uint64_t grains(std::size_t queue) const noexcept {
    return grains_[queue].load(std::memory_order_relaxed);
  }
  /// The oldest head of a queue over all shards; nothing when there is none before `before_ns`.
  std::optional<Pick> oldest(std::size_t queue, std::uint64_t before_ns) const noexcept;

  /// How many have been remembered after they had gone (S3-FIFO).
  std::atomic<std::uint64_t> ghosts{0};

 private:
  std::array<std::array<std::atomic<std::uint64_t>, INDEX_SHARDS>, EVICTION_CLASSES> head_ns_;
  std::array<std::atomic<std::uint64_t>, EVICTION_CLASSES> counts_{};
  std::array<std::atomic<std::uint64_t>, EVICTION_CLASSES> grains_{};
};

}  // namespace gd2fs
