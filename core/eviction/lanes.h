// Lanes: the orders of one shard of the index, one for each namespace with rules of its own, and
// the pieces that are pinned, which are in no order. What is on disk alone has a list of its own
// for each namespace: the first to have left memory is the coldest.
//
// Not thread-safe: used under the shard's lock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "hook_list.h"
#include "lru.h"
#include "piece.h"
#include "space.h"

namespace gd2fs {

class Lanes {
 public:
  Lanes(Spaces& spaces, std::size_t shard);

  /// It came: into its namespace's order, as it is by now. Not one that is pinned.
  void add(Piece& piece, std::uint64_t now_ns, std::uint64_t used_ns);
  /// Its memory has gone, and its bytes are on disk.
  void add_cold(Piece& piece);
  /// The one of this namespace that is to leave the disk first; nothing when this shard has none.
  EvictionHook* coldest(const Space& space) noexcept;
  /// That one cannot go now; another one comes first from here on.
  void pass_over_coldest(Space& space, std::uint64_t now_ns) noexcept;
  /// It goes, or its memory does. One that is in no order: nothing.
  void remove(Piece& piece);
  /// For lack of room: what came back soon would be known.
  void evict(Piece& piece);
  void use(Piece& piece, std::uint64_t now_ns) {
    EvictionHook& hook = piece.use_;
    if (hook.policy == rest_) return rest_->use(hook, now_ns);  // nearly always: a direct call
    if (hook.policy != nullptr) hook.policy->use(hook, now_ns);
  }

  /// Out of its order, until it is unpinned or goes. False: it is pinned already, or more than may
  /// be is pinned.
  bool pin(Piece& piece);
  void unpin(Piece& piece, std::uint64_t now_ns);

  /// The order that a choice is about; nothing when this shard has none.
  EvictionPolicy* order_of(const Space& space, PolicyKind kind) noexcept;

  /// Rules have changed: what this space had goes where it belongs now.
  void settle(Space& space);
  /// Its namespace's space now: its bytes are counted there from here on.
  void settle(Piece& piece);

 private:
  using Lane = std::array<std::unique_ptr<EvictionPolicy>, POLICIES>;

  static void leave_order(EvictionHook& hook);
  EvictionPolicy& order_for(Space& space, PolicyKind kind);
  std::uint8_t class_of(const Piece& piece) const noexcept;
  bool is_settled(const Piece& piece) noexcept;
  HookList& cold_for(const Space& space);
  void remove_cold(Piece& piece) noexcept;
  void settle_cold(Space& space);

  Spaces& spaces_;
  const std::size_t shard_;
  std::vector<Lane> lanes_;
  std::vector<std::unique_ptr<HookList>> cold_;  // by lane; hooks of pieces without a policy
  Lru* const rest_;  // of all namespaces without rules, unless these have another policy
};

}  // namespace gd2fs
