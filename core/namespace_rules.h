// NamespaceRules: how a node treats what lies in one namespace. Set at its start, and at run time.
#pragma once

#include <cstdint>
#include <optional>

#include "limits.h"

namespace gd2fs {

enum class PolicyKind : std::uint8_t { lru = 0, s3_fifo = 1, priority = 2 };

/// When bytes go to disk. none: never. back: ahead of their eviction. through: when they are
/// published.
enum class Demote : std::uint8_t { none = 0, back = 1, through = 2 };

/// What becomes of the copy on disk once its bytes are in memory again: it stays, or it is struck.
enum class DiskKeep : std::uint8_t { inclusive = 0, exclusive = 1 };

struct NamespaceRules {
  PolicyKind policy = PolicyKind::lru;
  std::optional<Demote> demote;                          // nothing: as the node has it
  std::optional<DiskKeep> keep;                          // likewise
  std::uint64_t quota_bytes = 0;                         // of memory; 0: none
  std::uint64_t disk_quota_bytes = 0;                    // 0: none
  std::uint32_t ttl_s = 0;                               // of what comes without one; 0: none
  std::uint64_t pin_bytes_max = ~std::uint64_t{0};       // beside the node's own limit
  std::uint8_t eviction_class = EVICTION_CLASS_DEFAULT;  // 0 goes first, whatever its age

  friend bool operator==(const NamespaceRules&, const NamespaceRules&) = default;
};

}  // namespace gd2fs
