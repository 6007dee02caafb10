// Balancer: which instance gets a request.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "trace.h"

namespace gd2fs::sim {

inline constexpr std::uint32_t INSTANCES_MAX = 16'384;

enum class Balance : std::uint8_t { round_robin, random, least_loaded, sticky, cache_aware };

class Balancer {
 public:
  Balancer(Balance kind, std::uint32_t instances, std::uint64_t seed, std::uint32_t block_count);

  /// `active`: the first so many instances take requests.
  std::uint32_t choose(const Trace& trace, Request request, std::uint32_t active);
  void note_end(std::uint32_t instance) noexcept { --outstanding_[instance]; }

 private:
  std::uint32_t least_loaded(std::uint32_t active) noexcept;
  std::uint32_t cache_aware(const Trace& trace, Request request, std::uint32_t active);
  bool is_uneven(std::uint32_t active) const noexcept;

  static constexpr std::uint16_t NOBODY = 0xFFFF;

  const Balance kind_;
  std::mt19937_64 random_;
  std::uint32_t turn_ = 0;
  std::vector<std::uint32_t> outstanding_;  // of each instance
  std::vector<std::uint16_t> served_by_;    // of each block: who has had it last
};

}  // namespace gd2fs::sim
