// Record log, its format: how changes to records lie in a file, one after the other.
//
//   head, 512 B    whose log it is, which list of nodes it counts under, which start of the machine
//   entry          u32 bytes of the body | u8 kind | u8[3] 0 | u64 its sum | u64 sum of this
//     change         u16 path bytes | path | i64 expires | attempt (record_parts.h)
//     forgotten      u16 path bytes | path
//     closed         nothing: all before it had reached the disk when its node ended
//
// A process that is killed leaves at most a last entry that is not whole: nobody was told of that.
// An entry that is whole but wrong says that the disk has changed what was told: then none of it
// counts.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "machine_start.h"
#include "record_parts.h"

namespace gd2fs {

inline constexpr std::size_t LOG_HEAD_BYTES = 512;

/// Under what a log was written.
struct LogOwner {
  std::string cluster;
  std::string node;
  std::array<std::byte, 16> list_hash{};
  MachineStart machine;
};

/// One thing that a log tells.
struct LogEntry {
  enum class Kind : std::uint8_t { change = 1, forgotten = 2, closed = 3 } kind = Kind::change;
  std::string path;
  Replication attempt;          // change; `epoch` and `path` are not set
  std::int64_t expires_ms = 0;  // CLOCK_BOOTTIME of the machine's start that the head names
};

/// What became of a log when it was read.
struct RecordRecovery {
  bool is_kept = false;  // there is a log from here on
  std::string fault;     // why what it said does not count; empty when it does
  std::uint64_t records = 0;
  std::uint64_t expired = 0;
  std::uint64_t entries = 0;
  bool is_torn = false;  // its last entry was not whole
  double took_ms = 0;
};

void encode_log_head(wire::Bytes& out, const LogOwner& owner);
/// Of a whole record in as many entries as it needs.
void encode_log_change(wire::Bytes& out, std::string_view path, std::int64_t expires_ms,
                       const Replication& attempt);
void encode_log_forgotten(wire::Bytes& out, std::string_view path);
void encode_log_closed(wire::Bytes& out);

/// Reads a log and calls for each entry, in order, with times on the clock of `owner`. What was
/// visited does not count when there is a fault in the end.
RecordRecovery read_log(const std::string& path, const LogOwner& owner,
                        const std::function<void(const LogEntry&)>& visit);

}  // namespace gd2fs
