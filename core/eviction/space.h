// Space: a namespace as a node keeps it: its rules, and what it takes of memory and of disk.
//
// All namespaces without rules of their own are one space, the first.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "board.h"
#include "namespace_rules.h"
#include "policies.h"

namespace gd2fs {

using RulesRef = std::shared_ptr<const NamespaceRules>;

class Space {
 public:
  Space(std::string name, std::size_t lane) : name_(std::move(name)), lane_(lane) {
    for (auto& each : coldest_ns_) each.store(NEVER_NS, std::memory_order_relaxed);
  }

  const std::string& name() const noexcept { return name_; }
  std::size_t lane() const noexcept { return lane_; }
  RulesRef rules() const;
  void set(const NamespaceRules& rules);

  // Of the rules, what is asked for often.
  PolicyKind policy() const noexcept { return policy_.load(std::memory_order_relaxed); }
  std::uint8_t eviction_class() const noexcept { return class_.load(std::memory_order_relaxed); }
  std::uint32_t ttl_s() const noexcept { return ttl_.load(std::memory_order_relaxed); }
  std::uint64_t quota_bytes() const noexcept { return quota_.load(std::memory_order_relaxed); }
  std::uint64_t disk_quota_bytes() const noexcept {
    return disk_quota_.load(std::memory_order_relaxed);
  }

  /// Counts bytes of the arena, unless the quota is less than what there would be.
  bool try_take(std::uint64_t bytes) noexcept;
  void take(std::uint64_t bytes) noexcept { bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void give_back(std::uint64_t bytes) noexcept {
    bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  }
  std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
  /// Would its pins alone leave no room for these under its quota?
  bool is_pinned_full(std::uint64_t bytes) const noexcept {
    return quota_bytes() != 0 && pinned_bytes() + bytes > quota_bytes();
  }
  bool is_over_quota() const noexcept { return quota_bytes() != 0 && bytes() > quota_bytes(); }

  bool try_pin(std::uint64_t bytes) noexcept;
  void force_pin(std::uint64_t bytes) noexcept {
    pinned_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  void unpin(std::uint64_t bytes) noexcept {
    pinned_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  }
  std::uint64_t pinned_bytes() const noexcept {
    return pinned_bytes_.load(std::memory_order_relaxed);
  }

  /// What of it lies on disk: counted by those who write and strike there.
  void add_disk(std::int64_t bytes) noexcept {
    disk_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  std::uint64_t disk_bytes() const noexcept;
  // Of what is on disk alone, when the coldest of each shard was used last: as of boards, hints.
  void note_coldest(std::size_t shard, const EvictionHook* hook) noexcept {
    coldest_ns_[shard].store(hook == nullptr ? NEVER_NS : hook->used_ns, std::memory_order_relaxed);
  }
  /// The shard of the coldest of all; nothing when none is on disk alone.
  std::optional<std::size_t> shard_of_coldest() const noexcept;

  bool is_over_disk_quota() const noexcept {
    return disk_quota_bytes() != 0 && disk_bytes() > disk_quota_bytes();
  }
  /// May so many bytes more go to disk?
  bool has_disk_room(std::uint64_t bytes) const noexcept {
    return disk_quota_bytes() == 0 || disk_bytes() + bytes <= disk_quota_bytes();
  }

  /// Where the instances of a policy meet. The one of a policy that was before empties while pieces
  /// go over.
  Board& board(PolicyKind kind) noexcept { return boards_[static_cast<std::size_t>(kind)]; }
  const Board& board(PolicyKind kind) const noexcept {
    return boards_[static_cast<std::size_t>(kind)];
  }

 private:
  const std::string name_;
  const std::size_t lane_;
  mutable std::mutex mutex_;  // Guards: rules_. Held to copy or replace it.
  RulesRef rules_ = std::make_shared<const NamespaceRules>();
  std::atomic<PolicyKind> policy_{PolicyKind::lru};
  std::atomic<std::uint8_t> class_{EVICTION_CLASS_DEFAULT};
  std::atomic<std::uint32_t> ttl_{0};
  std::atomic<std::uint64_t> quota_{0}, disk_quota_{0}, pin_max_{~std::uint64_t{0}};
  std::atomic<std::uint64_t> bytes_{0}, pinned_bytes_{0};
  std::atomic<std::int64_t> disk_bytes_{0};
  std::array<Board, POLICIES> boards_;
  std::array<std::atomic<std::uint64_t>, INDEX_SHARDS> coldest_ns_;
};

/// The spaces of a node. They come and never go: whoever has one keeps it.
class Spaces {
 public:
  /// At most `pin_bytes_max` are pinned in all namespaces together.
  explicit Spaces(std::uint64_t pin_bytes_max);

  Space& rest() noexcept { return *spaces_[0]; }
  /// The one that a name belongs to.
  Space& of(std::string_view name, bool is_page) noexcept;
  /// Sets rules; an empty name means all namespaces without their own. Nothing: too many have some.
  Space* set(std::string_view name_space, const NamespaceRules& rules);

  std::size_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  Space& at(std::size_t lane) noexcept { return *spaces_[lane]; }
  const Space& at(std::size_t lane) const noexcept { return *spaces_[lane]; }

  bool try_pin(std::uint64_t bytes) noexcept;
  void unpin(std::uint64_t bytes) noexcept {
    pinned_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  }
  std::uint64_t pinned_bytes() const noexcept {
    return pinned_bytes_.load(std::memory_order_relaxed);
  }

  /// The next victim of one space, or of all: the oldest of the lowest class. `before_ns`: of those
  /// that were put at their places before.
  struct Choice {
    Space* space = nullptr;
    PolicyKind policy = PolicyKind::lru;
    std::uint8_t eviction_class = 0;
    Pick pick;
  };
  std::optional<Choice> choose(Space* only, std::uint64_t before_ns) noexcept;

 private:
  static void choose_of(Space& space, std::uint64_t before_ns,
                        std::optional<Choice>& best) noexcept;

  const std::uint64_t pin_bytes_max_;
  std::atomic<std::uint64_t> pinned_bytes_{0};
  std::array<std::unique_ptr<Space>, RULED_NAMESPACES_MAX + 1> spaces_;
  std::atomic<std::size_t> count_{1};
  mutable std::shared_mutex mutex_;  // Guards: by_name_. Held for one look-up.
  std::map<std::string, Space*, std::less<>> by_name_;
};

}  // namespace gd2fs
