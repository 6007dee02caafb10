// Inlet: the bytes of a stream that are not payload, cut into frames.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <optional>
#include <string>

#include "wire.h"

namespace gd2fs::serve {

class Inlet {
 public:
  struct Frame {
    wire::Header header;
    wire::View table;  // until the next call of any member
  };

  /// The next whole header and table. Nothing: more bytes are needed, or there is a `fault`.
  std::optional<Frame> next(std::size_t frame_bytes_max, std::string& fault);
  /// What comes first is the handshake of TLS instead of a frame.
  bool is_tls() const noexcept {
    return buffered() > 1 && buffer_[begin_] == std::byte{22} &&
           buffer_[begin_ + 1] == std::byte{3};
  }
  /// Bytes that lie behind the last frame: its payload, or the next frame.
  std::size_t buffered() const noexcept { return end_ - begin_; }
  /// Moves buffered bytes out.
  void copy_out(std::span<const iovec> into, std::size_t bytes);
  void skip(std::size_t bytes) noexcept { begin_ += bytes; }
  /// Where bytes of the socket go next: at least one, as many as the present frame needs, about
  /// `wanted`.
  iovec room(std::size_t wanted);
  void filled(std::size_t bytes) noexcept { end_ += bytes; }

 private:
  std::size_t begin_ = 0, end_ = 0;  // of what is buffered
  std::size_t needed_ =
      HEADER_BYTES;  // so many bytes from `begin_` make the present header and table
  wire::Bytes buffer_;
};

}  // namespace gd2fs::serve
