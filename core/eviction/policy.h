// Policy: in which order the pieces of one namespace go. One instance per namespace and shard of
// the index, always called under that shard's lock.
//
// A policy only orders; whether a piece may go now (nobody reads it, nobody writes it) is asked by
// the caller, who hands back what may not with `passed_over`. An order may have several queues; the
// instances of all shards tell on a board where the heads of theirs are, so that one order over all
// shards comes of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace gd2fs {

class EvictionPolicy;
class Piece;

/// A piece's place in its policy. Lies inside the piece: nothing is allocated for it.
struct EvictionHook {
  EvictionHook* older = nullptr;
  EvictionHook* newer = nullptr;
  Piece* piece = nullptr;            // set by the caller while a policy has it
  std::uint64_t used_ns = 0;         // when it was put at its place, by the caller's clock
  EvictionPolicy* policy = nullptr;  // that has it
  std::uint32_t grains = 0;          // of the arena, that it had when it came
  std::uint8_t queue = 0;
  std::uint8_t uses = 0;            // as S3-FIFO counts them
  std::uint8_t eviction_class = 0;  // set by the caller before `add`, and kept
};

/// The next victim, if it may go: the head of that queue in that shard.
struct Pick {
  std::size_t shard = 0;
  std::size_t queue = 0;
  std::uint64_t used_ns = 0;   // of the head
  std::uint64_t until_ns = 0;  // heads up to here go before those of other shards
};

/// What comes back under the same key is the same, to policies that remember what has gone.
using KeyOf = std::uint64_t (*)(const EvictionHook&) noexcept;
/// Of a piece: another write of a range has another tag, and is the same.
std::uint64_t key_of_piece(const EvictionHook& hook) noexcept;

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  /// `used_ns`: now, or earlier when it comes from elsewhere.
  virtual void add(EvictionHook& hook, std::uint64_t now_ns, std::uint64_t used_ns) = 0;
  virtual void use(EvictionHook& hook, std::uint64_t now_ns) = 0;
  virtual void remove(EvictionHook& hook) = 0;
  /// The one of its queue that goes next, or nothing when that is empty.
  virtual EvictionHook* head(std::size_t queue) = 0;
  /// The one of the same queue that goes after it, or nothing.
  virtual EvictionHook* next(const EvictionHook& hook) = 0;
  /// The head of its queue may go as far as its holders are concerned. False: it has earned another
  /// place, and is there.
  virtual bool is_let_go(EvictionHook& hook, std::uint64_t now_ns) = 0;
  /// It goes for lack of room; `remove` follows.
  virtual void evicted(const EvictionHook& hook) = 0;
  /// The head cannot go now; another one comes first from here on.
  virtual void passed_over(EvictionHook& hook, std::uint64_t now_ns) = 0;
};

}  // namespace gd2fs
