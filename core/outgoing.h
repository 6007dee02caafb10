// Outgoing: what one turn sends on a stream, and what keeps it alive until the kernel has it.
//
//   control frames | header and table of one DATA frame | its payload | the RESPONSE that ends it
//
// Payload lies in pieces (borrowed, kept by `holds`) or aside (copied edge blocks).
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "piece.h"
#include "wire.h"

namespace gd2fs::serve {

class Outgoing {
 public:
  enum class Sent : std::uint8_t { all, blocked, broken };

  wire::Bytes head;        // before the payload
  wire::Bytes tail;        // after it
  std::uint32_t ends = 0;  // requests that are over once all of this is sent

  /// Bytes of a piece: not copied, the piece is held.
  void borrow(const PieceRef& piece, std::uint64_t offset, std::uint64_t length);
  /// Bytes that are kept here.
  void keep(wire::Bytes bytes);
  std::size_t payload_bytes() const noexcept { return payload_bytes_; }
  bool is_empty() const noexcept { return head.empty() && tail.empty(); }

  /// Nothing is added after this.
  void seal();
  bool is_sealed() const noexcept { return !left_.empty(); }
  /// Gives the kernel as much as it takes now.
  Sent send(int fd);
  void clear();

 private:
  void advance(std::size_t bytes);

  std::vector<std::span<std::byte>> payload_;
  std::vector<PieceRef> holds_;
  std::deque<wire::Bytes> aside_;
  std::size_t payload_bytes_ = 0;
  std::vector<iovec> left_;
  std::size_t left_at_ = 0;  // the first of `left_` that is not wholly sent
};

}  // namespace gd2fs::serve
