#include "placement.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include <xxhash.h>

#include "limits.h"
#include "name.h"

namespace gd2fs {

namespace {

/// XXH3-64 of the node's id, the name and the chunk's number, back to back.
std::uint64_t score_hash(const NodeId& id, std::string_view name, std::uint64_t chunk) {
  std::array<std::byte, sizeof(NodeId) + NAME_BYTES_MAX + sizeof chunk> text;
  name = name.substr(0, NAME_BYTES_MAX);           // longer ones were refused before
  std::memcpy(text.data(), id.data(), id.size());  // sizes are equal
  std::memcpy(text.data() + id.size(), name.data(), name.size());            // cut just above
  std::memcpy(text.data() + id.size() + name.size(), &chunk, sizeof chunk);  // as `text` is long
  return XXH3_64bits(text.data(), id.size() + name.size() + sizeof chunk);
}

/// Hashes that lie farther apart have scores that lie apart, whatever is lost in rounding.
constexpr std::uint64_t NEAR = 1 << 10;

/// As much of the hash as a double holds.
std::uint64_t top_of(const PlacedNode& node, std::string_view name, std::uint64_t chunk) {
  return score_hash(node.id, name, chunk) >> 11;
}

double score(const PlacedNode& node, std::uint64_t top) {
  if (node.weight == 0) return 0;  // owns nothing while any other node is there
  // In (0, 1): the logarithm is finite and negative.
  const double u = (static_cast<double>(top) + 0.5) * 0x1p-53;
  return -static_cast<double>(node.weight) / std::log(u);
}

}  // namespace

NodeId node_id(std::string_view node_name) {
  const XXH128_hash_t hash = XXH3_128bits(node_name.data(), node_name.size());
  NodeId id;
  std::memcpy(id.data(), &hash.low64, sizeof hash.low64);        // the first half
  std::memcpy(id.data() + 8, &hash.high64, sizeof hash.high64);  // and the second: 16 bytes
  return id;
}

std::vector<std::uint32_t> placement_order(std::span<const PlacedNode> nodes, std::string_view name,
                                           std::uint64_t chunk, std::size_t count) {
  std::vector<double> scores;
  scores.reserve(nodes.size());
  for (const PlacedNode& node : nodes) scores.push_back(score(node, top_of(node, name, chunk)));
  std::vector<std::uint32_t> order(nodes.size());
  std::iota(order.begin(), order.end(), 0u);
  count = std::min(count, order.size());
  // Equal scores are told apart by id, so that the order of the list never matters.
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](std::uint32_t a, std::uint32_t b) {
                      if (scores[a] != scores[b]) return scores[a] > scores[b];
                      return nodes[a].id < nodes[b].id;
                    });
  order.resize(count);
  return order;
}

std::uint32_t placement_first(std::span<const PlacedNode> nodes, std::string_view name,
                              std::uint64_t chunk) {
  if (nodes.size() == 1) return 0;
  std::uint32_t best = 0;
  double best_score = -1;
  std::uint64_t best_top = 0;
  for (std::uint32_t at = 0; at < nodes.size(); ++at) {
    const std::uint64_t top = top_of(nodes[at], name, chunk);
    // Most need no logarithm: less of a hash with no more of a weight is a lower score.
    const bool is_no_heavier = nodes[at].weight != 0 && nodes[at].weight <= nodes[best].weight;
    if (is_no_heavier && top + NEAR < best_top) continue;
    const double here = score(nodes[at], top);
    if (here > best_score || (here == best_score && nodes[at].id < nodes[best].id)) {
      best = at;
      best_score = here;
      best_top = top;
    }
  }
  return best;
}

void Placement::Row::add(const wire::MapNode& node, std::size_t at) {
  nodes.push_back({node.id, node.weight});
  index.push_back(static_cast<std::uint32_t>(at));
}

std::vector<std::uint32_t> Placement::Row::order(std::string_view name, std::uint64_t chunk,
                                                 std::size_t count) const {
  std::vector<std::uint32_t> order = placement_order(nodes, name, chunk, count);
  for (std::uint32_t& each : order) each = index[each];
  return order;
}

Placement::Placement(const wire::Map& map) : replicas_(map.replicas), namespaces_(map.namespaces) {
  for (std::size_t at = 0; at < map.nodes.size(); ++at) {
    const wire::MapNode& node = map.nodes[at];
    if (node.state == wire::NodeState::gone) continue;
    holding_.add(node, at);
    if (node.state != wire::NodeState::draining) owning_.add(node, at);
  }
  if (owning_.nodes.empty()) owning_ = holding_;
  std::sort(namespaces_.begin(), namespaces_.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
}

std::uint32_t Placement::owner(std::string_view name, std::uint64_t chunk) const {
  return owning_.index[placement_first(owning_.nodes, name, chunk)];
}

std::vector<std::uint32_t> Placement::owners(std::string_view name, std::uint64_t chunk,
                                             std::size_t count) const {
  return owning_.order(name, chunk, count);
}

std::vector<std::uint32_t> Placement::holders(std::string_view name, std::uint64_t chunk,
                                              std::size_t count) const {
  return holding_.order(name, chunk, count);
}

std::size_t Placement::replicas(std::string_view name) const {
  if (namespaces_.empty()) return replicas_;
  const std::string_view own = namespace_of(name, !name.starts_with('/'));
  const auto found =
      std::lower_bound(namespaces_.begin(), namespaces_.end(), own,
                       [](const auto& each, std::string_view text) { return each.name < text; });
  return found != namespaces_.end() && found->name == own ? found->replicas : replicas_;
}

}  // namespace gd2fs
