// Payload: bytes of pieces on their way out, and what keeps them in place until they are there.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "piece.h"
#include "wire.h"

namespace gd2fs::serve {

class Payload {
 public:
  /// Whoever takes it takes it out of the arena: nothing is kept aside.
  bool is_in_arena = false;

  /// Bytes of a piece: not copied, the piece is held.
  void borrow(const PieceRef& piece, std::uint64_t offset, std::uint64_t length) {
    piece->runs(offset, length, runs_);
    if (pieces_.empty() || pieces_.back() != piece) pieces_.push_back(piece);
    bytes_ += length;
  }
  /// Bytes that are kept here.
  void keep(wire::Bytes bytes) {
    bytes_ += bytes.size();
    runs_.emplace_back(aside_.emplace_back(std::move(bytes)));
  }

  std::size_t bytes() const noexcept { return bytes_; }
  bool has_kept() const noexcept { return !aside_.empty(); }
  std::span<const std::span<std::byte>> runs() const noexcept { return runs_; }
  std::span<const PieceRef> pieces() const noexcept { return pieces_; }
  /// They go another way; the pieces are held on.
  std::vector<std::span<std::byte>> take_runs() noexcept { return std::exchange(runs_, {}); }
  void clear() noexcept {
    runs_.clear();
    pieces_.clear();
    aside_.clear();
    bytes_ = 0;
  }

 private:
  std::vector<std::span<std::byte>> runs_;
  std::vector<PieceRef> pieces_;
  std::deque<wire::Bytes> aside_;
  std::size_t bytes_ = 0;
};

}  // namespace gd2fs::serve
