#include "live_curves.h"

#include <algorithm>
#include <utility>

#include "store.h"

namespace gd2fs::serve {
namespace {

constexpr std::size_t OCTAVES = 38;  // of grains: a PiB

std::uint32_t grains_of(std::uint64_t bytes) noexcept {
  return static_cast<std::uint32_t>((bytes + GRAIN_BYTES - 1) / GRAIN_BYTES);
}

}  // namespace

std::uint64_t LiveCurves::place_of(std::uint64_t name_hash, std::uint64_t chunk,
                                   std::uint64_t tag) noexcept {
  std::uint64_t mixed = name_hash ^ (chunk * 0x9E3779B97F4A7C15ull + tag);
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ull;
  return mixed ^ (mixed >> 31);
}

void LiveCurves::set(bool is_on) {
  const std::lock_guard lock(mutex_);
  is_on_ = is_on;
  note_thresholds();
}

// ---- what is asked --------------------------------------------------------------------------

void LiveCurves::probed(const Key& key) {
  const std::lock_guard lock(mutex_);
  ReuseStack* const stack = stack_of(key);
  if (stack == nullptr) return;
  look(lanes_[key.lane].now, *stack, key.place);
  if (probed_.size() >= CURVE_KEYS_MAX) probed_.clear();  // nobody gets what he has asked about
  probed_.insert(key.place);
}

void LiveCurves::got(const Key& key, std::optional<std::uint64_t> bytes, bool is_use) {
  const std::lock_guard lock(mutex_);
  ReuseStack* const stack = stack_of(key);
  if (stack == nullptr) return;
  Window& window = lanes_[key.lane].now;
  const double weight = 1 / stack->sampled_share();
  window.gets += weight;
  if (probed_.erase(key.place) != 0) {
    window.gets_after_probes += weight;
  } else {
    look(window, *stack, key.place);
  }
  if (bytes && is_use) use(window, *stack, key.place, *bytes);
}

void LiveCurves::stored(const Key& key, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  ReuseStack* const stack = stack_of(key);
  if (stack == nullptr) return;
  probed_.erase(key.place);
  use(lanes_[key.lane].now, *stack, key.place, bytes);
}

/// Where its uses are ordered; nothing: it is not followed there.
ReuseStack* LiveCurves::stack_of(const Key& key) {
  spend();
  const std::size_t number = key.has_quota ? key.lane + 1 : SHARED;
  const bool is_room = !key.has_quota || stacks_.size() <= CURVE_QUOTAS_MAX;
  auto found = stacks_.find(number);
  if (found == stacks_.end()) {
    if (!is_room) return nullptr;
    const std::size_t keys_max = key.has_quota ? CURVE_QUOTA_KEYS_MAX : CURVE_KEYS_MAX;
    found = stacks_.emplace(number, std::make_unique<ReuseStack>(keys_max)).first;
    note_thresholds();
  }
  return found->second->follows(key.place) ? found->second.get() : nullptr;
}

/// More than may be followed for long: half of the keys are, from now on.
void LiveCurves::spend() {
  const std::uint64_t now_ns = steady_ns();
  const double elapsed_s = static_cast<double>(now_ns - std::exchange(credited_ns_, now_ns)) / 1e9;
  credit_ = std::min<double>(CURVE_LOOKS_BURST, credit_ + elapsed_s * looks_per_s_max_) - 1;
  if (credit_ >= 0) return;
  credit_ = looks_per_s_max_;
  for (const auto& [lane, stack] : stacks_) stack->halve();
  note_thresholds();
}

void LiveCurves::look(Window& window, const ReuseStack& stack, std::uint64_t place) {
  const double weight = 1 / stack.sampled_share();
  window.weighed += weight;
  ++window.followed;
  if (const auto needed = stack.needed(place)) window.found.add(std::max(1.0, *needed), weight);
}

void LiveCurves::use(Window& window, ReuseStack& stack, std::uint64_t place, std::uint64_t bytes) {
  window.uses += 1;
  window.used_bytes += static_cast<double>(bytes);
  const std::uint64_t before = stack.threshold();
  stack.use(place, grains_of(bytes));
  if (stack.threshold() != before) note_thresholds();
}

void LiveCurves::note_thresholds() {
  std::uint64_t highest = 0;
  for (const auto& [number, stack] : stacks_) highest = std::max(highest, stack->threshold());
  if (stacks_.empty()) highest = ~std::uint64_t{0};
  if (!is_on_) highest = 0;
  threshold_.store(highest, std::memory_order_relaxed);
}

// ---- what comes of it -----------------------------------------------------------------------

LiveCurves::Counted LiveCurves::counted_of(const NamespaceCounts& counts) noexcept {
  return {.probes_found = counts.found,
          .probes = counts.found + counts.lacking,
          .gets_found = counts.wholes_found,
          .gets = counts.wholes_found + counts.wholes_lacking};
}

std::int64_t LiveCurves::since_ms() const {
  const std::lock_guard lock(mutex_);
  return turned_before_ms_;
}

bool LiveCurves::is_turn_due(std::int64_t now_ms) const {
  const std::lock_guard lock(mutex_);
  return now_ms - turned_ms_ >= CURVE_WINDOW_MS;
}

void LiveCurves::turn(std::int64_t now_ms, std::span<const NamespaceCounts> counts) {
  const std::lock_guard lock(mutex_);
  if (now_ms - turned_ms_ < CURVE_WINDOW_MS) return;
  turned_before_ms_ = std::exchange(turned_ms_, now_ms);
  began_before_ = std::move(began_);
  began_.clear();
  for (const NamespaceCounts& each : counts) began_.push_back(counted_of(each));
  for (auto& [number, lane] : lanes_) lane.before = std::exchange(lane.now, Window{});
}

/// In the windows that are told.
LiveCurves::Counted LiveCurves::counted_since(std::size_t lane,
                                              const NamespaceCounts& counts) const noexcept {
  Counted counted = counted_of(counts);
  if (lane >= began_before_.size()) return counted;
  const Counted& began = began_before_[lane];
  counted.probes_found -= began.probes_found;
  counted.probes -= began.probes;
  counted.gets_found -= began.gets_found;
  counted.gets -= began.gets;
  return counted;
}

std::vector<NamespaceCurve> LiveCurves::told(std::span<const NamespaceCounts> counts,
                                             std::size_t count_max) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<NamespaceCurve, const Lane*>> all;
  for (const auto& [number, lane] : lanes_) {
    if (number >= counts.size()) continue;
    NamespaceCurve curve = curve_of(lane, counted_since(number, counts[number]));
    curve.name = counts[number].name;
    if (curve.looks > 0) all.emplace_back(std::move(curve), &lane);
  }
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.first.looks > b.first.looks; });
  std::vector<NamespaceCurve> told;
  for (auto& [curve, lane] : std::span(all).first(std::min(all.size(), count_max))) {
    add_shares(*lane, curve);
    told.push_back(std::move(curve));
  }
  return told;
}

