// S3Fifo: what is used but once goes soon (Yang et al., SOSP 2023).
//
// New pieces go into a small queue. At its head those that were used more than once go on into the
// main one, the others go, and are remembered as ghosts: a piece that comes back while it is one
// goes into the main queue at once. The main queue is a FIFO in which every use, three at most,
// buys another round. The small queue is served while it has a tenth of the bytes or more.
#pragma once

#include <array>
#include <deque>
#include <unordered_map>
#include <utility>

#include "board.h"
#include "hook_list.h"

namespace gd2fs {

class S3Fifo final : public EvictionPolicy {
 public:
  S3Fifo(Board& board, std::size_t shard, KeyOf key_of = key_of_piece)
      : board_(board), shard_(shard), key_of_(key_of) {}

  void add(EvictionHook& hook, std::uint64_t now_ns, std::uint64_t used_ns) override;
  void use(EvictionHook& hook, std::uint64_t now_ns) override;
  void remove(EvictionHook& hook) override;
  EvictionHook* head(std::size_t queue) override;
  EvictionHook* next(const EvictionHook& hook) override { return queues_[hook.queue].next(hook); }
  bool is_let_go(EvictionHook& hook, std::uint64_t now_ns) override;
  void evicted(const EvictionHook& hook) override;
  void passed_over(EvictionHook& hook, std::uint64_t now_ns) override;

  static std::optional<Pick> next(const Board& board, std::uint64_t before_ns) noexcept;

 private:
  static constexpr std::size_t SMALL = 0;
  static constexpr std::size_t MAIN = 1;

  void enqueue(EvictionHook& hook, std::size_t queue, std::uint64_t at_ns);
  void dequeue(EvictionHook& hook);
  bool take_ghost(std::uint64_t key);
  void forget_old_ghosts();

  Board& board_;
  const std::size_t shard_;
  const KeyOf key_of_;
  std::array<HookList, 2> queues_;
  // Over all shards as many as the main queue would have pieces with its whole share: which are too
  // old tells their number.
  std::unordered_map<std::uint64_t, std::uint64_t> ghosts_;        // key -> number
  std::deque<std::pair<std::uint64_t, std::uint64_t>> by_number_;  // key, number
};

}  // namespace gd2fs
