// Wanted blocks: what is asked of caches, and what they find of it when they are LRU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "sim/private_cache.h"

namespace gd2fs::testing {

/// Some often, most seldom.
inline std::vector<sim::Block> sequence(std::size_t length, double keys, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<sim::Block> wanted(length);
  for (sim::Block& each : wanted) {
    const double share = static_cast<double>(random() >> 11) * 0x1p-53;
    each = static_cast<sim::Block>(keys * share * share * share);
  }
  return wanted;
}

inline double share_found(const std::vector<sim::Block>& wanted, std::uint64_t capacity) {
  sim::PrivateCache cache(capacity);
  std::size_t hits = 0;
  for (const sim::Block block : wanted) {
    hits += cache.has(block) ? 1 : 0;
    cache.use(block);
  }
  return static_cast<double>(hits) / static_cast<double>(wanted.size());
}

}  // namespace gd2fs::testing
