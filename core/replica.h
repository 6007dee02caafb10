// Replica: what a backup does with a home's attempt to change a record (R7).
#pragma once

#include "replication.h"

namespace gd2fs {

/// `here`: the backup's record, or nullptr. `last`: the last attempt that it knows of. accepted: to
/// be done, unless it is `last` itself, which has come again.
ReplicaAnswer judge(const Replication& attempt, const FileRecord* here, const RecordVersion& last,
                    std::uint64_t epoch);

}  // namespace gd2fs
