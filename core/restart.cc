#include "restart.h"

#include <unistd.h>

#include "node.h"

namespace gd2fs::serve {
namespace {

/// In the folder of the node's state, or beside a kept arena: on hugetlbfs nothing can be written
/// but memory. Empty: there is no place.
std::string log_path(const Node& node) {
  if (!node.options.state_dir.empty()) return node.options.state_dir + "/records";
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

}  // namespace

Result<bool> restore_records(Node& node, RecordRecovery& recovery) {
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
  return node.records.use_log(*node.record_log);
}

}  // namespace gd2fs::serve
