// Flusher: writes pieces to disk, ahead of their eviction or as soon as they are published.
//
// Its one thread keeps a bounded number of bytes on their way, oldest first, as long as more of the
// arena is dirty than shall be. Pieces on their way are held, so they are not evicted meanwhile.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "disk/disk.h"
#include "error.h"
#include "index.h"
#include "piece.h"

namespace gd2fs {

struct FlusherOptions {
  std::uint64_t dirty_bytes_max = 0;    // more is written at once
  std::uint64_t on_way_bytes_max = 0;   // at least one piece
  std::uint64_t write_bytes_per_s = 0;  // as the disk has it; 0: no limit
};

struct FlusherCounts {
  std::uint64_t pieces = 0, bytes = 0;  // that reached the disk
  std::uint64_t failed = 0;             // writes that came to nothing
  std::uint64_t on_way_bytes = 0;       // now
  bool is_losing = false;               // now: evicted pieces go unwritten
};

class Flusher {
 public:
  using Done = std::function<void(Status)>;

  /// `on_room`: called when there may be room in memory that was not there before.
  Flusher(Index& index, Disk& disk, const FlusherOptions& options, std::function<void()> on_room);
  ~Flusher() { stop(); }

  void start();
  /// Is too much dirty now? A hint after a publication.
  void note_dirty();
  /// Writes this one ahead of the others.
  void write_soon(PieceRef piece);
  /// Likewise; `done` runs once it is on disk. ok: it is. miss: it has gone. cancelled, or what the
  /// disk said. Under no lock, on any thread, perhaps before this returns.
  void write(const PieceRef& piece, Done done);
  /// Calls `on_room` at once, on its own thread.
  void wake();
  /// Likewise, and if that was just before, after a little while.
  void want_room();
  void set_write_rate(std::uint64_t bytes_per_s) noexcept { rate_.store(bytes_per_s); }
  /// Writes all that is dirty. False: not within this time, or the disk is out of order.
  bool drain(std::chrono::milliseconds timeout);
  /// Joins; what is on its way ends first.
  void stop();
  FlusherCounts counts() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Write {
    PieceRef piece;
    std::vector<Done> waiters;
    bool is_begun = false;
    Space* space = nullptr;  // that counts its bytes as on disk while they are on their way
  };
  using WriteRef = std::shared_ptr<Write>;

  void loop();
  void round();
  WriteRef next();
  WriteRef wanted(PieceRef piece);
  void begin(const WriteRef& write);
  void take(const WriteRef& write, Status status, const DiskCopyRef& copy);
  void finish(const WriteRef& write, Status status);
  bool has_room();
  bool is_behind() const;

  Index& index_;
  Disk& disk_;
  const FlusherOptions options_;
  const std::function<void()> on_room_;
  std::atomic<std::uint64_t> rate_;
  std::atomic<std::uint64_t> pieces_{0}, bytes_{0}, failed_{0};
  std::atomic<bool> is_failing_{false};
  std::atomic<bool> is_draining_{false};

  // Guards: all below. Held for arithmetic only.
  mutable std::mutex mutex_;
  std::condition_variable called_;
  std::condition_variable ended_;
  std::deque<WriteRef> urgent_;
  std::unordered_map<const Piece*, WriteRef> writes_;  // waiting in `urgent_`, or on their way
  std::uint64_t on_way_ = 0, on_way_bytes_ = 0;
  Clock::time_point not_before_{};  // after a refusal
  bool is_called_ = false;
  bool is_room_wanted_ = false;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace gd2fs
