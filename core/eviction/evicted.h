// Evicted: how much went for lack of room, by the policy that chose it.
#pragma once

#include <array>
#include <cstdint>

#include "policies.h"

namespace gd2fs {

struct EvictedCounts {
  std::uint64_t pieces = 0, bytes = 0;
};
/// Of each policy: for want of memory, and over a quota.
using EvictedByPolicy = std::array<std::array<EvictedCounts, 2>, POLICIES>;

}  // namespace gd2fs
