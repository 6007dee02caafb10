// Policy: which piece goes next. One instance per shard of the index, always called under that
// shard's lock.
//
// A policy only orders; whether a piece may go now (nobody reads it, nobody writes it) is asked by
// the caller, who hands back what may not with `passed_over`.
#pragma once

#include <cstdint>
#include <memory>

namespace gd2fs {

class Piece;

/// A piece's place in its policy. Lies inside the piece: nothing is allocated for it.
struct EvictionHook {
  EvictionHook* older = nullptr;
  EvictionHook* newer = nullptr;
  Piece* piece = nullptr;     // set while a policy has it
  std::uint64_t used_ns = 0;  // when it was last used, by the caller's clock
};

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  /// `used_ns`: now, or earlier when it comes from another node.
  virtual void add(EvictionHook& hook, Piece& piece, std::uint64_t now_ns,
                   std::uint64_t used_ns) = 0;
  virtual void use(EvictionHook& hook, std::uint64_t now_ns) = 0;
  virtual void remove(EvictionHook& hook) = 0;
  /// The one to go next, or nothing when there are none. Its `used_ns` orders it among other
  /// shards' candidates.
  virtual EvictionHook* candidate() = 0;
  /// The candidate cannot go now; another one comes first from here on.
  virtual void passed_over(EvictionHook& hook, std::uint64_t now_ns) = 0;
};

}  // namespace gd2fs
