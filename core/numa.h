// NUMA: memory that is near to some processors and far from others: which region of the arena lies
// at which node, and which thread runs where. On a machine of one node nothing is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gd2fs::numa {

/// A node's number, and its processors that this process may run on.
struct Node {
  int number = 0;
  std::vector<int> processors;
};

/// Nodes that have both memory and processors which this process may use, by number.
struct Machine {
  std::vector<Node> nodes;

  bool is_many() const noexcept { return nodes.size() > 1; }
};

/// What /sys and /proc below `root` tell; without nodes where they tell nothing.
Machine read_machine(const std::string& root = "/");

/// Of each region the number of its node: they go round, so that every node has about as much.
/// Empty: there is nothing to choose.
std::vector<int> nodes_of_regions(const Machine& machine, std::size_t regions);
/// Where the `index`th thread runs: they go round too. nullptr: anywhere.
const Node* node_of_thread(const Machine& machine, std::size_t index) noexcept;

/// From now on pages of `memory` are taken from the node of their region, while it has some:
/// `nodes` has one for each `region_bytes` (whole huge pages). Those that are there already stay.
/// Empty, or why the system refuses; then the first thread that touches a page decides.
std::string prefer(std::span<std::byte> memory, std::size_t region_bytes,
                   const std::vector<int>& nodes);
/// This thread runs on the node's processors alone, where the system allows that.
void run_on(const Node& node) noexcept;
/// The node of the processor that this thread runs on now.
int here() noexcept;

/// How memory is spread, and whether threads found some near.
struct Spread {
  std::vector<std::pair<int, std::uint64_t>> bytes;  // by node; empty: one node, or switched off
  std::string fault;                                 // why pages are not taken as they should be
  std::uint64_t near_bytes = 0, far_bytes = 0;       // taken since the start
};

}  // namespace gd2fs::numa
