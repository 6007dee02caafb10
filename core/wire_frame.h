// Wire frames: header, table, payload. How one is begun, filled and checked, whatever it says.
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "limits.h"

namespace gd2fs::wire {

static_assert(std::endian::native == std::endian::little,
              "the wire is little-endian, and so is this code");

using Bytes = std::vector<std::byte>;
using View = std::span<const std::byte>;

inline constexpr std::uint32_t MAGIC = 0x46324447;  // "GD2F"
inline constexpr std::uint16_t VERSION = 1;

enum class Kind : std::uint8_t {
  hello = 1,
  challenge = 2,
  proof = 3,
  welcome = 4,
  request = 5,
  response = 6,
  data = 7,
  grant = 8,
  ack = 9,
  acked = 10,
  cancel = 11,
  map = 12,
  lease = 13,
  release = 14,
  goodbye = 15,
  peer = 16,
  key = 17,
  placed = 18,
  source = 19,
};

// Header flags.
inline constexpr std::uint8_t LAST = 1;
inline constexpr std::uint8_t SPLICED = 2;
inline constexpr std::uint8_t EAGER = 4;
inline constexpr std::uint8_t CONFIRM = 8;
inline constexpr std::uint8_t MORE = 16;

struct Header {
  std::uint32_t frame_bytes = 0;  // after this header
  std::uint32_t table_bytes = 0;
  Kind kind = Kind::hello;
  std::uint8_t flags = 0;
  std::uint16_t items = 0;
  std::uint32_t check = 0;  // XXH3-64 low half over the header with check = 0, then the table
  std::uint64_t request = 0;
  std::uint64_t consumed = 0;  // payload bytes that the sender has copied out of this stream so far

  std::uint32_t payload_bytes() const noexcept { return frame_bytes - table_bytes; }
};

/// Reads 32 bytes. Nothing when a length is over its limit, the kind is unknown, or table > frame.
std::optional<Header> decode_header(View header);
/// Is the check of this header right for this table?
bool check_matches(View header, View table);

/// Writes little-endian fields, one behind the other, into room that was made for them.
class Fields {
 public:
  explicit Fields(std::span<std::byte> room) : room_(room) {}

  template <class T>
  Fields& put(T value) {
    assert(sizeof value <= room_.size());
    std::memcpy(room_.data(), &value, sizeof value);  // as asserted: its maker counted the fields
    room_ = room_.subspan(sizeof value);
    return *this;
  }

 private:
  std::span<std::byte> room_;
};

/// Starts a frame in `out`: room for the header; the table is appended next.
/// `finish` then fills lengths and check in. Payload is not part of `out`.
class FrameWriter {
 public:
  FrameWriter(Bytes& out, Kind kind, std::uint64_t request, std::uint8_t flags = 0);

  void u8(std::uint8_t value) { room(1).put(value); }
  void u16(std::uint16_t value) { room(2).put(value); }
  void u32(std::uint32_t value) { room(4).put(value); }
  void u64(std::uint64_t value) { room(8).put(value); }
  /// The next bytes of the table, to be filled with fields before anything else is written.
  Fields room(std::size_t bytes) {
    out_.resize(out_.size() + bytes);
    return Fields(std::span(out_).last(bytes));
  }
  void bytes(View value);
  void text(std::string_view value);
  std::size_t table_bytes() const noexcept;
  /// Overwrites a u32 that was written at `table_bytes() == at`.
  void patch_u32(std::size_t at, std::uint32_t value);

  /// `consumed` may be rewritten later with `restamp`.
  void finish(std::uint16_t items, std::size_t payload_bytes, std::uint64_t consumed);

 private:
  Bytes& out_;
  std::size_t start_;
  Kind kind_;
  std::uint8_t flags_;
  std::uint64_t request_;
};

/// Writes a fresh `consumed` into the finished frame that starts at `frame[0]`, and its check
/// again.
void restamp(std::span<std::byte> frame, std::uint64_t consumed);

/// Reads a table front to back. After the first read past the end every read answers zero and
/// `ok()` is false.
class TableReader {
 public:
  explicit TableReader(View table) : rest_(table) {}
  std::uint8_t u8() { return take<std::uint8_t>(); }
  std::uint16_t u16() { return take<std::uint16_t>(); }
  std::uint32_t u32() { return take<std::uint32_t>(); }
  std::uint64_t u64() { return take<std::uint64_t>(); }
  View bytes(std::size_t count) {  // points into the table
    if (count > rest_.size()) return run_out();
    const View taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  std::string_view text(std::size_t count);  // points into the table
  std::size_t left() const noexcept { return rest_.size(); }
  bool ok() const noexcept { return ok_; }

 private:
  template <class T>
  T take() {
    T value{};
    const View taken = bytes(sizeof value);
    if (!taken.empty()) std::memcpy(&value, taken.data(), sizeof value);  // `bytes` gave as many
    return value;
  }
  View run_out() {
    ok_ = false;
    rest_ = {};
    return {};
  }

  View rest_;
  bool ok_ = true;
};

}  // namespace gd2fs::wire
