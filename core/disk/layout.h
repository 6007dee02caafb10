// Layout: what the files of the log say, byte for byte. Numbers are little-endian, as on all
// machines that this is built for.
//
//   grain 0      head: id of this use of the file, the node it belongs to; summed
//   grain 1      seal: where the records end; written once all of them are known to be there
//   then         records, back to back
//   a record     header of whole grains (names, hashes, where it lies; summed), then the piece,
//                padded to whole grains
//
// An id is drawn anew at each use of a file, and every header carries it and its own place. So what
// is left of an earlier use never counts, nor does a header that came here as payload. Overwriting
// the head ends all records of a segment at once; overwriting a header's first grain strikes one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "../extent.h"
#include "disk.h"

namespace gd2fs::disk {

inline constexpr std::uint16_t LAYOUT_VERSION = 1;
inline constexpr std::size_t FRONT_BYTES = 2 * GRAIN_BYTES;  // head and seal

struct SegmentHead {
  std::uint64_t id = 0;  // 0: void, there is nothing in it
  std::string node_name;
};

struct SegmentSeal {
  std::uint64_t id = 0;
  std::uint64_t end = 0;  // of the last record, in the file
};

struct RecordHead {
  std::uint64_t segment_id = 0;
  std::uint64_t offset = 0;  // of this header in the file
  std::uint64_t serial = 0;  // the order of writing
  std::uint32_t header_bytes = 0;
  bool is_struck = false;  // then of the piece only its length is known
  DiskPiece piece;

  std::uint64_t bytes() const noexcept { return header_bytes + whole_grains(piece.length); }
};

std::uint32_t header_bytes_of(const DiskPiece& piece);
inline std::uint64_t record_bytes_of(const DiskPiece& piece) {
  return header_bytes_of(piece) + whole_grains(piece.length);
}

/// Into one grain each.
void encode(const SegmentHead& head, std::span<std::byte> grain);
void encode(const SegmentSeal& seal, std::span<std::byte> grain);
/// Into `head.header_bytes`; of a struck one, only its first grain.
void encode(const RecordHead& head, std::span<std::byte> out);

std::optional<SegmentHead> decode_head(std::span<const std::byte> grain);
std::optional<SegmentSeal> decode_seal(std::span<const std::byte> grain);

/// What the first grain of a header claims, unchecked but for its limits: it is of that segment and
/// that place. 0: nothing of the kind.
std::uint32_t claimed_header_bytes(std::span<const std::byte> grain, std::uint64_t segment_id,
                                   std::uint64_t offset);
/// A whole header of that segment at that place whose sum is right, or nothing.
std::optional<RecordHead> decode_record(std::span<const std::byte> header, std::uint64_t segment_id,
                                        std::uint64_t offset);

}  // namespace gd2fs::disk
