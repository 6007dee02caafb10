// MissCurve: what LRU caches of all sizes would find, of one stream of look-ups, in bounded memory.
//
// Spatial sampling (SHARDS, Waldspurger et al., FAST 2015): only keys whose hash lies below a
// threshold are followed; it falls when they become too many. How many other keys were used since a
// key's last use, divided by the sampled share, is the size of the cache that would have it still.
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <unordered_map>
#include <vector>

namespace gd2fs {

class MissCurve {
 public:
  /// `samples_max`: keys that are followed at most, two at least; about 100 bytes each. Another
  /// `seed` follows other keys.
  MissCurve(std::size_t samples_max, std::uint64_t seed);

  /// Somebody asks for it: counts how far back its last use lies.
  void look(std::uint64_t key);
  /// It is the freshest of all from here on.
  void use(std::uint64_t key);

  /// The share of all looks that a cache of so many keys finds.
  double share_within(double keys) const noexcept;
  /// Of all keys, the share that is followed now.
  double sampled_share() const noexcept;
  std::size_t samples() const noexcept { return slot_of_.size(); }

 private:
  static constexpr double STEPS_PER_OCTAVE = 64;

  std::uint64_t place_of(std::uint64_t key) const noexcept;
  double used_since(std::size_t slot) const noexcept;
  void add(std::size_t slot, std::int32_t count) noexcept;
  void follow_fewer();
  void renumber();

  const std::size_t samples_max_;
  const std::uint64_t seed_;
  std::uint64_t threshold_ = ~std::uint64_t{0};
  std::unordered_map<std::uint64_t, std::size_t> slot_of_;  // place -> when it was used last
  std::priority_queue<std::uint64_t> places_;               // the one to go next first
  std::vector<std::int32_t> tree_;  // Fenwick: how many last uses lie in slots up to one
  std::size_t next_slot_ = 1;
  std::vector<double> found_;  // by steps of distance
  double looks_ = 0, weighed_ = 0;
};

}  // namespace gd2fs
