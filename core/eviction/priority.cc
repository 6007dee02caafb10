#include "priority.h"

namespace gd2fs {

void Priority::add(EvictionHook& hook, std::uint64_t now_ns, std::uint64_t used_ns) {
  hook.queue = hook.eviction_class;
  lists_[hook.queue].link_by_age(hook, now_ns, used_ns);
  board_.add(hook.queue, hook.grains);
  board_.note_head(hook.queue, shard_, lists_[hook.queue].oldest());
}

void Priority::use(EvictionHook& hook, std::uint64_t now_ns) {
  HookList::unlink(hook);
  lists_[hook.queue].link_newest(hook, now_ns);
  board_.note_head(hook.queue, shard_, lists_[hook.queue].oldest());
}

void Priority::remove(EvictionHook& hook) {
  HookList::unlink(hook);
  board_.remove(hook.queue, hook.grains);
  board_.note_head(hook.queue, shard_, lists_[hook.queue].oldest());
}

EvictionHook* Priority::head(std::size_t queue) { return lists_[queue].oldest(); }

void Priority::passed_over(EvictionHook& hook, std::uint64_t now_ns) { use(hook, now_ns); }

// A class of which all pieces are held, or were passed over just now, leaves it to the next one.
std::optional<Pick> Priority::next(const Board& board, std::uint64_t before_ns) noexcept {
  for (std::size_t queue = 0; queue < EVICTION_CLASSES; ++queue) {
    if (board.count(queue) == 0) continue;
    if (const auto pick = board.oldest(queue, before_ns)) return pick;
  }
  return {};
}

}  // namespace gd2fs
