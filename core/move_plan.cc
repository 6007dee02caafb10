#include "move_plan.h"

#include <algorithm>

namespace gd2fs::serve {

namespace {

const wire::MapNode* find(const wire::Map& map, const NodeId& id) {
  const auto found = std::find_if(map.nodes.begin(), map.nodes.end(),
                                  [&](const wire::MapNode& each) { return each.id == id; });
  return found == map.nodes.end() || found->state == wire::NodeState::gone ? nullptr : &*found;
}

bool has(const std::vector<NodeId>& nodes, const NodeId& id) {
  return std::find(nodes.begin(), nodes.end(), id) != nodes.end();
}

/// 0: not known.
bool is_same_boot(const wire::MapNode& then, const wire::MapNode& now) {
  return then.boot == now.boot || then.boot == 0 || now.boot == 0;
}

std::size_t replicas_of(const Placement& placement, const MovedPiece& piece) {
  return piece.replicas != 0 ? piece.replicas : placement.replicas(piece.name);
}

/// The owners of then that still have what they had, in their order.
std::vector<NodeId> living(const ClusterView& then, const ClusterView& now,
                           const MovedPiece& piece) {
  std::vector<NodeId> nodes;
  if (then.placement.is_empty()) return nodes;
  const std::size_t count = replicas_of(then.placement, piece);
  for (const std::uint32_t at : then.placement.owners(piece.name, piece.chunk, count)) {
    const wire::MapNode& before = then.map.nodes[at];
    const wire::MapNode* const after = find(now.map, before.id);
    if (after != nullptr && is_same_boot(before, *after)) nodes.push_back(before.id);
  }
  return nodes;
}

}  // namespace

MovePlan plan_move(const NodeId& self, const ClusterView* then, const ClusterView& now,
                   const MovedPiece& piece) {
  MovePlan plan;
  const std::vector<NodeId> had =
      then == nullptr ? std::vector<NodeId>{} : living(*then, now, piece);
  const bool was_owner = has(had, self);
  plan.is_first = then != nullptr && (had.empty() || had.front() == self);
  std::vector<NodeId> others;
  const std::size_t count = replicas_of(now.placement, piece);
  for (const std::uint32_t at : now.placement.owners(piece.name, piece.chunk, count)) {
    const NodeId& id = now.map.nodes[at].id;
    id == self ? void(plan.is_owner = true) : others.push_back(id);
  }
  // One copy too many, and known to be: whoever has the others sees to it.
  if (piece.is_handed_over && !had.empty()) return plan;
  for (const NodeId& id : others) {
    const bool is_there = plan.is_owner && was_owner && has(had, id);
    if (!is_there) plan.targets.push_back(id);
  }
  return plan;
}

MovePlan plan_return(const NodeId& self, const std::vector<NodeId>& returned,
                     const ClusterView& now, const MovedPiece& piece) {
  MovePlan plan = plan_move(self, nullptr, now, piece);
  const bool is_meant = std::any_of(plan.targets.begin(), plan.targets.end(),
                                    [&](const NodeId& each) { return has(returned, each); });
  if (!is_meant) {
    plan.targets.clear();
    return plan;
  }
  if (!plan.is_owner) return plan;
  const std::size_t count = replicas_of(now.placement, piece);
  for (const std::uint32_t at : now.placement.owners(piece.name, piece.chunk, count)) {
    const NodeId& id = now.map.nodes[at].id;
    if (has(returned, id)) continue;
    plan.is_first = id == self;
    break;
  }
  std::erase_if(plan.targets, [&](const NodeId& each) { return !has(returned, each); });
  return plan;
}

bool is_same_placement(const wire::Map& then, const wire::Map& now) {
  const auto is_same_node = [](const wire::MapNode& a, const wire::MapNode& b) {
    const bool is_leaving = a.state == wire::NodeState::draining;
    const bool was_leaving = b.state == wire::NodeState::draining;
    return a.id == b.id && a.weight == b.weight && is_leaving == was_leaving && is_same_boot(a, b);
  };
  const auto members = [](const wire::Map& map) {
    std::vector<wire::MapNode> nodes;
    for (const wire::MapNode& each : map.nodes) {
      if (each.state != wire::NodeState::gone) nodes.push_back(each);
    }
    std::sort(nodes.begin(), nodes.end(),
              [](const wire::MapNode& a, const wire::MapNode& b) { return a.id < b.id; });
    return nodes;
  };
  const auto is_same_count = [](const wire::NamespaceReplicas& a,
                                const wire::NamespaceReplicas& b) {
    return a.name == b.name && a.replicas == b.replicas;
  };
  const std::vector<wire::MapNode> before = members(then), after = members(now);
  return then.replicas == now.replicas &&
         std::equal(then.namespaces.begin(), then.namespaces.end(), now.namespaces.begin(),
                    now.namespaces.end(), is_same_count) &&
         std::equal(before.begin(), before.end(), after.begin(), after.end(), is_same_node);
}

bool is_member(const wire::Map& map, const NodeId& node) { return find(map, node) != nullptr; }

bool is_draining(const wire::Map& map, const NodeId& node) {
  const wire::MapNode* const found = find(map, node);
  return found != nullptr && found->state == wire::NodeState::draining;
}

}  // namespace gd2fs::serve
