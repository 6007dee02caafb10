// Record shard: the records of a part of all paths, those that were used least first, and what is
// known of paths without one.
//
// Has no lock of its own: whoever calls holds the shard's mutex, so a step sees one map from its
// beginning to its end.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "file_record.h"
#include "map_history.h"
#include "record_log.h"
#include "record_marks.h"
#include "replication.h"

namespace gd2fs {

/// What a node knows of a path's record.
enum class Standing : std::uint8_t {
  valid,      // it has it
  absent,     // there is none
  forgotten,  // there may be one, which nobody is to be asked for: a miss
  unknown,    // those who owned it before are to be asked
};

class RecordShard {
 public:
  struct Entry {
    FileRecord record;
    std::int64_t expires_ms = 0;      // CLOCK_BOOTTIME; 0: never
    std::uint64_t valid_epoch = 0;    // R3 held up to here
    std::uint64_t settled_epoch = 0;  // all its owners of that epoch had this version
    std::list<const std::string*>::iterator use;
  };
  using ByPath = std::map<std::string, Entry, std::less<>>;

  RecordShard(std::size_t records_max, std::size_t spans_max, std::size_t marks_max)
      : records_max_(records_max), spans_max_(spans_max), marks_(marks_max) {}

  // Guards: everything in here. Held for arithmetic only.
  mutable std::mutex mutex;

  void take_history(MapHistoryRef history, bool is_gap);
  /// The barrier of this epoch is passed: mutations may be answered.
  void open() { is_open_ = true; }
  bool is_open() const noexcept { return is_open_ || history_ == nullptr; }
  const MapHistory* history() const noexcept { return history_.get(); }
  std::uint64_t epoch() const { return history_ == nullptr ? 0 : history_->epoch(); }

  /// What is there, valid or not; nothing when its time is over.
  Entry* find(std::string_view path);
  /// The same, if it is valid: then up to now.
  Entry* find_valid(std::string_view path);
  bool is_valid(std::string_view path, Entry& entry) const;
  Standing standing(std::string_view path);

  /// Of a path without a valid record: what to say, and what a new one may be based on.
  RecordAnswer absence(std::string_view path);
  /// What a change of a path comes to. `entry`: its valid record, or nullptr.
  Decision decide(std::string_view path, const Entry* entry, const RecordChange& asked);

  /// What is there, or a new one.
  Entry& make(std::string_view path);
  /// After a change to `entry`: counts, use and expiry. `spans_before`: how many it had.
  void changed(std::string_view path, Entry& entry, std::size_t spans_before);
  void touch(Entry& entry) { uses_.splice(uses_.end(), uses_, entry.use); }
  /// Does a decided change to a path, as home or as backup.
  RecordAnswer apply(std::string_view path, const RecordChange& change,
                     const RecordVersion& version);
  /// Puts a whole record, or its absence, in the place of what is there.
  void put(std::string_view path, const FullRecord& full);
  FullRecord full(std::string_view path, std::int64_t now_ms);

  /// It is there no more. Where others may have it, that is remembered as `mark`.
  void erase(ByPath::iterator at, Mark mark);
  void set_mark(std::string_view path, Mark mark, const RecordVersion& version);
  /// The last attempt of the home with this boot that is known here.
  RecordVersion last_version(std::string_view path, std::uint64_t boot);

  /// From here on every change is told to a log; nothing: to none.
  void set_log(RecordLog* log) { log_ = log; }
  /// What a log tells of a change that was made before.
  void restore(const LogEntry& entry);
  /// Adds records after `after` to a log's copy, at most `count_max`. The last one's path, or
  /// nothing when there are no more; then also the tombstones.
  std::optional<std::string> copy_to(RecordLog& log, std::string_view after,
                                     std::size_t count_max) const;
  /// Nobody is to know it any more, here or after a restart.
  void forget(ByPath::iterator at);

  ByPath& records() noexcept { return records_; }
  const ByPath& records() const noexcept { return records_; }
  /// Drops those whose time is over. How many.
  std::size_t expire(std::int64_t now_ms, std::size_t count_max);

 private:
  bool is_shared(std::string_view path) const;
  void set_expiry(std::string_view path, Entry& entry, std::int64_t expires_ms);
  bool is_told() const { return log_ != nullptr && log_->is_listening(); }
  void tell(std::string_view path, const RecordChange& change, const RecordVersion& version,
            std::int64_t expires_ms) const;
  void tell(std::string_view path, const FullRecord& full, std::int64_t expires_ms) const;
  void shrink(const Entry* kept);

  const std::size_t records_max_;
  const std::size_t spans_max_;
  MapHistoryRef history_;  // nothing: this node is alone for ever
  bool is_open_ = false;
  ByPath records_;
  std::list<const std::string*> uses_;  // oldest first
  std::set<std::pair<std::int64_t, std::string_view>> expiring_;
  std::size_t spans_ = 0;
  std::uint64_t absence_ = random_gen();  // another one whenever something goes
  RecordMarks marks_;
  RecordLog* log_ = nullptr;
};

}  // namespace gd2fs
