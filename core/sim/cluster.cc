#include "cluster.h"

#include <algorithm>
#include <array>

#include "../name.h"

namespace gd2fs::sim {

void ClusterRead::clear() {
  from.clear();
  memory_blocks = disk_blocks = 0;
}

void ClusterRead::add(std::uint32_t node, Where where) {
  auto found =
      std::find_if(from.begin(), from.end(), [&](const From& f) { return f.node == node; });
  if (found == from.end()) found = from.insert(from.end(), From{node, 0, 0});
  const bool is_disk = where == Where::disk;
  (is_disk ? found->disk_blocks : found->memory_blocks) += 1;
  ++(is_disk ? disk_blocks : memory_blocks);
}

Cluster::Cluster(const ClusterOptions& options, std::uint32_t block_count, double block_bytes)
    : name_space_(options.name_space),
      replicas_(std::min(options.replicas, static_cast<std::uint32_t>(options.nodes.size()))),
      order_length_(
          std::min<std::size_t>(replicas_ + (options.may_die ? 1 : 0), options.nodes.size())),
      block_bytes_(block_bytes),
      orders_(options.nodes.size() > 1 ? std::size_t{block_count} * order_length_ : 0, UNKNOWN) {
  for (std::size_t at = 0; at < options.nodes.size(); ++at) {
    placed_.push_back({node_id(options.nodes[at]), options.weights[at]});
    nodes_.push_back({StoreNode(options.policy, options.memory_blocks, options.disk_blocks),
                      Link(options.node_bytes_per_s), Link(options.node_bytes_per_s),
                      Link(options.disk_read_bytes_per_s), Link(options.disk_write_bytes_per_s)});
  }
}

std::string Cluster::key_of(Block block) {
  static constexpr std::string_view DIGITS = "0123456789abcdef";
  std::string key(16, '0');
  for (std::size_t at = 16; block != 0; block >>= 4) key[--at] = DIGITS[block & 15];
  return key;
}

void Cluster::settle(std::span<const Block> blocks, std::uint16_t node) {
  if (orders_.empty() || order_length_ != 1) return;
  for (const Block block : blocks) orders_[block] = node;
}

std::span<const std::uint16_t> Cluster::order_of(Block block) {
  static constexpr std::array<std::uint16_t, 1> ONLY{0};
  if (orders_.empty()) return ONLY;
  const std::span<std::uint16_t> order(&orders_[std::size_t{block} * order_length_], order_length_);
  if (order[0] != UNKNOWN) return order;
  const std::string name = page_name(name_space_, key_of(block));
  if (order_length_ == 1) {
    order[0] = static_cast<std::uint16_t>(placement_first(placed_, name, 0));
    return order;
  }
  const auto best = placement_order(placed_, name, 0, order_length_);
  std::transform(best.begin(), best.end(), order.begin(),
                 [](std::uint32_t node) { return static_cast<std::uint16_t>(node); });
  return order;
}

/// As many as there shall be copies, of those that live. `visit` says when it is enough.
template <class Visit>
void Cluster::visit_owners(Block block, Visit visit) {
  std::uint32_t left = replicas_;
  for (const std::uint16_t node : order_of(block)) {
    if (left == 0) return;
    if (!nodes_[node].is_alive) continue;
    --left;
    if (visit(node)) return;
  }
}

Cluster::Found Cluster::find(Block block) {
  Found found;
  visit_owners(block, [&](std::uint32_t node) {
    found = {node, nodes_[node].cache.find(block)};
    return found.where != Where::nowhere;
  });
  return found;
}

void Cluster::read(Block block) {
  visit_owners(block, [&](std::uint32_t node) { return nodes_[node].cache.read(block); });
}

std::uint32_t Cluster::put(Block block, double now_s) {
  std::uint32_t copies = 0;
  visit_owners(block, [&](std::uint32_t at) {
    Node& node = nodes_[at];
    if (node.cache.put(block)) {
      ++copies;
      node.in.pass(now_s, block_bytes_);
    }
    const std::uint64_t written = node.cache.counts().disk_written;
    node.disk_write.pass(now_s, static_cast<double>(written - node.disk_written) * block_bytes_);
    node.disk_written = written;
    return false;
  });
  return copies;
}

double Cluster::disk_bytes(const ClusterRead::From& from) const noexcept {
  return from.disk_blocks * block_bytes_;
}

double Cluster::would_end_s(const ClusterRead& read, double now_s) const {
  double end_s = now_s;
  for (const ClusterRead::From& from : read.from) {
    const Node& node = nodes_[from.node];
    const double bytes = (from.memory_blocks + from.disk_blocks) * block_bytes_;
    end_s = std::max({end_s, node.out.would_end_s(now_s, bytes),
                      node.disk_read.would_end_s(now_s, disk_bytes(from))});
  }
  return end_s;
}

double Cluster::pass(const ClusterRead& read, double now_s) {
  double end_s = now_s;
  for (const ClusterRead::From& from : read.from) {
    Node& node = nodes_[from.node];
    const double bytes = (from.memory_blocks + from.disk_blocks) * block_bytes_;
    end_s = std::max(
        {end_s, node.out.pass(now_s, bytes), node.disk_read.pass(now_s, disk_bytes(from))});
  }
  return end_s;
}

void Cluster::kill(std::uint32_t node) {
  nodes_[node].is_alive = false;
  nodes_[node].cache.clear();
}

}  // namespace gd2fs::sim
