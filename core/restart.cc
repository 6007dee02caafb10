#include "restart.h"

#include <unistd.h>

#include <limits>

#include "node.h"

namespace gd2fs::serve {
namespace {

/// In the folder of the node's state, or on its disk, or beside a kept arena: on hugetlbfs nothing
/// can be written but memory. Empty: there is no place.
std::string log_path(const Node& node) {
  if (!node.options.state_dir.empty()) return node.options.state_dir + "/records";
  const auto& places = node.options.store.tier.disk.places;
  if (!places.empty()) return places.front().folder + "/records";
  const Arena& arena = node.store->arena();
  if (arena.rung() != Rung::file || arena.has_huge_pages()) return "";
  return node.options.store.arena.path + ".records";
}

LogOwner owner_of(const Node& node) {
  LogOwner owner;
  owner.cluster = node.options.cluster;
  owner.node = node.options.name;
  owner.list_hash = node.options.map.list_hash;
  owner.machine = node.options.store.machine;
  return owner;
}

/// Pieces whose writers went with the former process. Where this node is their home it knows
/// whether they count; of the others the janitor asks.
void settle_staged(Node& node) {
  for (const Store::StagedName& each :
       node.store->staged_before(boottime_ms(), std::numeric_limits<std::size_t>::max())) {
    std::uint32_t home = 0;
    std::uint64_t seq = 0;
    if (!node.is_home(each.name, home)) continue;
    const Status status = node.records.is_listed(each.name, each.chunk, each.tag, seq);
    if (status == Status::ok) node.store->publish(each.name, each.chunk, each.tag, seq);
    if (status == Status::miss)
      node.store->drop_piece(each.name, each.chunk, each.tag, Cause::unlisted);
  }
}

/// Those of the former process, and a log for the next one.
Result<bool> take_log(Node& node, RecordRecovery& recovery) {
  const std::string path = log_path(node);
  if (path.empty()) {
    recovery.fault = "there is no place for them";
    return true;
  }
  if (node.options.map.provider != wire::Provider::fixed) {
    ::unlink(path.c_str());
    recovery.fault = "other nodes have them";
    return true;
  }
  node.record_log = std::make_unique<RecordLog>(path, owner_of(node));
  recovery = node.records.restore(*node.record_log);
  recovery.is_kept = true;
  auto used = node.records.use_log(*node.record_log);
  // Nobody asked for this place, and nothing is there that a later start could take for new.
  const bool is_optional = node.options.state_dir.empty() && ::access(path.c_str(), F_OK) != 0;
  if (used || !is_optional) return used;
  node.records.leave_log();
  node.record_log = nullptr;
  recovery = {};
  recovery.fault = used.error().message;
  return true;
}

}  // namespace

Result<bool> restore_records(Node& node, RecordRecovery& recovery) {
  auto taken = take_log(node, recovery);
  if (taken && node.options.map.provider == wire::Provider::fixed) settle_staged(node);
  return taken;
}

}  // namespace gd2fs::serve
