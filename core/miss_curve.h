// MissCurve: what LRU caches of all sizes would find, of one stream of look-ups, in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "found_by_size.h"
#include "reuse_stack.h"

namespace gd2fs {

class MissCurve {
 public:
  /// `samples_max`: keys that are followed at most. Another `seed` follows other keys.
  MissCurve(std::size_t samples_max, std::uint64_t seed) : seed_(seed), stack_(samples_max) {}

  /// Somebody asks for it: counts how far back its last use lies.
  void look(std::uint64_t key);
  /// It is the freshest of all from here on.
  void use(std::uint64_t key);

  /// The share of all looks that a cache of so many keys finds.
  double share_within(double keys) const noexcept;
  /// Of all keys, the share that is followed now.
  double sampled_share() const noexcept { return stack_.sampled_share(); }
  std::size_t samples() const noexcept { return stack_.keys(); }

 private:
  static constexpr double STEPS_PER_OCTAVE = 64;

  std::uint64_t place_of(std::uint64_t key) const noexcept;

  const std::uint64_t seed_;
  ReuseStack stack_;
  FoundBySize found_{STEPS_PER_OCTAVE};
  double looks_ = 0, weighed_ = 0;
};

}  // namespace gd2fs
