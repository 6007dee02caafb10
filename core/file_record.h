// File record: what a file is, generation, size and which range has which tag; and what a change
// makes of it.
//
// A home decides what a change comes to, and every owner then does exactly that: the same change on
// the same record gives the same record everywhere.
#pragma once

#include <cstdint>

#include "error.h"
#include "record_version.h"
#include "span_map.h"

namespace gd2fs {

struct FileRecord {
  std::uint64_t gen = 0;
  std::uint64_t seq = 0;
  std::uint64_t size = 0;
  std::uint64_t size_most = 0;  // it ever had
  std::uint64_t trunc_seq = 0;  // of the last truncation
  std::uint32_t chunk_bytes = 0;
  std::uint32_t ttl_s = 0;
  std::uint8_t replicas = 0;  // of its pieces; 0: as the namespace has
  RecordVersion version;
  SpanMap spans;
};

struct RecordAnswer {
  Status status = Status::gone;
  std::uint64_t gen = 0;
  std::uint64_t seq = 0;
  std::uint64_t size = 0;
  std::uint32_t chunk_bytes = 0;
  std::uint32_t detail = 0;
  std::uint64_t chunks = 0;  // unlink: how many it had
};

RecordAnswer answer_of(Status status, const FileRecord& record);

enum class ChangeKind : std::uint8_t {
  create = 1,
  commit = 2,
  replace = 3,   // the file becomes just this write, of a new generation
  truncate = 4,  // only shrinks
  unlink = 5,
  refresh = 6,   // nothing changes, but all owners have it then
  respread = 7,  // only how many copies there shall be
};

/// What a change is asked to be, and, once decided, what it comes to.
struct RecordChange {
  ChangeKind kind = ChangeKind::commit;
  bool is_if_absent = false;  // create
  std::uint64_t gen = 0;      // replace: 0, whatever is there
  std::uint64_t seen_seq = 0;
  std::uint64_t tag = 0;
  std::uint64_t offset = 0;  // in the file; the write is cut at chunk borders when it is shown
  std::uint64_t length = 0;  // truncate: the new size
  std::uint64_t if_size = ~std::uint64_t{0};
  std::uint32_t chunk_bytes = 0;  // create, replace
  std::uint32_t ttl_s = 0;
  std::uint8_t replicas = 0;  // create, replace, respread: of the file's pieces

  // Decided by the home: the record has these afterwards.
  std::uint64_t new_gen = 0;
  std::uint64_t new_seq = 0;

  /// Does it make the whole record, whatever was there before?
  bool is_whole() const {
    return kind == ChangeKind::create || kind == ChangeKind::replace || kind == ChangeKind::unlink;
  }
  /// A file lives as long as what was last written to it.
  bool is_written() const {
    return kind == ChangeKind::create || kind == ChangeKind::replace || kind == ChangeKind::commit;
  }
};

struct Decision {
  RecordAnswer answer;     // final, unless it is a change
  bool is_change = false;  // then `change` is to be done
  RecordChange change;
};

/// What a home knows beside the record itself.
struct Surroundings {
  bool is_sure = true;        // where there is no record here, there is none anywhere
  std::uint64_t absence = 0;  // stands for the generation of what is not there
  std::size_t spans_max = 0;  // of a record
};

/// What `asked` comes to. `record`: nullptr when there is none.
Decision decide(const FileRecord* record, const RecordChange& asked, const Surroundings& around);
bool is_chunk_size(std::uint32_t bytes);
/// Never zero, never the same again.
std::uint64_t random_gen();
/// Can this decided change be done to what is here?
bool follows(const FileRecord* record, const RecordChange& change);
/// Does it; not for unlink.
void apply(FileRecord& record, const RecordChange& change);

/// How many chunks it ever had (for DROP hints).
std::uint64_t chunks_of(const FileRecord& record);

}  // namespace gd2fs
