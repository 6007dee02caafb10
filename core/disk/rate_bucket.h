// RateBucket: so many bytes a second, in bursts of at most a tenth of that. What is larger goes
// at once when nothing is owed, and is paid off by those that follow.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gd2fs::disk {

class RateBucket {
 public:
  explicit RateBucket(std::uint64_t bytes_per_s) { set_rate(bytes_per_s); }

  void set_rate(std::uint64_t bytes_per_s) {
    rate_ = static_cast<double>(bytes_per_s);
    has_ = std::min(has_, rate_ / 10);
  }
  /// Whether anything may go now.
  bool is_open(std::int64_t now_ns) {
    refill(now_ns);
    return rate_ == 0 || has_ >= 0;
  }
  void take(std::uint64_t bytes) {
    if (rate_ > 0) has_ -= static_cast<double>(bytes);
  }
  /// From when on it is open; 0: it is.
  std::int64_t opens_in_ms() const {
    return rate_ == 0 || has_ >= 0 ? 0 : static_cast<std::int64_t>(-has_ * 1e3 / rate_) + 1;
  }

 private:
  void refill(std::int64_t now_ns) {
    const double passed_s = static_cast<double>(now_ns - at_ns_) / 1e9;
    at_ns_ = now_ns;
    has_ = std::min(has_ + passed_s * rate_, rate_ / 10);
  }

  double rate_ = 0, has_ = 0;
  std::int64_t at_ns_ = 0;
};

}  // namespace gd2fs::disk
