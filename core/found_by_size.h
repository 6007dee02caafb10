// FoundBySize: how much of what was looked up is found by caches of which size, by steps of sizes
// that grow by the same factor.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace gd2fs {

class FoundBySize {
 public:
  explicit FoundBySize(double steps_per_octave) : steps_per_octave_(steps_per_octave) {}

  /// Caches of this size, 1 or more, and larger ones find as much more.
  void add(double needed, double weight) {
    const auto step = static_cast<std::size_t>(steps_per_octave_ * std::log2(needed));
    if (step >= found_.size()) found_.resize(step + 1);
    found_[step] += weight;
  }

  /// What a cache of this size, a whole number, finds.
  double within(double size) const noexcept {
    double sum = 0;
    for (std::size_t step = 0; step < found_.size(); ++step) {
      // Of the sizes that this step stands for, whole numbers, those up to `size`.
      const double first = std::ceil(std::exp2(static_cast<double>(step) / steps_per_octave_));
      const double end = std::ceil(std::exp2(static_cast<double>(step + 1) / steps_per_octave_));
      if (first > size) break;
      const double sizes = std::max(end - first, 1.0);
      sum += found_[step] * std::min(1.0, (std::floor(size) - first + 1) / sizes);
    }
    return sum;
  }

  /// What caches of the sizes of `[first, end)`, in steps, find more than smaller ones.
  double in_steps(std::size_t first, std::size_t end) const noexcept {
    double sum = 0;
    for (std::size_t step = first; step < std::min(end, found_.size()); ++step) sum += found_[step];
    return sum;
  }

 private:
  double steps_per_octave_;
  std::vector<double> found_;
};

}  // namespace gd2fs
