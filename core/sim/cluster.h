// Cluster: all nodes of a GD2FS cluster: which of them has a block, and what lies between them and
// the engines. Owners are those of the product's own placement (placement.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "../placement.h"
#include "link.h"
#include "store_node.h"

namespace gd2fs::sim {

struct ClusterOptions {
  std::vector<std::string> nodes;  // their names: placement depends on them
  std::vector<std::uint32_t> weights;
  std::string name_space = "sim";
  PolicyKind policy = PolicyKind::lru;
  std::uint64_t memory_blocks = StoreNode::UNLIMITED;  // of each node
  std::uint64_t disk_blocks = 0;
  std::uint32_t replicas = 1;
  bool may_die = false;         // nodes: then the next owner after the copies is known, too
  double node_bytes_per_s = 0;  // of its NICs, in each direction
  double disk_read_bytes_per_s = 0, disk_write_bytes_per_s = 0;
};

/// What a request is about to read.
struct ClusterRead {
  struct From {
    std::uint32_t node;
    double memory_blocks, disk_blocks;
  };
  std::vector<From> from;
  std::uint32_t memory_blocks = 0, disk_blocks = 0;

  void clear();
  void add(std::uint32_t node, Where where);
};

class Cluster {
 public:
  Cluster(const ClusterOptions& options, std::uint32_t block_count, double block_bytes);

  /// The page that stands for a block: 16 hexadecimal digits.
  static std::string key_of(Block block);

  /// These lie on that node, whatever placement says. Only where each has one copy.
  void settle(std::span<const Block> blocks, std::uint16_t node);

  struct Found {
    std::uint32_t node = 0;
    Where where = Where::nowhere;
  };
  /// The first owner that has it.
  Found find(Block block);
  /// The first owner that has it, if any, lets it be read.
  void read(Block block);
  /// Written to every owner that has not got it; how many those were.
  std::uint32_t put(Block block, double now_s);
  /// When all of a read would be here, as far as the nodes are concerned; and the same, done.
  double would_end_s(const ClusterRead& read, double now_s) const;
  double pass(const ClusterRead& read, double now_s);
  /// A node dies, with all that it has; the next owners take over.
  void kill(std::uint32_t node);

  struct Node {
    StoreNode cache;
    Link in, out, disk_read, disk_write;
    std::uint64_t disk_written = 0;  // blocks that `disk_write` knows of
    bool is_alive = true;
  };
  const std::vector<Node>& nodes() const noexcept { return nodes_; }

 private:
  static constexpr std::uint16_t UNKNOWN = 0xFFFF;

  std::span<const std::uint16_t> order_of(Block block);
  template <class Visit>
  void visit_owners(Block block, Visit visit);
  double disk_bytes(const ClusterRead::From& from) const noexcept;

  std::vector<PlacedNode> placed_;
  std::string name_space_;
  std::uint32_t replicas_;
  std::size_t order_length_;
  double block_bytes_;
  std::vector<Node> nodes_;
  std::vector<std::uint16_t> orders_;  // of each block, made when it is first asked for
};

}  // namespace gd2fs::sim
