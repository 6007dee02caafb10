// Lru: the least recently used goes first.
#pragma once

#include "board.h"
#include "hook_list.h"

namespace gd2fs {

class Lru final : public EvictionPolicy {
 public:
  Lru(Board& board, std::size_t shard) : board_(board), shard_(shard) {}

  void add(EvictionHook& hook, std::uint64_t now_ns, std::uint64_t used_ns) override;
  void use(EvictionHook& hook, std::uint64_t now_ns) override;
  void remove(EvictionHook& hook) override;
  EvictionHook* head(std::size_t queue) override;
  EvictionHook* next(const EvictionHook& hook) override { return list_.next(hook); }
  bool is_let_go(EvictionHook&, std::uint64_t) override { return true; }
  void evicted(const EvictionHook&) override {}
  void passed_over(EvictionHook& hook, std::uint64_t now_ns) override;

  static std::optional<Pick> next(const Board& board, std::uint64_t before_ns) noexcept;

 private:
  Board& board_;
  const std::size_t shard_;
  HookList list_;
};

}  // namespace gd2fs
