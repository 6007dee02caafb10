// HookList: pieces in an order, oldest first. A ring through the pieces themselves.
#pragma once

#include <algorithm>
#include <cstdint>

#include "policy.h"

namespace gd2fs {

class HookList {
 public:
  HookList() { ends_.older = ends_.newer = &ends_; }
  HookList(const HookList&) = delete;
  HookList& operator=(const HookList&) = delete;

  EvictionHook* oldest() noexcept { return ends_.newer == &ends_ ? nullptr : ends_.newer; }
  std::uint64_t newest_ns() const noexcept {
    return ends_.older == &ends_ ? 0 : ends_.older->used_ns;
  }
  EvictionHook* next(const EvictionHook& hook) noexcept {
    return hook.newer == &ends_ ? nullptr : hook.newer;
  }

  void link_newest(EvictionHook& hook, std::uint64_t used_ns) noexcept {
    hook.used_ns = used_ns;
    link_between(hook, *ends_.older, ends_);
  }

  /// What comes in with an age goes to the old end when it is older than the oldest tenth of the
  /// time that the list spans, else to the new end: a place in between would have to be looked for.
  void link_by_age(EvictionHook& hook, std::uint64_t now_ns, std::uint64_t used_ns) noexcept {
    const EvictionHook* const first = oldest();
    if (first == nullptr) return link_newest(hook, used_ns);
    const std::uint64_t spanned_ns = now_ns - std::min(now_ns, first->used_ns);
    if (used_ns >= first->used_ns + spanned_ns / 10) return link_newest(hook, used_ns);
    hook.used_ns = used_ns;
    link_between(hook, ends_, *ends_.newer);
  }

  static void unlink(EvictionHook& hook) noexcept {
    hook.older->newer = hook.newer;
    hook.newer->older = hook.older;
  }

 private:
  static void link_between(EvictionHook& hook, EvictionHook& older, EvictionHook& newer) noexcept {
    hook.older = &older;
    hook.newer = &newer;
    older.newer = newer.older = &hook;
  }

  EvictionHook ends_;  // `newer` is the oldest, `older` the newest
};

}  // namespace gd2fs
