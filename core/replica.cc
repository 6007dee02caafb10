#include "replica.h"

#include "rules.h"

namespace gd2fs {

ReplicaAnswer judge(const Replication& attempt, const FileRecord* here, const RecordVersion& last,
                    std::uint64_t epoch) {
  if (attempt.epoch < epoch) return ReplicaAnswer::other_epoch;
  if (attempt.epoch > epoch) return ReplicaAnswer::not_yet;
  if (attempt.version == last) return ReplicaAnswer::accepted;
  if (attempt.version < last && is_kept(Rule::later_only)) return ReplicaAnswer::old_attempt;
  if (attempt.full != nullptr || attempt.change.is_whole()) return ReplicaAnswer::accepted;
  // The same version is the same record, also where it did not count for a while.
  const bool is_base = here != nullptr && here->version == attempt.base;
  return is_base && follows(here, attempt.change) ? ReplicaAnswer::accepted
                                                  : ReplicaAnswer::send_full;
}

}  // namespace gd2fs
