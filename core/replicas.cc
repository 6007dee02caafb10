#include "replicas.h"

#include <algorithm>

namespace gd2fs {

namespace {

constexpr std::size_t STILL_EXTRA = 1;   // a put has gone past one that was away
constexpr std::size_t MOVING_EXTRA = 2;  // and copies may not have arrived yet
constexpr std::int64_t YOUNG_MS = 60'000;
constexpr double CLEARLY = 0.75;  // of the cost of an earlier one: a later one is taken
constexpr std::int64_t BASE_US = 50;
constexpr std::uint64_t BASE_BYTES = 64 * KiB;

std::uint8_t distance_of(Transport transport) {
  switch (transport) {
    case Transport::shm: return 0;
    case Transport::rdma: return 1;
    case Transport::unix_socket: return 1;
    default: return 2;  // not connected yet: as far as any
  }
}

}  // namespace

Reach::Reach(const Routes& routes, std::size_t replicas) {
  const bool is_fixed = routes.map.provider == wire::Provider::fixed;
  const bool is_young = !is_fixed && now_ms() - routes.since_ms < YOUNG_MS;
  is_moving = is_young || routes.moving_count != 0;
  const std::size_t extra = is_moving ? MOVING_EXTRA + routes.moving_count : STILL_EXTRA;
  ranks = std::min({replicas + extra, routes.slots.size(), RANKS_MAX});
  misses = is_moving ? ranks : std::min(replicas, ranks);
}

Choice::Choice(RoutesRef routes, std::uint64_t bytes)
    : routes_(std::move(routes)), bytes_(bytes), now_us_(now_us()), looks_(routes_->slots.size()) {}

Choice::Look& Choice::look(std::uint32_t node) const {
  Look& look = looks_[node];
  if (look.is_known || routes_->links[node] == nullptr) return look;
  const Link& link = *routes_->links[node];
  look = {true, distance_of(link.transport()), link.pace().answer_us(bytes_, now_us_),
          link.pace().bytes_in_flight()};
  return look;
}

/// Of two equals the earlier one serves: so what a node has in its caches is asked of it again.
bool Choice::is_better(const Look& one, const Look& other) const {
  if (one.distance != other.distance) return one.distance < other.distance;
  const auto cost = [](const Look& look) {
    return static_cast<double>(look.answer_us + BASE_US) *
           static_cast<double>(look.bytes + BASE_BYTES);
  };
  return cost(one) < CLEARLY * cost(other);
}

std::size_t Choice::next(std::span<const std::uint32_t> order, std::size_t replicas,
                         RankMask asked) const {
  const auto is_open = [&](std::size_t rank) {
    return (asked & rank_bit(rank)) == 0 && !is_down(order[rank]);
  };
  const std::size_t count = std::min(order.size(), RANKS_MAX);
  const std::size_t near = std::min(replicas, count);
  std::size_t best = order.size();
  for (std::size_t rank = 0; rank < near; ++rank) {
    if (!is_open(rank)) continue;
    if (best == order.size() || is_better(look(order[rank]), look(order[best]))) best = rank;
  }
  for (std::size_t rank = near; rank < count && best == order.size(); ++rank)
    if (is_open(rank)) best = rank;
  return best;
}

}  // namespace gd2fs
