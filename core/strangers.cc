#include "strangers.h"

#include <algorithm>
#include <vector>

namespace gd2fs::serve {
namespace {

constexpr double FULL = STRANGERS_BURST;

}  // namespace

std::optional<Refusal> Strangers::enter(const std::string& source, std::int64_t now_ms) {
  const std::lock_guard lock(mutex_);
  Source& from = source_of(source, now_ms);
  if (from.tickets < 1) return Refusal::rate;
  // Whoever floods from many sources leaves room for one that is new here.
  const std::size_t all_max = from.count == 0 ? 2 * STRANGERS_MAX : STRANGERS_MAX;
  from.tickets -= 1;
  if (from.count >= UNAUTHENTICATED_MAX || count_ >= all_max) return Refusal::too_many;
  ++from.count;
  ++count_;
  return {};
}

void Strangers::leave(const std::string& source, bool is_proven) {
  const std::lock_guard lock(mutex_);
  const auto found = sources_.find(source);
  if (found == sources_.end() || found->second.count == 0) return;
  --found->second.count;
  --count_;
  if (is_proven) found->second.tickets = std::min(found->second.tickets + 1, FULL);
  const bool is_idle = found->second.count == 0 && found->second.tickets == FULL;
  if (is_idle) sources_.erase(found);
}

std::size_t Strangers::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

Strangers::Source& Strangers::source_of(const std::string& source, std::int64_t now_ms) {
  if (sources_.size() >= SOURCES_MAX && !sources_.contains(source)) forget_idle();
  Source& from = sources_.try_emplace(source, Source{0, FULL, now_ms}).first->second;
  const auto passed_ms = static_cast<double>(std::max<std::int64_t>(now_ms - from.told_ms, 0));
  from.tickets = std::min(from.tickets + passed_ms * STRANGERS_PER_S / 1000, FULL);
  from.told_ms = now_ms;
  return from;
}

/// Half of those with nothing open, the longest not seen ones: a flood from ever new sources shuts
/// out none that is new too. There are some: the others are as many as strangers at most.
void Strangers::forget_idle() {
  static_assert(2 * STRANGERS_MAX < SOURCES_MAX);
  std::vector<std::int64_t> seen_ms;
  for (const auto& [name, each] : sources_)
    if (each.count == 0) seen_ms.push_back(each.told_ms);
  const auto middle = seen_ms.begin() + static_cast<std::ptrdiff_t>(seen_ms.size() / 2);
  std::nth_element(seen_ms.begin(), middle, seen_ms.end());
  const std::int64_t until_ms = *middle;
  std::erase_if(sources_, [&](const auto& each) {
    return each.second.count == 0 && each.second.told_ms <= until_ms;
  });
}

}  // namespace gd2fs::serve
