// Replicas: which of a name's nodes are asked, and which of them first.
//
// Everyone who may have a copy stands in one order. Among those that should have one, the nearest
// is asked, then the least busy and quickest; the others only when these have nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "network.h"

namespace gd2fs {

/// Who of an order has been asked. A bit for each rank; an order is at most so long.
using RankMask = std::uint64_t;
inline constexpr std::size_t RANKS_MAX = 64;
constexpr RankMask rank_bit(std::size_t rank) { return RankMask{1} << rank; }

/// How many of an order may have a copy, and how many have to say that they have none before it is
/// a miss. While nodes come and go copies are on their way: then all of them.
struct Reach {
  std::size_t ranks = 1;
  std::size_t misses = 1;
  bool is_moving = false;

  Reach() = default;
  Reach(const Routes& routes, std::size_t replicas);
};

/// One look at all links: for one round of a call.
class Choice {
 public:
  /// `bytes`: about what one request will bring.
  Choice(RoutesRef routes, std::uint64_t bytes);

  bool is_down(std::uint32_t node) const { return routes_->links[node]->is_down(); }
  /// Of `order`, positions in the map: the rank to be asked next, without those in `asked`; of the
  /// first `replicas` the best, then the others in turn. `order.size()`: nobody is left.
  std::size_t next(std::span<const std::uint32_t> order, std::size_t replicas,
                   RankMask asked) const;
  /// So many bytes more are going to be asked of it.
  void assign(std::uint32_t node, std::uint64_t bytes) { look(node).bytes += bytes; }

 private:
  struct Look {
    bool is_known = false;
    std::uint8_t distance = 0;
    std::int64_t answer_us = 0;
    std::uint64_t bytes = 0;  // in flight, and about to be
  };

  Look& look(std::uint32_t node) const;
  bool is_better(const Look& one, const Look& other) const;

  const RoutesRef routes_;
  const std::uint64_t bytes_;
  const std::int64_t now_us_;
  mutable std::vector<Look> looks_;  // by position in the map; looked at when first needed
};

}  // namespace gd2fs
