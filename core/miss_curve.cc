#include "miss_curve.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gd2fs {

namespace {

constexpr std::size_t SLOTS_PER_SAMPLE = 4;  // so that slots are numbered anew but seldom

}  // namespace

MissCurve::MissCurve(std::size_t samples_max, std::uint64_t seed)
    : samples_max_(std::max<std::size_t>(samples_max, 2)), seed_(seed), tree_(1) {}

/// Even over all 64 bits, whatever keys are (splitmix64).
std::uint64_t MissCurve::place_of(std::uint64_t key) const noexcept {
  std::uint64_t mixed = key + (seed_ + 1) * 0x9E3779B97F4A7C15ull;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ull;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBull;
  return mixed ^ (mixed >> 31);
}

double MissCurve::sampled_share() const noexcept {
  return (static_cast<double>(threshold_) + 1) * 0x1p-64;
}

void MissCurve::look(std::uint64_t key) {
  looks_ += 1;
  const std::uint64_t place = place_of(key);
  if (place > threshold_) return;
  const double weight = 1 / sampled_share();
  weighed_ += weight;
  const auto found = slot_of_.find(place);
  if (found == slot_of_.end()) return;
  const double distance = used_since(found->second) * weight;
  const auto step = static_cast<std::size_t>(STEPS_PER_OCTAVE * std::log2(1 + distance));
  if (step >= found_.size()) found_.resize(step + 1);
  found_[step] += weight;
}

void MissCurve::use(std::uint64_t key) {
  const std::uint64_t place = place_of(key);
  if (place > threshold_) return;
  if (next_slot_ >= tree_.size()) renumber();
  const auto [found, is_new] = slot_of_.try_emplace(place, 0);
  if (!is_new) add(found->second, -1);
  found->second = next_slot_++;
  add(found->second, 1);
  if (!is_new) return;
  places_.push(place);
  if (slot_of_.size() > samples_max_) follow_fewer();
}

/// The one farthest up goes, and with it all above.
void MissCurve::follow_fewer() {
  const std::uint64_t gone = places_.top();
  places_.pop();
  const auto found = slot_of_.find(gone);
  add(found->second, -1);
  slot_of_.erase(found);
  threshold_ = gone - 1;
}

double MissCurve::used_since(std::size_t slot) const noexcept {
  std::int64_t up_to = 0;
  for (std::size_t at = slot; at > 0; at &= at - 1) up_to += tree_[at];
  return static_cast<double>(static_cast<std::int64_t>(slot_of_.size()) - up_to);
}

void MissCurve::add(std::size_t slot, std::int32_t count) noexcept {
  for (std::size_t at = slot; at < tree_.size(); at += at & (~at + 1)) tree_[at] += count;
}

/// All slots are taken: those that count move to the front, in their order.
void MissCurve::renumber() {
  std::vector<std::pair<std::size_t, std::uint64_t>> order;
  order.reserve(slot_of_.size());
  for (const auto& [place, slot] : slot_of_) order.emplace_back(slot, place);
  std::sort(order.begin(), order.end());
  const std::size_t room = std::max<std::size_t>(64, order.size() + 1) * SLOTS_PER_SAMPLE;
  tree_.assign(room, 0);
  next_slot_ = 1;
  for (const auto& each : order) {
    slot_of_[each.second] = next_slot_;
    add(next_slot_++, 1);
  }
}

// A sample that has more or less than its share of looks would bend the whole curve: what is
// missing, or too much, counts as found at once, as the paper has it.
double MissCurve::share_within(double keys) const noexcept {
  if (looks_ == 0 || keys < 1) return 0;
  double sum = looks_ - weighed_;
  for (std::size_t step = 0; step < found_.size(); ++step) {
    // Of the sizes that this step stands for, whole numbers, those up to `keys`.
    const double first = std::ceil(std::exp2(static_cast<double>(step) / STEPS_PER_OCTAVE));
    const double end = std::ceil(std::exp2(static_cast<double>(step + 1) / STEPS_PER_OCTAVE));
    if (first > keys) break;
    const double sizes = std::max(end - first, 1.0);
    sum += found_[step] * std::min(1.0, (std::floor(keys) - first + 1) / sizes);
  }
  return std::clamp(sum / looks_, 0.0, 1.0);
}

}  // namespace gd2fs
