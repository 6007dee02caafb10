// Loader: brings pieces from disk into memory. One load of a piece, however many ask for it.
//
// A load takes memory first, evicting like a writer does; then the bytes are read straight into the
// arena, and every block is verified before the piece takes the place of the cold one. Nobody waits
// here: who asked is called back. Soon, even when there is no memory: a node that says nothing is
// taken for a dead one.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "disk/disk.h"
#include "error.h"
#include "index.h"
#include "reserved.h"

namespace gd2fs {

/// Who goes first: a reader who waits, what he will ask for next, what was advised.
enum class LoadRank : std::uint8_t { demand = 0, ahead = 1, advised = 2 };

/// Set: it is not wanted any more. What has begun goes on.
using StopRef = std::shared_ptr<std::atomic<bool>>;

/// Whoever has asked. When it goes, nobody wants it any more.
struct Stop {
  StopRef flag = std::make_shared<std::atomic<bool>>(false);
  Stop() = default;
  Stop(Stop&&) noexcept = default;
  Stop& operator=(Stop&& other) noexcept {
    std::swap(flag, other.flag);
    return *this;
  }
  ~Stop() {
    if (flag != nullptr) *flag = true;
  }
};

struct LoadCounts {
  std::uint64_t pieces = 0, bytes = 0;  // brought into memory
  std::uint64_t failed = 0;             // could not be read, or not any more
  std::uint64_t corrupt = 0;            // did not match their sums
  std::uint64_t queued = 0;             // now: asked for, not begun
  std::uint64_t on_way_bytes = 0;       // now
};

class Loader {
 public:
  /// ok: the whole piece. miss: it is not here any more, or cannot be read. full: quotas and pins
  /// leave no room for it. retry: there has been none for a while. cancelled.
  using Done = std::function<void(Status, PieceRef)>;
  struct Host {
    /// A filling piece for the bytes of this one, its memory taken.
    std::function<Reserved(const Piece& cold)> reserve;
    std::function<bool(const Piece& cold)> is_exclusive;
    std::function<void(const PieceRef& warm)> on_loaded;  // it can be read from now on
    std::function<void()> on_starved;                     // somebody has to call `pump` soon
  };

  Loader(Index& index, Disk& disk, Host host)
      : index_(index), disk_(disk), host_(std::move(host)) {}

  /// `done` runs once, on any thread, perhaps before this returns; under no lock.
  void load(const PieceRef& piece, LoadRank rank, StopRef stop, Done done);
  /// Starts what waits, as far as there is memory. After some has become free.
  void pump();
  bool is_starved() const noexcept { return is_starved_.load(std::memory_order_relaxed); }
  /// Ends what waits, and waits for what has begun. Nothing starts after this.
  void stop();
  LoadCounts counts() const;

 private:
  struct Waiter {
    StopRef stop;
    Done done;
  };
  struct Load {
    PieceRef cold;
    PieceRef warm;  // once it has memory
    LoadRank rank = LoadRank::demand;
    bool is_begun = false;  // a thread has it; it stands in no queue that counts
    std::vector<Waiter> waiters;
  };
  using LoadRef = std::shared_ptr<Load>;
  enum class Begun : std::uint8_t { yes, over, starved };

  LoadRef next();
  Begun begin(const LoadRef& load);
  bool wait_for_room(const LoadRef& load);
  void take(const LoadRef& load, Status status);
  void finish(const LoadRef& load, Status status, const PieceRef& piece);
  std::vector<Waiter> end(const LoadRef& load);
  static bool is_right(const Piece& piece);
  static bool is_stopped(const Load& load);

  Index& index_;
  Disk& disk_;
  const Host host_;
  std::atomic<bool> is_starved_{false};
  std::atomic<std::uint64_t> pieces_{0}, bytes_{0}, failed_{0}, corrupt_{0};

  // Guards: all below. Held for arithmetic only.
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::unordered_map<const Piece*, LoadRef> loads_;  // by what is cold; each keeps its own alive
  std::array<std::deque<LoadRef>, 3> waiting_;       // by rank
  std::uint64_t on_way_ = 0, on_way_bytes_ = 0;
  // Nothing has found room since, and when that was tried last; 0: the last one did.
  std::int64_t starved_since_ms_ = 0, starved_last_ms_ = 0;
  bool is_stopping_ = false;
};

}  // namespace gd2fs
