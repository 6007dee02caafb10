#include "s3_fifo.h"

#include <xxhash.h>

#include <algorithm>

#include "piece.h"

namespace gd2fs {

namespace {

constexpr std::uint8_t USES_MAX = 3;
constexpr std::uint8_t USES_TO_STAY = 2;   // at the head of the small queue
constexpr std::uint64_t SMALL_SHARE = 10;  // one of so many parts

/// As many as the main queue would have pieces if it had its whole share.
std::uint64_t ghosts_kept(std::uint64_t pieces) { return pieces * (SMALL_SHARE - 1) / SMALL_SHARE; }

}  // namespace

std::uint64_t key_of_piece(const EvictionHook& hook) noexcept {
  const Piece& piece = *hook.piece;
  const std::array<std::uint64_t, 3> place{piece.name_hash(), piece.chunk(), piece.offset()};
  return XXH3_64bits(place.data(), sizeof place);
}

void S3Fifo::add(EvictionHook& hook, std::uint64_t, std::uint64_t used_ns) {
  hook.uses = 0;
  enqueue(hook, take_ghost(key_of_(hook)) ? MAIN : SMALL, used_ns);
}

void S3Fifo::use(EvictionHook& hook, std::uint64_t) {
  if (hook.uses < USES_MAX) ++hook.uses;
}

void S3Fifo::remove(EvictionHook& hook) { dequeue(hook); }

EvictionHook* S3Fifo::head(std::size_t queue) {
  return queue < queues_.size() ? queues_[queue].oldest() : nullptr;
}

bool S3Fifo::is_let_go(EvictionHook& hook, std::uint64_t now_ns) {
  const bool is_small = hook.queue == SMALL;
  if (hook.uses < (is_small ? USES_TO_STAY : 1)) return true;
  hook.uses = is_small ? 0 : static_cast<std::uint8_t>(hook.uses - 1);
  dequeue(hook);
  enqueue(hook, MAIN, now_ns);
  return false;
}

void S3Fifo::evicted(const EvictionHook& hook) {
  if (hook.queue != SMALL) return;
  const std::uint64_t key = key_of_(hook);
  const std::uint64_t number = board_.ghosts.fetch_add(1, std::memory_order_relaxed);
  ghosts_[key] = number;
  by_number_.emplace_back(key, number);
  forget_old_ghosts();
}

void S3Fifo::passed_over(EvictionHook& hook, std::uint64_t now_ns) {
  const std::size_t queue = hook.queue;
  dequeue(hook);
  enqueue(hook, queue, now_ns);
}

// The small queue's pieces keep their places, but for those that are held: where all of them were
// passed over just now, the main queue has to give.
std::optional<Pick> S3Fifo::next(const Board& board, std::uint64_t before_ns) noexcept {
  const std::uint64_t small = board.grains(SMALL);
  const std::uint64_t all = small + board.grains(MAIN);
  if (all == 0) return {};
  std::optional<Pick> pick;
  if (small * SMALL_SHARE >= all) pick = board.oldest(SMALL, before_ns);
  if (!pick) pick = board.oldest(MAIN, NEVER_NS);
  if (!pick) pick = board.oldest(SMALL, before_ns);
  // The shares may be others after each step.
  if (pick) pick->until_ns = pick->used_ns;
  return pick;
}

/// A queue's times never fall: other shards' heads are compared by them.
void S3Fifo::enqueue(EvictionHook& hook, std::size_t queue, std::uint64_t at_ns) {
  hook.queue = static_cast<std::uint8_t>(queue);
  queues_[queue].link_newest(hook, std::max(at_ns, queues_[queue].newest_ns()));
  board_.add(queue, hook.grains);
  board_.note_head(queue, shard_, queues_[queue].oldest());
}

void S3Fifo::dequeue(EvictionHook& hook) {
  HookList::unlink(hook);
  board_.remove(hook.queue, hook.grains);
  board_.note_head(hook.queue, shard_, queues_[hook.queue].oldest());
}

bool S3Fifo::take_ghost(std::uint64_t key) {
  const auto found = ghosts_.find(key);
  if (found == ghosts_.end()) return false;
  const std::uint64_t age = board_.ghosts.load(std::memory_order_relaxed) - found->second;
  ghosts_.erase(found);
  return age <= ghosts_kept(board_.count(SMALL) + board_.count(MAIN) + 1);
}

void S3Fifo::forget_old_ghosts() {
  const std::uint64_t last = board_.ghosts.load(std::memory_order_relaxed);
  const std::uint64_t kept = ghosts_kept(board_.count(SMALL) + board_.count(MAIN));
  while (!by_number_.empty() && last - by_number_.front().second > kept) {
    const auto [key, number] = by_number_.front();
    by_number_.pop_front();
    const auto found = ghosts_.find(key);
    if (found != ghosts_.end() && found->second == number) ghosts_.erase(found);
  }
}

}  // namespace gd2fs