/// Who asks first what is there and gets it then has looked once. How many do is known of the
/// followed keys.
NamespaceCurve LiveCurves::curve_of(const Lane& lane, const Counted& counted) {
  const double gets = lane.now.gets + lane.before.gets;
  const double after_probes = lane.now.gets_after_probes + lane.before.gets_after_probes;
  const double alone = gets > 0 ? 1 - after_probes / gets : 1;
  const double uses = lane.now.uses + lane.before.uses;
  NamespaceCurve curve;
  curve.looks = static_cast<double>(counted.probes) + alone * static_cast<double>(counted.gets);
  curve.found =
      static_cast<double>(counted.probes_found) + alone * static_cast<double>(counted.gets_found);
  curve.followed = lane.now.followed + lane.before.followed;
  if (uses > 0) curve.piece_bytes = (lane.now.used_bytes + lane.before.used_bytes) / uses;
  return curve;
}

// A sample that has more or less than its share of looks would bend the whole curve: what is
// missing, or too much, counts as found at once.
void LiveCurves::add_shares(const Lane& lane, NamespaceCurve& curve) {
  constexpr auto TOLD = static_cast<std::size_t>(NamespaceCurve::STEPS_PER_OCTAVE);
  constexpr auto STEPS = static_cast<std::size_t>(STEPS_PER_OCTAVE) / TOLD;
  double found = curve.looks - lane.now.weighed - lane.before.weighed;
  for (std::size_t at = 0; at <= OCTAVES * TOLD; ++at) {
    curve.shares.push_back(std::clamp(found / curve.looks, 0.0, 1.0));
    found += lane.now.found.in_steps(at * STEPS, (at + 1) * STEPS) +
             lane.before.found.in_steps(at * STEPS, (at + 1) * STEPS);
  }
  while (curve.shares.size() > 1 && curve.shares.back() == curve.shares[curve.shares.size() - 2])
    curve.shares.pop_back();
}

}  // namespace gd2fs::serve
