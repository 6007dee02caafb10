// Link: something that carries bytes at a rate, one transfer after the other.
#pragma once

#include <algorithm>

namespace gd2fs::sim {

class Link {
 public:
  /// 0 bytes a second: nothing is known of it, and it never takes time.
  explicit Link(double bytes_per_s = 0) : bytes_per_s_(bytes_per_s) {}

  /// When so many bytes that are ready now would have passed.
  double would_end_s(double now_s, double bytes) const noexcept {
    if (bytes_per_s_ <= 0 || bytes <= 0) return now_s;
    return std::max(now_s, free_s_) + bytes / bytes_per_s_;
  }
  double pass(double now_s, double bytes) noexcept {
    bytes_ += bytes;
    const double end_s = would_end_s(now_s, bytes);
    if (bytes > 0 && bytes_per_s_ > 0) free_s_ = end_s;
    return end_s;
  }
  double bytes() const noexcept { return bytes_; }

 private:
  double bytes_per_s_;
  double free_s_ = 0;
  double bytes_ = 0;
};

}  // namespace gd2fs::sim
