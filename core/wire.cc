#include "wire_pieces.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "checksum.h"

namespace gd2fs::wire {

namespace {

constexpr std::size_t CHECK_AT = 12;           // of the header's check
constexpr std::size_t CHECKED_AT_ONCE = 1024;  // a frame up to here is put together for its check
constexpr std::size_t DATA_PIECE_BYTES = 24;
constexpr std::size_t GRANT_BYTES = 16;

template <class T>
T load(View from, std::size_t at) {
  T value;
  std::memcpy(&value, from.data() + at,
              sizeof value);  // `at` is inside: the caller checked the size
  return value;
}

template <class T>
void store(std::span<std::byte> into, std::size_t at, T value) {
  std::memcpy(into.data() + at, &value,
              sizeof value);  // `at` is inside: the caller checked the size
}

std::uint32_t check_of(View header, View table) {
  std::array<std::byte, CHECKED_AT_ONCE> frame;
  std::memcpy(frame.data(), header.data(), HEADER_BYTES);
  store<std::uint32_t>(frame, CHECK_AT, 0);
  if (table.size() <= frame.size() - HEADER_BYTES) {
    std::copy(table.begin(), table.end(), frame.begin() + HEADER_BYTES);
    const auto bytes = View(frame).first(HEADER_BYTES + table.size());
    return static_cast<std::uint32_t>(checksum(bytes));
  }
  const ChecksumRun runs[] = {{frame.data(), HEADER_BYTES}, {table.data(), table.size()}};
  return static_cast<std::uint32_t>(checksum(runs));
}

bool is_kind(std::uint8_t kind) {
  return kind >= static_cast<std::uint8_t>(Kind::hello) &&
         kind <= static_cast<std::uint8_t>(Kind::source);
}

}  // namespace

// ---- header --------------------------------------------------------------------------

std::optional<Header> decode_header(View header) {
  if (header.size() < HEADER_BYTES) return {};
  Header out;
  out.frame_bytes = load<std::uint32_t>(header, 0);
  out.table_bytes = load<std::uint32_t>(header, 4);
  const auto kind = load<std::uint8_t>(header, 8);
  out.flags = load<std::uint8_t>(header, 9);
  out.items = load<std::uint16_t>(header, 10);
  out.check = load<std::uint32_t>(header, CHECK_AT);
  out.request = load<std::uint64_t>(header, 16);
  out.consumed = load<std::uint64_t>(header, 24);
  if (!is_kind(kind) || out.frame_bytes > FRAME_BYTES_MAX || out.table_bytes > TABLE_BYTES_MAX ||
      out.table_bytes > out.frame_bytes || out.payload_bytes() > PAYLOAD_BYTES_MAX ||
      out.items > ITEMS_MAX)
    return {};
  out.kind = static_cast<Kind>(kind);
  if (out.kind != Kind::data && out.payload_bytes() != 0) return {};
  return out;
}

bool check_matches(View header, View table) {
  return header.size() >= HEADER_BYTES &&
         load<std::uint32_t>(header, CHECK_AT) == check_of(header, table);
}

FrameWriter::FrameWriter(Bytes& out, Kind kind, std::uint64_t request, std::uint8_t flags)
    : out_(out), start_(out.size()), kind_(kind), flags_(flags), request_(request) {
  out_.resize(start_ + HEADER_BYTES);
}

void FrameWriter::bytes(View value) { out_.insert(out_.end(), value.begin(), value.end()); }
void FrameWriter::text(std::string_view value) { bytes(std::as_bytes(std::span(value))); }

std::size_t FrameWriter::table_bytes() const noexcept {
  return out_.size() - start_ - HEADER_BYTES;
}

void FrameWriter::patch_u32(std::size_t at, std::uint32_t value) {
  assert(at + sizeof value <= table_bytes());
  store(std::span(out_).subspan(start_ + HEADER_BYTES), at, value);
}

void FrameWriter::finish(std::uint16_t items, std::size_t payload_bytes, std::uint64_t consumed) {
  const std::size_t table = table_bytes();
  assert(table <= TABLE_BYTES_MAX && payload_bytes <= PAYLOAD_BYTES_MAX && items <= ITEMS_MAX);
  const std::span<std::byte> frame = std::span(out_).subspan(start_);
  store(frame, 0, static_cast<std::uint32_t>(table + payload_bytes));
  store(frame, 4, static_cast<std::uint32_t>(table));
  store(frame, 8, static_cast<std::uint8_t>(kind_));
  store(frame, 9, flags_);
  store(frame, 10, items);
  store(frame, 16, request_);
  restamp(frame, consumed);
}

void restamp(std::span<std::byte> frame, std::uint64_t consumed) {
  assert(frame.size() >= HEADER_BYTES);
  store(frame, 24, consumed);
  const auto table = load<std::uint32_t>(frame, 4);
  assert(frame.size() >= HEADER_BYTES + table);
  store(frame, CHECK_AT, check_of(frame.first(HEADER_BYTES), frame.subspan(HEADER_BYTES, table)));
}

// ---- tables --------------------------------------------------------------------------

std::string_view TableReader::text(std::size_t count) {
  const View taken = bytes(count);
  // Bytes are read as characters: any object may be viewed as char.
  return {reinterpret_cast<const char*>(taken.data()), taken.size()};
}

// ---- bytes ---------------------------------------------------------------------------

void write_pieces(FrameWriter& frame, const DataTable& table) {
  Fields fields = frame.room(table.pieces.size() * DATA_PIECE_BYTES);
  for (const DataPiece& piece : table.pieces) {
    fields.put(piece.item).put(piece.hashes).put(piece.length).put(piece.offset).put(piece.tag);
  }
  frame.bytes(std::as_bytes(std::span(table.hashes)));
}

std::optional<std::uint64_t> read_pieces(TableReader& table, std::uint16_t items, DataTable& out) {
  if (table.left() < items * DATA_PIECE_BYTES) return {};
  out.pieces.resize(items);
  std::size_t hashes = 0;
  std::uint64_t bytes = 0;
  for (DataPiece& piece : out.pieces) {
    piece.item = table.u16();
    piece.hashes = table.u16();
    piece.length = table.u32();
    piece.offset = table.u64();
    piece.tag = table.u64();
    if (piece.length == 0 || piece.item >= ITEMS_MAX) return {};
    if (piece.hashes != 0 && piece.hashes != blocks_of(piece.length)) return {};
    hashes += piece.hashes;
    bytes += piece.length;  // at most 2^16 items of 2^32 bytes: no wrap
  }
  if (table.left() < hashes * sizeof(std::uint64_t)) return {};
  out.hashes.resize(hashes);
  for (std::uint64_t& hash : out.hashes) hash = table.u64();
  return bytes;
}

void encode_data(Bytes& out, std::uint64_t request, std::uint8_t flags, const DataTable& table,
                 std::uint64_t consumed) {
  FrameWriter frame(out, Kind::data, request, flags);
  std::size_t payload = 0;
  for (const DataPiece& piece : table.pieces) payload += piece.length;
  write_pieces(frame, table);
  frame.finish(static_cast<std::uint16_t>(table.pieces.size()), payload, consumed);
}

bool decode_data(View bytes, std::uint16_t items, std::size_t payload_bytes, DataTable& out) {
  TableReader table(bytes);
  return read_pieces(table, items, out) == payload_bytes && table.left() == 0;
}

std::optional<DataTable> decode_data(View bytes, std::uint16_t items, std::size_t payload_bytes) {
  DataTable out;
  if (!decode_data(bytes, items, payload_bytes, out)) return {};
  return out;
}

void encode_grant(Bytes& out, std::uint64_t request, std::span<const Grant> grants) {
  FrameWriter frame(out, Kind::grant, request);
  for (const Grant& grant : grants) {
    frame.u16(grant.item);
    frame.u8(static_cast<std::uint8_t>(grant.status));
    frame.u8(0);
    frame.u32(grant.retry_ms);
    frame.u64(grant.length);
  }
  frame.finish(static_cast<std::uint16_t>(grants.size()), 0, 0);
}

std::optional<std::vector<Grant>> decode_grant(View bytes, std::uint16_t items) {
  if (bytes.size() != items * GRANT_BYTES) return {};
  TableReader table(bytes);
  std::vector<Grant> grants(items);
  for (Grant& grant : grants) {
    grant.item = table.u16();
    grant.status = static_cast<Status>(table.u8());
    table.u8();
    grant.retry_ms = table.u32();
    grant.length = table.u64();
  }
  return grants;
}

void encode_ack(Bytes& out, Kind kind, std::uint64_t request, std::uint64_t consumed,
                std::uint8_t flags) {
  FrameWriter frame(out, kind, request, flags);
  frame.finish(0, 0, consumed);
}

}  // namespace gd2fs::wire
