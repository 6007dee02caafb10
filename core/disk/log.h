// Log: what all threads of one disk share, under one lock.
//
//   clerk         gives records their places, sends writes, strikes and syncs on their way
//   keepers       one per place: make segments ready, seal and clean them, try again what failed
//   threads of the seam    bring the answers
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "io.h"
#include "place.h"
#include "rate_bucket.h"

namespace gd2fs::disk {

struct WaitingStrike {
  LogCopyRef copy;
  Disk::Done done;
  std::uint64_t number;
};

struct Log {
  Log(DiskOptions options, std::unique_ptr<DiskIo> io)
      : options(std::move(options)), io(std::move(io)), bucket(this->options.write_bytes_per_s) {}

  // All of these under the lock.

  /// A call is under way; flushes that come later wait for it.
  std::uint64_t begin() {
    under_way.insert(++last_number);
    return last_number;
  }
  void end(std::uint64_t number) { under_way.erase(number); }
  void fail(Place& place, int error);
  /// It is here no more. Nothing happens when it was not.
  void let_go(LogCopy& copy);
  void wake_all() {
    clerk_called.notify_one();
    keepers_called.notify_all();
  }
  void unpin(Segment& segment) {
    if (--segment.pins == 0 && segment.state == Segment::State::doomed) keepers_called.notify_all();
  }

  const DiskOptions options;
  const std::unique_ptr<DiskIo> io;
  std::vector<std::unique_ptr<Place>> places;  // fixed once open

  mutable std::mutex mutex;  // Guards: all below, and all of the places. For arithmetic alone.
  std::condition_variable clerk_called, keepers_called, quiet;
  bool is_awake = false;  // once somebody listens to what is lost, or writes
  bool is_closing = false;
  bool has_keepers = true;  // else what is doomed stays as it is on the disk
  RateBucket bucket;
  DiskCounts counts;  // the sums
  std::uint64_t records = 0, live_bytes = 0;
  std::uint64_t serial_next = 1;
  std::uint64_t last_number = 0;
  std::set<std::uint64_t> under_way;  // writes and strikes that were accepted
  std::uint64_t on_way = 0;           // calls to the seam whose answer has not been passed on
  std::deque<WaitingStrike> strikes;
  std::deque<WaitingStrike> late_strikes;  // their record is being copied: once it is there
  Disk::Lost lost;
};

std::int64_t now_ns() noexcept;
inline std::int64_t now_ms() noexcept { return now_ns() / 1'000'000; }

/// Writes the grain that strikes a record, where `offset` says; `done` gets 0 or an errno.
void write_strike(DiskIo& io, int file, std::uint64_t segment_id, std::uint64_t offset,
                  std::uint32_t header_bytes, std::uint64_t length,
                  std::function<void(int error)> done);

}  // namespace gd2fs::disk
