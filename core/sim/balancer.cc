#include "balancer.h"

#include <algorithm>

namespace gd2fs::sim {

namespace {

// As SGLang's router has them by default: of a prompt so much must be known, and beyond such a
// difference of loads it does not count.
constexpr double MATCH_MIN = 0.3;
constexpr std::uint32_t UNEVEN_BY = 64;
constexpr double UNEVEN_TIMES = 1.5;

/// Jump consistent hash (Lamping, Veach 2014): with one instance more, few sessions move.
std::uint32_t jump(std::uint64_t key, std::uint32_t buckets) noexcept {
  std::int64_t at = -1, next = 0;
  while (next < static_cast<std::int64_t>(buckets)) {
    at = next;
    key = key * 2862933555777941757ull + 1;
    const auto draw = static_cast<double>((key >> 33) + 1);
    next = static_cast<std::int64_t>(static_cast<double>(at + 1) * (2147483648.0 / draw));
  }
  return static_cast<std::uint32_t>(at);
}

}  // namespace

Balancer::Balancer(Balance kind, std::uint32_t instances, std::uint64_t seed,
                   std::uint32_t block_count)
    : kind_(kind),
      random_(seed),
      outstanding_(instances),
      served_by_(kind == Balance::cache_aware ? block_count : 0, NOBODY) {}

std::uint32_t Balancer::choose(const Trace& trace, Request request, std::uint32_t active) {
  std::uint32_t chosen = 0;
  if (!trace.instance.empty()) {
    chosen = static_cast<std::uint32_t>(trace.instance[request]) % active;
  } else {
    switch (kind_) {
      case Balance::round_robin: chosen = turn_++ % active; break;
      case Balance::random:
        chosen = static_cast<std::uint32_t>(((random_() >> 32) * active) >> 32);
        break;
      case Balance::least_loaded: chosen = least_loaded(active); break;
      case Balance::sticky:
        chosen = jump(trace.session[request] * 0x9E3779B97F4A7C15ull, active);
        break;
      case Balance::cache_aware: chosen = cache_aware(trace, request, active); break;
    }
  }
  ++outstanding_[chosen];
  return chosen;
}

/// Of equals the next one in turn.
std::uint32_t Balancer::least_loaded(std::uint32_t active) noexcept {
  const auto begin = outstanding_.begin(), end = begin + active;
  const auto from = begin + turn_++ % active;
  const std::uint32_t least = *std::min_element(begin, end);
  auto found = std::find(from, end, least);
  if (found == end) found = std::find(begin, from, least);
  return static_cast<std::uint32_t>(found - begin);
}

std::uint32_t Balancer::cache_aware(const Trace& trace, Request request, std::uint32_t active) {
  const auto prompt = trace.prompt_of(request);
  std::uint32_t chosen = NOBODY;
  for (std::size_t at = prompt.size(); at-- > 0 && chosen == NOBODY;) {
    const std::uint16_t server = served_by_[prompt[at]];
    if (server >= active) continue;
    const double matched = static_cast<double>(at + 1) / static_cast<double>(prompt.size());
    if (matched < MATCH_MIN) break;
    chosen = server;
  }
  if (chosen == NOBODY || is_uneven(active)) chosen = least_loaded(active);
  for (const Block block : prompt) served_by_[block] = static_cast<std::uint16_t>(chosen);
  return chosen;
}

bool Balancer::is_uneven(std::uint32_t active) const noexcept {
  const auto [least, most] =
      std::minmax_element(outstanding_.begin(), outstanding_.begin() + active);
  return *most - *least > UNEVEN_BY && *most > UNEVEN_TIMES * *least;
}

}  // namespace gd2fs::sim
