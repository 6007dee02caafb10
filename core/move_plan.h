// Move plan: what a node has to do with one piece after the map has changed. Pure.
//
// The owners of then and of now are compared. Who was none before has to get a copy: the first of
// the former owners that lives brings it at once. Whoever else has a copy offers it a little later,
// which moves no bytes when all is well; so a copy gets there even when the first one is lost, or
// was wrong about what it had. A node that is no owner any more asks all of them.
#pragma once

#include <string_view>
#include <vector>

#include "node.h"

namespace gd2fs::serve {

struct MovedPiece {
  std::string_view name;
  std::uint64_t chunk = 0;
  std::size_t replicas = 0;     // 0: as the namespace has
  bool is_handed_over = false;  // by the map of then, all its owners had it, and this node was none
};

struct MovePlan {
  std::vector<NodeId> targets;  // who has to say that it has the piece
  bool is_first = false;        // this node offers at once; else it leaves that to another one
  bool is_owner = false;        // this node keeps its copy
};

/// `then`: nullptr when it is not known by which map the piece came. `self` is a member by `now`.
MovePlan plan_move(const NodeId& self, const ClusterView* then, const ClusterView& now,
                   const MovedPiece& piece);
/// What to do when nodes of `returned` have begun anew with nothing, and the map is the same:
/// owners bring them their copies, whoever stood in for them hands over what it has.
MovePlan plan_return(const NodeId& self, const std::vector<NodeId>& returned,
                     const ClusterView& now, const MovedPiece& piece);
/// Has no piece another owner, nor an owner come back empty?
bool is_same_placement(const wire::Map& then, const wire::Map& now);
/// Does the node belong to the cluster?
bool is_member(const wire::Map& map, const NodeId& node);
bool is_draining(const wire::Map& map, const NodeId& node);

}  // namespace gd2fs::serve
