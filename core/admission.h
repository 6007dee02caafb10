// Admission: may a node answer a request about records at all? Looked at once the request has come.
#pragma once

#include <cstdint>

#include "error.h"
#include "map_history.h"
#include "node_lease.h"

namespace gd2fs {

/// ok, or what every item of the request answers. `epoch`: of the map by which it was sent here.
inline Status admit(const MapHistory& history, const NodeLease& lease, std::uint64_t epoch,
                    std::int64_t now_ms) {
  if (!history.is_static() && epoch < history.epoch()) return Status::stale_map;
  if (!history.is_static() && epoch > history.epoch()) return Status::retry;
  return lease.is_good(now_ms) ? Status::ok : Status::fenced;
}

}  // namespace gd2fs
