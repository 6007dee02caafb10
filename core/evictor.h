// Evictor: makes room, one piece at a time; in the background between two watermarks, in small
// steps.
//
// Whoever reserves asks it for single victims when memory is short; its thread sees to it that this
// is seldom, and lets go of what has outlived its time.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "account.h"
#include "eviction/evicted.h"
#include "index.h"

namespace gd2fs {

class Evictor {
 public:
  /// Starts at `above_bytes` in use, stops at `below_bytes`.
  /// Pieces that have to be written before they can go are told to `write`.
  Evictor(Index& index, Account& account, Spaces& spaces, std::uint64_t above_bytes,
          std::uint64_t below_bytes, std::function<void(PieceRef)> write);
  ~Evictor();  // joins the thread

  /// Frees one piece; how many bytes that gave back. 0: everything is held, young or half-written.
  /// `only`: of this space. `for_whom`: the namespace that needs the room, or nothing.
  std::uint64_t evict_one(Space* only, const Reason& reason);
  /// Tells the thread how much is in use now.
  void note_used(std::uint64_t used_bytes);
  /// Rules have changed: a quota may be less than what is there.
  void note_rules();

  std::uint64_t below_bytes() const noexcept { return below_bytes_; }
  EvictedByPolicy evicted() const noexcept;

 private:
  void run();
  void expire();
  void evict_down();
  void evict_over_quota();

  Index& index_;
  Account& account_;
  Spaces& spaces_;
  const std::uint64_t above_bytes_;
  const std::uint64_t below_bytes_;
  const std::function<void(PieceRef)> write_;
  struct Evicted {
    std::atomic<std::uint64_t> pieces{0}, bytes{0};
  };
  std::array<std::array<Evicted, 2>, POLICIES> evicted_;
  std::atomic<bool> is_wanted_{false};
  std::atomic<bool> is_stopping_{false};
  // Guards: only the sleep of the thread.
  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread thread_;
};

}  // namespace gd2fs
