// Lru: the least recently used goes first. A doubly linked list through the pieces themselves.
//
// What comes in with an age goes to the old end when it is older than the oldest tenth of the time
// that the list spans, else to the new end: a place in between would have to be looked for.
#pragma once

#include "policy.h"

namespace gd2fs {

class Lru final : public EvictionPolicy {
 public:
  Lru();

  void add(EvictionHook& hook, Piece& piece, std::uint64_t now_ns, std::uint64_t used_ns) override;
  void use(EvictionHook& hook, std::uint64_t now_ns) override;
  void remove(EvictionHook& hook) override;
  EvictionHook* candidate() override;
  void passed_over(EvictionHook& hook, std::uint64_t now_ns) override;

 private:
  void link_newest(EvictionHook& hook, std::uint64_t now_ns);
  static void unlink(EvictionHook& hook);

  EvictionHook ends_;  // a ring: `newer` is the oldest, `older` the newest
};

}  // namespace gd2fs
