// Buffer list: the caller's memory as a sequence of runs, walked front to back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client.h"

namespace gd2fs {

/// A place in a list of buffers. Cheap to copy; the list outlives it. Empty buffers are skipped.
class BufferCursor {
 public:
  BufferCursor() = default;
  explicit BufferCursor(std::span<const Buffer> buffers) : buffers_(buffers) {}

  /// The next run of at most `bytes_max` bytes, and steps over it. Empty at the end.
  Buffer next(std::size_t bytes_max);
  void skip(std::size_t bytes);
  /// Steps over `bytes` and answers their XXH3-64.
  std::uint64_t hash(std::size_t bytes);
  void fill_zero(std::size_t bytes);
  /// Appends the next `bytes` to `out` as buffers, and steps over them.
  void split(std::size_t bytes, std::vector<Buffer>& out);

 private:
  std::span<const Buffer> buffers_;
  std::size_t offset_ = 0;  // in the first of buffers_
};

std::uint64_t total_bytes(std::span<const Buffer> buffers) noexcept;
/// Nothing wrong: an empty string. Else one line: a null pointer with a length, or (when
/// `is_written`) two buffers that share memory.
std::string buffers_fault(std::span<const Buffer> buffers, bool is_written);

}  // namespace gd2fs
