#include "lru.h"

namespace gd2fs {

void Lru::add(EvictionHook& hook, std::uint64_t now_ns, std::uint64_t used_ns) {
  hook.queue = 0;
  list_.link_by_age(hook, now_ns, used_ns);
  board_.add(0, hook.grains);
  board_.note_head(0, shard_, list_.oldest());
}

void Lru::use(EvictionHook& hook, std::uint64_t now_ns) {
  HookList::unlink(hook);
  list_.link_newest(hook, now_ns);
  board_.note_head(0, shard_, list_.oldest());
}

void Lru::remove(EvictionHook& hook) {
  HookList::unlink(hook);
  board_.remove(0, hook.grains);
  board_.note_head(0, shard_, list_.oldest());
}

EvictionHook* Lru::head(std::size_t queue) { return queue == 0 ? list_.oldest() : nullptr; }

// Held or still being written: that is a use.
void Lru::passed_over(EvictionHook& hook, std::uint64_t now_ns) { use(hook, now_ns); }

std::optional<Pick> Lru::next(const Board& board, std::uint64_t before_ns) noexcept {
  return board.oldest(0, before_ns);
}

}  // namespace gd2fs
