// Silence: for how long a stream may say nothing before it counts as lost, while others of its
// link speak. From the times that its requests took lately.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace gd2fs {

class Silence {
 public:
  static constexpr std::int64_t MS_MIN = 200;
  static constexpr std::int64_t MS_MAX = 2'000;  // as TCP_USER_TIMEOUT: then the kernel gives up

  /// A request took so long.
  void note(std::int64_t ms) noexcept {
    recent_[next_++ % recent_.size()] = ms;
    count_ = std::min(count_ + 1, recent_.size());
  }

  /// Four times what all but one in a hundred of them took.
  std::int64_t limit_ms() const noexcept {
    if (count_ == 0) return MS_MIN;
    std::array<std::int64_t, COUNT> sorted = recent_;
    const std::size_t slow = count_ - 1 - count_ / 100;
    const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(slow);
    std::nth_element(sorted.begin(), at, sorted.begin() + static_cast<std::ptrdiff_t>(count_));
    return std::clamp(4 * *at, MS_MIN, MS_MAX);
  }

 private:
  static constexpr std::size_t COUNT = 128;
  std::array<std::int64_t, COUNT> recent_{};
  std::size_t next_ = 0;
  std::size_t count_ = 0;
};

}  // namespace gd2fs
