// Records: the records of files that a node keeps, outside the arena, as home, as backup, or until
// their new owners have them.
//
// Thread-safe, sharded by path: a step on a path is one hold of its shard's lock, and sees one map.
// What has to wait for other nodes is the record keeper's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "file_record.h"
#include "record_shard.h"
#include "replication.h"
#include "wire.h"

namespace gd2fs {

class Records {
 public:
  explicit Records(std::size_t records_max);
  ~Records();

  /// The map in force from here on, for one shard after the other. Without any, this node is alone.
  void take_history(const MapHistoryRef& history, bool is_gap);
  /// The barrier of its epoch is passed.
  void open();

  // ---- what can be done at once

  /// The segments that overlap `[offset, offset + length)` of the file, at most `segments_max`
  /// (then `is_cut` and the caller asks again from where it ends). gone: no such file. miss: that
  /// is not known, and cannot be. retry: others are to be asked.
  RecordAnswer meta(std::string_view path, std::uint64_t offset, std::uint64_t length,
                    std::size_t segments_max, wire::MetaBody& body, bool& is_cut);
  /// Nothing when other owners have to agree, or to be asked first.
  ///   create    there already: ok with its gen, seq and size (with `is_if_absent`: conflict)
  ///   commit    gone: other generation. conflict: an overlapping segment or truncation with a seq
  ///             past `seen_seq`, or another size. full: the file would pass FILE_BYTES_MAX.
  ///             invalid: a chunk would pass SEGMENTS_PER_CHUNK_MAX (the writer rewrites it)
  ///   replace   the file becomes `length` bytes under `tag`, whether it was there or not: a new
  ///             generation, of which nothing half-written is ever seen. Its seq goes on
  ///   truncate  a larger size is invalid. Raises trunc_seq, cuts segments
  ///   unlink    ok with how many chunks it had, or gone when there was none
  std::optional<RecordAnswer> change_at_once(std::string_view path, const RecordChange& asked);
  /// ok, with the seq of the commit. miss: not listed. retry: others are to be asked.
  Status is_listed(std::string_view path, std::uint64_t chunk, std::uint64_t tag,
                   std::uint64_t& seq);
  /// Paths of valid records that start with `prefix`, after `after`, sorted.
  std::vector<wire::ListEntry> list(std::string_view prefix, std::string_view after,
                                    std::size_t count_max, bool& more) const;
  /// All files of a namespace, in small steps.
  std::size_t clear(std::string_view name_space);
  std::size_t count() const;
  /// Drops records whose time to live is over. How many.
  std::size_t expire(std::int64_t boottime_ms, std::size_t count_max);

  // ---- over a restart

  /// Before `use_log`: does again what a log tells, and drops what has expired since. Nothing, when
  /// the log does not count.
  RecordRecovery restore(const RecordLog& log);
  /// Starts the log with what is there. From here on every change is told to it.
  Result<bool> use_log(RecordLog& log);
  /// Changes are not written to it any more.
  void leave_log();
  /// Writes the log anew, a few records at a time. One thread at a time.
  Result<bool> copy_log();
  /// Every change that was made before is in the log. False: nobody may be told of any.
  bool commit() { return log_ == nullptr || log_->commit(); }

  // ---- as home, step by step

  Standing standing(std::string_view path);
  struct Prepared {
    Decision decision;
    RecordVersion base;  // what the change is to be done to
  };
  Prepared prepare(std::string_view path, const RecordChange& asked);
  /// The record as it is after a decided change. Nothing: it is another one by now.
  FullRecordRef full_after(std::string_view path, const RecordChange& change,
                           const RecordVersion& version);
  /// Does a decided change, which all owners have. unknown: the record is another one by now.
  RecordAnswer finish(std::string_view path, const RecordChange& change,
                      const RecordVersion& version);
  /// What others said of an unknown record. Nothing is done unless it still is unknown.
  void learn(std::string_view path, const FullRecord& full);
  void learn_absent(std::string_view path);
  void give_up(std::string_view path);
  /// An attempt may have reached a backup: if there is no record here, that is not sure any more.
  void doubt(std::string_view path, const RecordVersion& version);

  // ---- for other nodes

  ReplicaAnswer take(const Replication& attempt);
  PullAnswer pull(std::string_view path, std::uint64_t epoch);

  // ---- after a change of the map

  enum class Move : std::uint8_t {
    refresh,  // home here: backups are to have it
    touch,    // home elsewhere: it is to ask for it
  };
  struct Moving {
    std::string path;
    Move move;
  };
  /// Where a walk over all records stands.
  struct Walk {
    std::size_t shard = 0;
    std::string after;
    std::size_t seen_count = 0;
    bool is_done = false;
  };
  /// Looks at some records and adds to `out` those that have to move. Drops what nobody can use.
  /// `returned`: nodes of a list that have begun anew, with nothing.
  void walk(Walk& walk, const std::vector<NodeId>& returned, std::vector<Moving>& out);
  /// Of no record is it known any more that all its owners have it.
  void unsettle();
  /// Notes of some records that they count up to now, before the maps that show it are forgotten.
  void renew(Walk& walk);
  /// Its new owners have it: forgets it, unless this node is one of them.
  void drop_moved(std::string_view path);

 private:
  struct State;
  std::unique_ptr<State> state_;
  RecordLog* log_ = nullptr;  // set once, before anyone asks
};

}  // namespace gd2fs
