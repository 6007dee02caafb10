// Record log: every change to the records of a node is in a file before anyone is told of it, so
// that they are there again after its process has ended, however it ended.
//
// Entries are added under the lock of the record's shard, which gives them their order, and written
// by whoever has to answer first, for all that wait: `commit`. A log that has grown is written anew
// beside the old one, which counts until the new one is whole:
//
//   begin_copy -> (add what there is, step by step; changes go to both) -> end_copy
//
// A disk that does not take it makes no node stop: the log is emptied, as one that lacks a change
// would be worse than none, and records live in memory alone until a copy succeeds.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "error.h"
#include "record_log_format.h"
#include "transport/tcp.h"

namespace gd2fs {

class RecordLog {
 public:
  /// Nothing is opened before the first `begin_copy`.
  RecordLog(std::string path, LogOwner owner) : path_(std::move(path)), owner_(std::move(owner)) {}

  const std::string& path() const noexcept { return path_; }
  const LogOwner& owner() const noexcept { return owner_; }

  // Under the lock of the path's shard. They only add to a buffer.
  void add(std::string_view path, std::int64_t expires_ms, const Replication& attempt);
  void add_forgotten(std::string_view path);
  /// Of the state as it is, for a copy alone.
  void add_copy(std::string_view path, std::int64_t expires_ms, const Replication& attempt);
  /// Is there anyone who reads what is added?
  bool is_listening() const noexcept { return is_listening_.load(); }

  /// What was added before is in the file, or the file says nothing. False: neither could be done,
  /// so nobody may be told.
  bool commit();

  /// It has grown to more than twice what it was when it was copied, or it is out of order and has
  /// been so for a while.
  bool is_copy_due(std::int64_t now_ms) const;
  /// The error of a file that cannot be written.
  Result<bool> begin_copy(std::int64_t now_ms);
  Result<bool> end_copy();
  /// The node ends by itself: all of it is on the disk then.
  void close();

  bool is_on() const;  // it has all changes
  std::uint64_t bytes() const;
  std::uint64_t faults() const noexcept { return faults_.load(); }  // writes that failed

 private:
  struct File {
    tcp::Descriptor fd;
    wire::Bytes pending;  // added, not written
    std::uint64_t bytes = 0;
  };

  void note_listening();
  bool write_some(std::unique_lock<std::mutex>& lock);
  void turn_off();
  std::string copy_path() const { return path_ + ".new"; }

  const std::string path_;
  const LogOwner owner_;
  std::atomic<bool> is_listening_{false};
  std::atomic<std::uint64_t> faults_{0};

  // Guards: all below. Never held while a file is written.
  mutable std::mutex mutex_;
  std::condition_variable written_;
  bool is_writing_ = false;
  std::uint64_t added_count_ = 0, written_count_ = 0;  // entries
  File log_;                                           // no descriptor: off
  File copy_;                                          // no descriptor: none is being made
  bool is_stale_ = false;  // what lies at `path_` is neither complete nor empty
  std::uint64_t copied_bytes_ = 0;
  std::int64_t tried_ms_ = 0;
};

}  // namespace gd2fs
