// Record parts: how attempts and whole records travel between nodes, in parts that fit a frame.
//
//   attempt   u64 version x 3 | u64 base x 3 | u8 kind (0: a part of the whole record follows)
//             change: u64 gen, seen_seq, tag, offset, length, if_size, new_gen, new_seq
//                     | u32 chunk_bytes, ttl_s | u8 replicas, is_if_absent
//   part      u8 is_there | u8 replicas | u64 version x 3
//             | u64 gen, seq, size, size_most, trunc_seq | u32 chunk_bytes, ttl_s
//             | u64 expires_in_ms | u64 ranges in all, first here
//             | range of 32 B: u64 begin, end, tag, seq
#pragma once

#include <optional>

#include "replication.h"
#include "wire.h"

namespace gd2fs {

/// Ranges of a record in one frame, with all else that it carries.
inline constexpr std::size_t RANGES_PER_PART = (TABLE_BYTES_MAX - 4 * KiB) / 32;

/// Appends the part of a record that begins with its range `first`. Where the next one begins, or
/// nothing: it was the last.
std::optional<std::uint64_t> encode_part(wire::Bytes& out, const FullRecord& full,
                                         std::uint64_t first);
/// Takes a part in behind those that `into` has already. Nothing when it is malformed, or of
/// another version, or not the next one. True: it was the last.
std::optional<bool> decode_part(wire::TableReader& table, FullRecord& into);

/// As above, for an attempt; one with a change has one part.
std::optional<std::uint64_t> encode_attempt(wire::Bytes& out, const Replication& attempt,
                                            std::uint64_t first);
/// Without epoch and path. `full` holds the one part, whose ranges begin with `first`.
struct AttemptPart {
  Replication attempt;
  std::shared_ptr<FullRecord> full;  // of a whole record: what has come so far, this part included
  bool is_last = true;
};
/// `before`: what came of this attempt's record in earlier parts, or nothing.
std::optional<AttemptPart> decode_attempt(wire::View body, std::shared_ptr<FullRecord> before);

}  // namespace gd2fs
