#include "miss_curve.h"

#include <algorithm>

namespace gd2fs {

/// Even over all 64 bits, whatever keys are (splitmix64).
std::uint64_t MissCurve::place_of(std::uint64_t key) const noexcept {
  std::uint64_t mixed = key + (seed_ + 1) * 0x9E3779B97F4A7C15ull;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ull;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBull;
  return mixed ^ (mixed >> 31);
}

void MissCurve::look(std::uint64_t key) {
  looks_ += 1;
  const std::uint64_t place = place_of(key);
  if (!stack_.follows(place)) return;
  const double weight = 1 / stack_.sampled_share();
  weighed_ += weight;
  if (const auto needed = stack_.needed(place)) found_.add(*needed, weight);
}

void MissCurve::use(std::uint64_t key) {
  const std::uint64_t place = place_of(key);
  if (stack_.follows(place)) stack_.use(place, 1);
}

// A sample that has more or less than its share of looks would bend the whole curve: what is
// missing, or too much, counts as found at once, as the paper has it.
double MissCurve::share_within(double keys) const noexcept {
  if (looks_ == 0 || keys < 1) return 0;
  return std::clamp((looks_ - weighed_ + found_.within(keys)) / looks_, 0.0, 1.0);
}

}  // namespace gd2fs
