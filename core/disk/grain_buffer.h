// GrainBuffer: memory that direct I/O takes: whole grains, starting at one.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "../extent.h"
#include "../limits.h"

namespace gd2fs::disk {

class GrainBuffer {
 public:
  GrainBuffer() = default;
  /// At least `bytes`, rounded up; zeros. Empty when there is no memory.
  explicit GrainBuffer(std::size_t bytes)
      : at_(static_cast<std::byte*>(std::aligned_alloc(GRAIN_BYTES, whole_grains(bytes)))),
        bytes_(at_ ? whole_grains(bytes) : 0) {
    if (at_) std::memset(at_.get(), 0, bytes_);
  }

  std::span<std::byte> span() noexcept { return {at_.get(), bytes_}; }
  std::span<const std::byte> span() const noexcept { return {at_.get(), bytes_}; }
  std::size_t size() const noexcept { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* at) const noexcept { std::free(at); }
  };
  std::unique_ptr<std::byte, Free> at_;
  std::size_t bytes_ = 0;
};

}  // namespace gd2fs::disk
