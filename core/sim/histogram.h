// Histogram: how often which time, in steps of about one percent.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace gd2fs::sim {

class Histogram {
 public:
  static constexpr double LEAST_S = 1e-6;
  static constexpr double STEP = 1.01;

  void add(double value_s, double count) {
    const double steps = std::log(std::max(value_s, LEAST_S) / LEAST_S) / LOG_STEP;
    const auto at = static_cast<std::size_t>(steps);
    if (at >= counts_.size()) counts_.resize(at + 1);
    counts_[at] += count;
    sum_s_ += value_s * count;
    count_ += count;
    if (count > 0) most_s_ = std::max(most_s_, value_s);
  }
  double mean_s() const noexcept { return count_ > 0 ? sum_s_ / count_ : 0; }
  double max_s() const noexcept { return most_s_; }
  /// The middle of the step that `share` of all values do not exceed.
  double quantile_s(double share) const noexcept {
    double left = share * count_;
    for (std::size_t at = 0; at < counts_.size(); ++at) {
      left -= std::max(counts_[at], 0.0);
      if (left <= 0)
        return std::min(LEAST_S * std::pow(STEP, static_cast<double>(at) + 0.5), most_s_);
    }
    return most_s_;
  }

 private:
  inline static const double LOG_STEP = std::log(STEP);

  std::vector<double> counts_;
  double sum_s_ = 0, count_ = 0, most_s_ = 0;
};

}  // namespace gd2fs::sim
