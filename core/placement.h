// Placement: which nodes hold a chunk. Weighted rendezvous hashing over node names; pure functions.
//
// score(node) = -weight / ln(u), u in (0, 1) from XXH3-64(id of the node, name, chunk). The highest
// score owns; the next ones take over. A node's id is XXH3-128 of its name, never of its address.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "wire.h"

namespace gd2fs {

using NodeId = std::array<std::byte, 16>;

struct PlacedNode {
  NodeId id{};
  std::uint32_t weight = 1;
};

NodeId node_id(std::string_view node_name);
/// Indexes of `nodes`, best first. At most `count` of them.
std::vector<std::uint32_t> placement_order(std::span<const PlacedNode> nodes, std::string_view name,
                                           std::uint64_t chunk, std::size_t count);
/// The first of that order. `nodes` is not empty.
std::uint32_t placement_first(std::span<const PlacedNode> nodes, std::string_view name,
                              std::uint64_t chunk);

/// Who owns what under one map. Indexes are positions in its `nodes`. Names are paths or names of
/// pages (name.h). Immutable.
class Placement {
 public:
  Placement() = default;
  explicit Placement(const wire::Map& map);

  bool is_empty() const noexcept { return owning_.nodes.empty(); }
  /// Where new data goes, best first, and where a file's record lives: neither to draining nodes,
  /// unless all are, nor to gone ones. The map has a node (`is_empty`).
  std::uint32_t owner(std::string_view name, std::uint64_t chunk) const;
  std::vector<std::uint32_t> owners(std::string_view name, std::uint64_t chunk,
                                    std::size_t count) const;
  /// Who may have it: draining nodes in the place that they had as owners.
  std::vector<std::uint32_t> holders(std::string_view name, std::uint64_t chunk,
                                     std::size_t count) const;
  /// How many copies there shall be, by the name's namespace.
  std::size_t replicas(std::string_view name) const;

 private:
  struct Row {
    std::vector<PlacedNode> nodes;
    std::vector<std::uint32_t> index;  // in the map, beside `nodes`

    void add(const wire::MapNode& node, std::size_t at);
    std::vector<std::uint32_t> order(std::string_view name, std::uint64_t chunk,
                                     std::size_t count) const;
  };

  Row owning_;
  Row holding_;
  std::size_t replicas_ = 1;
  std::vector<wire::NamespaceReplicas> namespaces_;  // sorted
};

}  // namespace gd2fs
