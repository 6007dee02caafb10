#include "map_history.h"

#include <algorithm>

#include "rules.h"

namespace gd2fs {

MapHistory::MapHistory(Member self, const wire::Map& first, std::int64_t now_ms)
    : self_(self), maps_{std::make_shared<Seen>(Seen{first, Placement(first), now_ms})} {}

MapHistory::MapHistory(Member self, std::vector<SeenRef> maps)
    : self_(self), maps_(std::move(maps)) {}

std::shared_ptr<const MapHistory> MapHistory::with(const wire::Map& map, bool is_gap,
                                                   std::int64_t now_ms) const {
  std::vector<SeenRef> maps;
  if (!is_gap) {
    const std::size_t kept = std::min(maps_.size(), MAPS_KEPT - 1);
    maps.assign(maps_.end() - static_cast<std::ptrdiff_t>(kept), maps_.end());
  }
  maps.push_back(std::make_shared<Seen>(Seen{map, Placement(map), now_ms}));
  return std::shared_ptr<const MapHistory>(new MapHistory(self_, std::move(maps)));
}

/// A static list does not know boots; one's own is known all the same.
Member MapHistory::member(const wire::MapNode& node) const {
  return {node.id, node.boot == 0 && node.id == self_.id ? self_.boot : node.boot};
}

std::size_t MapHistory::replicas(const Seen& seen, std::string_view path) {
  return std::max<std::size_t>(seen.placement.replicas(path), 1);
}

std::vector<Member> MapHistory::owners(const Seen& seen, std::string_view path) const {
  std::vector<Member> owners;
  if (seen.placement.is_empty()) return owners;
  const std::size_t count = replicas(seen, path);
  if (count == 1) return {member(seen.map.nodes[seen.placement.owner(path, 0)])};
  for (const std::uint32_t at : seen.placement.owners(path, 0, count))
    owners.push_back(member(seen.map.nodes[at]));
  return owners;
}

std::vector<Member> MapHistory::owners_before(std::string_view path) const {
  return has_before() ? owners(*maps_[maps_.size() - 2], path) : std::vector<Member>{};
}

std::vector<Member> MapHistory::whom_to_ask(std::string_view path) const {
  std::vector<Member> asked;
  if (has_before()) {
    asked = owners_before(path);
  } else if (is_static()) {
    asked = owners(path);
  } else {
    for (const wire::MapNode& node : map().nodes) asked.push_back({node.id, node.boot});
  }
  std::erase_if(asked, [this](const Member& each) { return each.is_same(self_); });
  return asked;
}

bool MapHistory::is_home(std::string_view path) const {
  const Seen& seen = now();
  if (seen.placement.is_empty()) return false;
  return member(seen.map.nodes[seen.placement.owner(path, 0)]).is_same(self_);
}

bool MapHistory::owns(const Seen& seen, std::string_view path) const {
  const std::vector<Member> all = owners(seen, path);
  return std::any_of(all.begin(), all.end(),
                     [this](const Member& each) { return each.is_same(self_); });
}

bool MapHistory::owns_from(std::string_view path, std::uint64_t epoch, std::size_t last) const {
  bool is_known = false;
  for (std::size_t at = last + 1; at-- > 0 && maps_[at]->map.epoch >= epoch;) {
    if (!owns(*maps_[at], path)) return false;
    is_known = maps_[at]->map.epoch == epoch;
  }
  return is_known;
}

bool MapHistory::is_owner_since(std::string_view path, std::uint64_t epoch) const {
  if (!is_kept(Rule::unbroken)) return owns(now(), path);
  return owns_from(path, epoch, maps_.size() - 1);
}

bool MapHistory::was_owner_since(std::string_view path, std::uint64_t epoch) const {
  if (!has_before()) return is_owner_since(path, epoch);
  if (!is_kept(Rule::unbroken)) return true;
  // Valid in the map in force is valid up to the one before, or from the one in force on.
  return owns_from(path, epoch, maps_.size() - 2) || (epoch == this->epoch() && owns(now(), path));
}

std::vector<Member> MapHistory::members() const {
  std::vector<Member> members;
  for (const wire::MapNode& node : map().nodes) {
    if (node.state != wire::NodeState::gone) members.push_back({node.id, node.boot});
  }
  return members;
}

std::vector<Member> MapHistory::members_before() const {
  std::vector<Member> members;
  if (!has_before()) return members;
  for (const wire::MapNode& node : maps_[maps_.size() - 2]->map.nodes) {
    if (node.state != wire::NodeState::gone) members.push_back({node.id, node.boot});
  }
  return members;
}

bool MapHistory::has_now(const Member& member) const {
  const std::vector<Member> all = members();
  return std::find(all.begin(), all.end(), member) != all.end();
}

bool MapHistory::has_expired(const Member& member) const {
  const auto& nodes = map().nodes;
  return std::any_of(nodes.begin(), nodes.end(), [&](const wire::MapNode& node) {
    return node.state == wire::NodeState::gone && node.left_by == wire::LeftBy::lease_expired &&
           Member{node.id, node.boot} == member;
  });
}

std::vector<Member> MapHistory::unsure_gone() const {
  std::vector<Member> members;
  for (const wire::MapNode& node : map().nodes) {
    if (node.state == wire::NodeState::gone && node.left_by != wire::LeftBy::lease_expired)
      members.push_back({node.id, node.boot});
  }
  return members;
}

}  // namespace gd2fs
