// Cleaner: makes room in a place that is full.
//
// The segment with the least live bytes is taken while that is at most half of it, and while all
// that was ever moved is no more than what callers have written: so a byte that is written costs
// at most one more. Else the segment that was of use the longest ago goes as a whole: it is a
// cache.
#pragma once

#include <mutex>
#include <vector>

#include "grain_buffer.h"
#include "log.h"
#include "segment_work.h"

namespace gd2fs::disk {

class Cleaner {
 public:
  Cleaner(Log& log, Place& place) : log_(log), place_(place) {}

  /// Makes one segment doomed. With the lock held at its beginning and end. False: there is none.
  bool make_room(LogLock& lock);

 private:
  /// One record on its way from one segment to another.
  struct Move {
    LogCopyRef copy;
    Segment* from;
    std::uint64_t from_id, from_offset;
    Segment* to;
    std::uint64_t to_id, to_offset;
    GrainBuffer bytes;
    bool is_read = false, is_whole = false, is_written = false;
  };

  bool is_worth_moving(const Segment& victim) const;
  bool move_all(Segment& victim, LogLock& lock);
  bool wait_for_turn(LogLock& lock);
  std::vector<Move> next_batch(const std::vector<LogCopyRef>& copies, std::size_t& next,
                               LogLock& lock);
  Segment* target_for(std::uint64_t bytes, LogLock& lock);
  void carry(std::vector<Move>& batch);
  bool settle(std::vector<Move>& batch);
  void settle(Move& move);
  bool sync_targets(const Segment& victim, LogLock& lock);

  Log& log_;
  Place& place_;
};

}  // namespace gd2fs::disk
