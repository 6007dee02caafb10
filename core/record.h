// Records: what a file is. Kept by its home alone, outside the arena: generation, size, and which
// range has which tag.
//
// Order and append offsets are decided here, one mutation of a path at a time (core.md 1.3).
// Thread-safe, sharded by path. Segments of a chunk are kept sorted and disjoint: a commit cuts the
// older ones.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "error.h"
#include "wire.h"

namespace gd2fs {

struct RecordAnswer {
  Status status = Status::gone;
  std::uint64_t gen = 0;
  std::uint64_t seq = 0;
  std::uint64_t size = 0;
  std::uint32_t chunk_bytes = 0;
  std::uint32_t detail = 0;
};

struct CommitSpec {
  std::string_view path;
  std::uint64_t gen = 0;
  std::uint64_t seen_seq = 0;
  std::uint64_t tag = 0;
  std::uint64_t offset = 0;  // in the file; the write is cut at chunk borders here
  std::uint64_t length = 0;
  std::uint64_t if_size = ~std::uint64_t{0};
};

struct ReplaceSpec {
  std::string_view path;
  std::uint64_t tag = 0;
  std::uint64_t length = 0;  // may be 0
  std::uint32_t chunk_bytes = 0;
  std::uint32_t ttl_s = 0;
};

class Records {
 public:
  explicit Records(std::size_t records_max);
  ~Records();

  /// There already: ok with its gen, seq and size (with `if_absent`: conflict). Else a new
  /// generation.
  RecordAnswer create(std::string_view path, std::uint32_t chunk_bytes, std::uint32_t ttl_s,
                      bool if_absent);
  /// The segments that overlap `[offset, offset + length)` of the file. gone: no such file. At most
  /// `segments_max` (then `is_cut` and the caller asks again from where it ends).
  RecordAnswer meta(std::string_view path, std::uint64_t offset, std::uint64_t length,
                    std::size_t segments_max, wire::MetaBody& body, bool& is_cut);
  /// gone: other generation. conflict: an overlapping segment or truncation with seq > seen_seq, or
  /// another size. full: the file would pass FILE_BYTES_MAX. invalid: a chunk would pass
  /// SEGMENTS_PER_CHUNK_MAX (the writer rewrites it).
  RecordAnswer commit(const CommitSpec& spec);
  /// The file becomes `length` bytes under `tag` at once, whether it was there or not: a new
  /// generation, of which nothing half-written is ever seen. Its seq goes on from the old one's.
  RecordAnswer replace(const ReplaceSpec& spec);
  /// Only shrinks; a larger size is invalid. Raises trunc_seq, cuts segments.
  RecordAnswer truncate(std::string_view path, std::uint64_t gen, std::uint64_t size);
  /// ok, or gone when there was none. `chunks` gets how many chunks it had (for DROP hints).
  RecordAnswer unlink(std::string_view path, std::uint64_t& chunks);
  bool is_listed(std::string_view path, std::uint64_t chunk, std::uint64_t tag,
                 std::uint64_t& seq) const;

  /// Paths that start with `prefix`, after `after`, sorted.
  std::vector<wire::ListEntry> list(std::string_view prefix, std::string_view after,
                                    std::size_t count_max, bool& more) const;
  /// All files of a namespace, in small steps.
  std::size_t clear(std::string_view name_space);
  std::size_t count() const;
  /// Drops records whose time to live is over. How many.
  std::size_t expire(std::int64_t boottime_ms, std::size_t count_max);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gd2fs
