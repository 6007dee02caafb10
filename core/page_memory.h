// Page memory: the caller's memory of a batch of pages. The bytes of one page lie in one buffer, or
// in several, in order.
#pragma once

#include <vector>

#include "buffer_list.h"

namespace gd2fs {

class PageMemory {
 public:
  explicit PageMemory(const Buffer& of_one) : buffers_{of_one} {}
  explicit PageMemory(const PageBuffers& memory)
      : buffers_(memory.buffers.begin(), memory.buffers.end()) {
    if (memory.counts.empty()) return;
    pages_.reserve(memory.counts.size());
    std::size_t first = 0;
    for (const std::uint32_t count : memory.counts) {
      const auto buffers = std::span<const Buffer>(buffers_).subspan(first, count);
      pages_.push_back({first, count, total_bytes(buffers)});
      first += count;
    }
  }

  std::span<const Buffer> of(std::size_t page) const {
    const std::span<const Buffer> all(buffers_);
    if (pages_.empty()) return all.subspan(page, 1);
    return all.subspan(pages_[page].first, pages_[page].count);
  }
  std::uint64_t bytes(std::size_t page) const {
    return pages_.empty() ? buffers_[page].bytes : pages_[page].bytes;
  }
  bool is_empty() const noexcept { return buffers_.empty(); }

 private:
  struct Page {
    std::size_t first;  // of buffers_
    std::size_t count;
    std::uint64_t bytes;
  };

  std::vector<Buffer> buffers_;
  std::vector<Page> pages_;  // empty: each has one buffer
};

}  // namespace gd2fs
