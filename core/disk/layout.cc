#include "layout.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "../assertion.h"
#include "../checksum.h"

namespace gd2fs::disk {
namespace {

constexpr std::uint32_t HEAD_MAGIC = 0x48324447;    // "GD2H"
constexpr std::uint32_t SEAL_MAGIC = 0x45324447;    // "GD2E"
constexpr std::uint32_t RECORD_MAGIC = 0x44324447;  // "GD2D"
constexpr std::uint16_t IS_PAGE = 1, IS_STRUCK = 2;

struct Front {  // of all three kinds
  std::uint32_t magic;
  std::uint16_t version, flags;
  std::uint64_t check;
  std::uint64_t id;
};
struct HeadImage {
  Front front;
  std::uint32_t name_bytes, reserved;
  char name[NODE_NAME_BYTES_MAX];
};
struct SealImage {
  Front front;
  std::uint64_t end;
};
struct RecordImage {
  Front front;
  std::uint64_t offset, serial;
  std::uint32_t header_bytes;
  std::uint16_t name_bytes;
  std::uint8_t replicas, reserved;
  std::uint64_t chunk, tag, seq, piece_offset, length;
  std::int64_t expires_ms;
};  // hashes and name follow
static_assert(sizeof(Front) == 24 && sizeof(HeadImage) == 160 && sizeof(SealImage) == 32);
static_assert(sizeof(RecordImage) == 96 && offsetof(Front, check) == 8);

constexpr std::uint64_t LENGTH_MAX = std::max(CHUNK_BYTES_MAX, PAGE_BYTES_MAX);
constexpr std::size_t HASHES_MAX = LENGTH_MAX / BLOCK_BYTES;
constexpr std::size_t HEADER_BYTES_MAX =
    whole_grains(sizeof(RecordImage) + 8 * HASHES_MAX + NAME_BYTES_MAX);

std::size_t hashes_of(std::uint64_t length) { return (length + BLOCK_BYTES - 1) / BLOCK_BYTES; }

/// The check is the sum of all of `out` with the check as zero.
template <class Image>
void put(const Image& image, std::span<std::byte> out) {
  std::memcpy(out.data(), &image, sizeof image);
}

void seal_sum(std::span<std::byte> out) {
  const std::uint64_t check = checksum(out);
  std::memcpy(out.data() + offsetof(Front, check), &check, sizeof check);
}

template <class Image>
Image get(std::span<const std::byte> from) {
  Image image;
  std::memcpy(&image, from.data(), sizeof image);
  return image;
}

bool is_intact(std::span<const std::byte> from) {
  const auto front = get<Front>(from);
  constexpr std::uint64_t zero = 0;
  constexpr std::size_t before = offsetof(Front, check), after = before + sizeof zero;
  const ChecksumRun runs[] = {
      {from.data(), before}, {&zero, sizeof zero}, {from.data() + after, from.size() - after}};
  return front.check == checksum(runs);
}

/// A grain of that kind whose sum is right.
bool is_kind(std::span<const std::byte> grain, std::uint32_t magic) {
  if (grain.size() < GRAIN_BYTES) return false;
  const auto front = get<Front>(grain);
  return front.magic == magic && front.version == LAYOUT_VERSION &&
         is_intact(grain.first(GRAIN_BYTES));
}

bool is_plausible(const RecordImage& image) {
  const bool is_struck = (image.front.flags & IS_STRUCK) != 0;
  const std::size_t wanted =
      sizeof image + (is_struck ? 0 : image.name_bytes + 8 * hashes_of(image.length));
  return image.length > 0 && image.length <= LENGTH_MAX && image.name_bytes <= NAME_BYTES_MAX &&
         image.header_bytes % GRAIN_BYTES == 0 && image.header_bytes >= wanted &&
         image.header_bytes <= HEADER_BYTES_MAX;
}

RecordImage image_of(const RecordHead& head) {
  RecordImage image{};
  const DiskPiece& piece = head.piece;
  image.front.magic = RECORD_MAGIC;
  image.front.version = LAYOUT_VERSION;
  image.front.id = head.segment_id;
  image.offset = head.offset, image.serial = head.serial;
  image.header_bytes = head.header_bytes;
  image.length = piece.length;
  if (head.is_struck) {
    image.front.flags = IS_STRUCK;
    return image;
  }
  image.front.flags = piece.is_page ? IS_PAGE : 0;
  image.name_bytes = static_cast<std::uint16_t>(piece.name.size());
  image.replicas = piece.replicas;
  image.chunk = piece.chunk, image.tag = piece.tag, image.seq = piece.seq;
  image.piece_offset = piece.offset, image.expires_ms = piece.expires_ms;
  return image;
}

RecordHead head_of(const RecordImage& image, std::span<const std::byte> after) {
  RecordHead head;
  head.segment_id = image.front.id, head.offset = image.offset, head.serial = image.serial;
  head.header_bytes = image.header_bytes;
  head.is_struck = (image.front.flags & IS_STRUCK) != 0;
  DiskPiece& piece = head.piece;
  piece.length = image.length;
  if (head.is_struck) return head;
  piece.is_page = (image.front.flags & IS_PAGE) != 0;
  piece.replicas = image.replicas;
  piece.chunk = image.chunk, piece.tag = image.tag, piece.seq = image.seq;
  piece.offset = image.piece_offset, piece.expires_ms = image.expires_ms;
  piece.hashes.resize(hashes_of(image.length));
  // Invariant: is_plausible has checked that hashes and name lie in the header.
  std::memcpy(piece.hashes.data(), after.data(), 8 * piece.hashes.size());
  piece.name.assign(reinterpret_cast<const char*>(after.data()) + 8 * piece.hashes.size(),
                    image.name_bytes);
  return head;
}

}  // namespace

std::uint32_t header_bytes_of(const DiskPiece& piece) {
  return static_cast<std::uint32_t>(
      whole_grains(sizeof(RecordImage) + 8 * hashes_of(piece.length) + piece.name.size()));
}

void encode(const SegmentHead& head, std::span<std::byte> grain) {
  HeadImage image{};
  image.front.magic = HEAD_MAGIC;
  image.front.version = LAYOUT_VERSION;
  image.front.id = head.id;
  image.name_bytes = static_cast<std::uint32_t>(std::min(head.node_name.size(), sizeof image.name));
  std::memcpy(image.name, head.node_name.data(), image.name_bytes);
  std::memset(grain.data(), 0, GRAIN_BYTES);
  put(image, grain);
  seal_sum(grain.first(GRAIN_BYTES));
}

void encode(const SegmentSeal& seal, std::span<std::byte> grain) {
  SealImage image{};
  image.front.magic = SEAL_MAGIC;
  image.front.version = LAYOUT_VERSION;
  image.front.id = seal.id;
  image.end = seal.end;
  std::memset(grain.data(), 0, GRAIN_BYTES);
  put(image, grain);
  seal_sum(grain.first(GRAIN_BYTES));
}

void encode(const RecordHead& head, std::span<std::byte> out) {
  const DiskPiece& piece = head.piece;
  out = out.first(head.is_struck ? GRAIN_BYTES : head.header_bytes);
  std::memset(out.data(), 0, out.size());
  put(image_of(head), out);
  if (!head.is_struck) {
    GD2FS_ASSERT(piece.hashes.size() == hashes_of(piece.length));
    GD2FS_ASSERT(head.header_bytes == header_bytes_of(piece));
    std::byte* const after = out.data() + sizeof(RecordImage);
    std::memcpy(after, piece.hashes.data(), 8 * piece.hashes.size());
    std::memcpy(after + 8 * piece.hashes.size(), piece.name.data(), piece.name.size());
  }
  seal_sum(out);
}

std::optional<SegmentHead> decode_head(std::span<const std::byte> grain) {
  if (!is_kind(grain, HEAD_MAGIC)) return std::nullopt;
  const auto image = get<HeadImage>(grain);
  if (image.name_bytes > sizeof image.name) return std::nullopt;
  return SegmentHead{image.front.id, std::string(image.name, image.name_bytes)};
}

std::optional<SegmentSeal> decode_seal(std::span<const std::byte> grain) {
  if (!is_kind(grain, SEAL_MAGIC)) return std::nullopt;
  const auto image = get<SealImage>(grain);
  return SegmentSeal{image.front.id, image.end};
}

std::uint32_t claimed_header_bytes(std::span<const std::byte> grain, std::uint64_t segment_id,
                                   std::uint64_t offset) {
  if (grain.size() < sizeof(RecordImage)) return 0;
  const auto image = get<RecordImage>(grain);
  const bool is_here = image.front.magic == RECORD_MAGIC && image.front.version == LAYOUT_VERSION &&
                       image.front.id == segment_id && image.offset == offset;
  return is_here && is_plausible(image) ? image.header_bytes : 0;
}

std::optional<RecordHead> decode_record(std::span<const std::byte> header, std::uint64_t segment_id,
                                        std::uint64_t offset) {
  const std::uint32_t bytes = claimed_header_bytes(header, segment_id, offset);
  if (bytes == 0 || bytes > header.size()) return std::nullopt;
  const auto image = get<RecordImage>(header);
  const bool is_struck = (image.front.flags & IS_STRUCK) != 0;
  if (!is_intact(header.first(is_struck ? GRAIN_BYTES : bytes))) return std::nullopt;
  return head_of(image, header.subspan(sizeof image));
}

}  // namespace gd2fs::disk
