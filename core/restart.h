// Restart: what a node finds of its own former process, and where it keeps what the next one finds.
#pragma once

#include <string>

#include "error.h"
#include "reattachment.h"
#include "record_log_format.h"

namespace gd2fs {

/// What was there when a node started.
struct Recovery {
  ArenaRecovery arena;
  RecordRecovery records;
};

namespace serve {

struct Node;

/// Takes over the records of the former process and begins a log for the next one, where a node
/// has a place for it. Before anyone is served. Only under a list of nodes that never changes: else
/// records come from those who have had them meanwhile, and a log that was left is removed.
Result<bool> restore_records(Node& node, RecordRecovery& recovery);

}  // namespace serve
}  // namespace gd2fs
