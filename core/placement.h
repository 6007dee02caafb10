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

}  // namespace gd2fs
