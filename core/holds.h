// Holds: pieces that left a stream by reference. Spliced payload lies in the reader's socket queue
// as pages of the arena, leased payload is copied out of the arena by the reader itself: in both
// cases only the reader can say that it has the bytes.
//
// Every payload byte of a stream is counted, however it travelled. The reader tells in each frame
// how many of them it has copied out; what ends at or before that count is let go.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <span>

#include "piece.h"

namespace gd2fs::serve {

/// Bytes that all streams of a node hold, and how many they may.
struct HoldBudget {
  explicit HoldBudget(std::uint64_t arena_bytes) noexcept;

  const std::uint64_t stream_bytes_max;  // past it a stream gets copies
  const std::uint64_t node_bytes_max;
  std::atomic<std::uint64_t> held_bytes{0};
};

/// The holds of one stream. They go with it: a reader that is cut off is never told that its bytes
/// were in place, and takes nothing unverified for whole.
class Holds {
 public:
  explicit Holds(HoldBudget& budget) noexcept : budget_(budget) {}
  ~Holds() { clear(); }
  Holds(const Holds&) = delete;
  Holds& operator=(const Holds&) = delete;

  /// May `bytes` more go out by reference?
  bool has_room(std::uint64_t bytes) const noexcept { return bytes <= room(); }
  std::uint64_t room() const noexcept;
  /// Payload of `bytes` is about to leave by reference to `pieces`, as the next of this stream.
  void add(std::uint64_t bytes, std::span<const PieceRef> pieces);
  /// Payload of `bytes` is about to leave as a copy.
  void count(std::uint64_t bytes) noexcept { sent_bytes_ += bytes; }
  /// The reader has copied out so many payload bytes in all. False: more than were ever sent.
  bool release(std::uint64_t consumed, std::int64_t now_ms);

  std::uint64_t bytes() const noexcept { return bytes_; }
  /// Since when something is held without any being released; 0 when nothing is.
  std::int64_t waiting_since_ms(std::int64_t now_ms) noexcept;
  void clear() noexcept;

 private:
  struct Hold {
    std::uint64_t end = 0;  // of the stream's payload
    std::uint64_t bytes = 0;
    PieceRef piece;
  };

  HoldBudget& budget_;
  std::deque<Hold> holds_;
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t consumed_ = 0;
  std::uint64_t bytes_ = 0;       // in holds_
  std::int64_t progress_ms_ = 0;  // of the last release, or when the first hold was seen; 0: none
};

}  // namespace gd2fs::serve
