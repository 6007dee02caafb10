// Rules: what keeps records right, by name, so that a build of its own can break one and a test can
// see that it is missed.
//
// R1 to R8 are told in docs/decisions/0018-records-of-files.md. In every ordinary build all of them
// hold, and asking costs nothing. Three can be broken in nodes of a build with planted faults.
#pragma once

#include <cstdint>

#include "planted.h"

namespace gd2fs {

enum class Rule : std::uint8_t {
  lease,        // R2: answers only while the node's lease lives
  unbroken,     // R3: a record counts only over an unbroken run of maps as owner
  tombstone,    // R4: an unlink is remembered for its epoch
  barrier,      // R5: no mutation before everyone has left the map before
  backups,      // R7: a mutation is on all owners before it is acknowledged
  new_version,  // R7: an attempt's version is never used again
  later_only,   // R7: a backup takes no attempt that is older than the one it has
  recheck,      // epoch and lease are looked at once more before a mutation's answer
  overlap,      // a commit that has not seen a later overlapping one is refused
  generation,   // a commit to a file that was made anew is refused
};

#ifdef GD2FS_BREAKABLE_RULES
/// What the test build breaks: a bit per rule.
extern std::uint32_t broken_rules;
inline bool is_kept(Rule rule) { return (broken_rules >> static_cast<unsigned>(rule) & 1u) == 0; }
#else
inline bool is_kept(Rule rule) {
  switch (rule) {
    case Rule::barrier: return !is_planted("no_barrier");
    case Rule::new_version: return !is_planted("reuse_version");
    case Rule::unbroken: return !is_planted("trust_restored_record");
    default: return true;
  }
}
#endif

}  // namespace gd2fs
