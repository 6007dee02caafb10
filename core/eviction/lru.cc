#include "lru.h"

#include <algorithm>

namespace gd2fs {

Lru::Lru() { ends_.older = ends_.newer = &ends_; }

void Lru::add(EvictionHook& hook, Piece& piece, std::uint64_t now_ns, std::uint64_t used_ns) {
  hook.piece = &piece;
  link_newest(hook, used_ns);
  const EvictionHook& oldest = *ends_.newer;
  const std::uint64_t spanned_ns = now_ns - std::min(now_ns, oldest.used_ns);
  if (&oldest == &hook || used_ns >= oldest.used_ns + spanned_ns / 10) return;
  unlink(hook);
  hook.older = &ends_;
  hook.newer = ends_.newer;
  ends_.newer->older = &hook;
  ends_.newer = &hook;
}

void Lru::use(EvictionHook& hook, std::uint64_t now_ns) {
  unlink(hook);
  link_newest(hook, now_ns);
}

void Lru::remove(EvictionHook& hook) {
  unlink(hook);
  hook = EvictionHook{};
}

EvictionHook* Lru::candidate() { return ends_.newer == &ends_ ? nullptr : ends_.newer; }

// Held or still being written: that is a use.
void Lru::passed_over(EvictionHook& hook, std::uint64_t now_ns) { use(hook, now_ns); }

void Lru::link_newest(EvictionHook& hook, std::uint64_t now_ns) {
  hook.used_ns = now_ns;
  hook.newer = &ends_;
  hook.older = ends_.older;
  ends_.older->newer = &hook;
  ends_.older = &hook;
}

void Lru::unlink(EvictionHook& hook) {
  hook.older->newer = hook.newer;
  hook.newer->older = hook.older;
}

}  // namespace gd2fs
