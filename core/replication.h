// Replication: what a home sends its backups of one attempt to change a record, and what owners
// send each other of whole records.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "file_record.h"

namespace gd2fs {

/// A whole record, or that there is none.
struct FullRecord {
  bool is_there = false;
  FileRecord record;               // its version counts also when it is not there
  std::int64_t expires_in_ms = 0;  // 0: never
};
using FullRecordRef = std::shared_ptr<const FullRecord>;

struct Replication {
  std::uint64_t epoch = 0;
  std::string path;
  RecordVersion version;  // of this attempt
  // The record itself, or else a change, to be done to the record of version `base`.
  FullRecordRef full;
  RecordVersion base;
  RecordChange change;
};

/// What a backup says to it.
enum class ReplicaAnswer : std::uint8_t {
  accepted,
  send_full,    // it has another version than the change is for
  other_epoch,  // a later map is in force there: this attempt is over
  not_yet,      // an older one is: to be sent again
  fenced,       // its lease is over
  old_attempt,  // it has taken a later one
};

/// What an owner under the map before says to PULL.
struct PullAnswer {
  enum class Kind : std::uint8_t { none, record, refused };
  Kind kind = Kind::refused;
  FullRecordRef full;  // with record
};

}  // namespace gd2fs
