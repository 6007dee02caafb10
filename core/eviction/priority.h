// Priority: a queue for each class, the lowest class first, the least recently used of it first.
//
// A piece's class is what its writer asked for, or else its namespace's.
#pragma once

#include <array>

#include "board.h"
#include "hook_list.h"

namespace gd2fs {

class Priority final : public EvictionPolicy {
 public:
  Priority(Board& board, std::size_t shard) : board_(board), shard_(shard) {}

  void add(EvictionHook& hook, std::uint64_t now_ns, std::uint64_t used_ns) override;
  void use(EvictionHook& hook, std::uint64_t now_ns) override;
  void remove(EvictionHook& hook) override;
  EvictionHook* head(std::size_t queue) override;
  EvictionHook* next(const EvictionHook& hook) override { return lists_[hook.queue].next(hook); }
  bool is_let_go(EvictionHook&, std::uint64_t) override { return true; }
  void evicted(const EvictionHook&) override {}
  void passed_over(EvictionHook& hook, std::uint64_t now_ns) override;

  static std::optional<Pick> next(const Board& board, std::uint64_t before_ns) noexcept;

 private:
  Board& board_;
  const std::size_t shard_;
  std::array<HookList, EVICTION_CLASSES> lists_;
};

}  // namespace gd2fs
