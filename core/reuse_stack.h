// ReuseStack: how large an LRU cache has to be to have a key still, of a sample of keys in bounded
// memory.
//
// Spatial sampling (SHARDS, Waldspurger et al., FAST 2015): only keys whose place, a number that is
// spread evenly, lies below a threshold are followed; it falls when they become too many. What else
// was used since a key's last use, divided by the sampled share, and the key itself: the cache that
// would have it still.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <unordered_map>
#include <vector>

namespace gd2fs {

class ReuseStack {
 public:
  /// `keys_max`: that are followed at most, two at least; about 128 bytes each.
  explicit ReuseStack(std::size_t keys_max);

  bool follows(std::uint64_t place) const noexcept { return place <= threshold_; }
  /// Of a key that is followed: how large a cache has it still, in units of sizes. Nothing: it was
  /// not used before, as far as is known.
  std::optional<double> needed(std::uint64_t place) const;
  /// A key that is followed is the freshest of all from here on.
  void use(std::uint64_t place, std::uint32_t size);

  /// Of all keys, the share that is followed now.
  double sampled_share() const noexcept;
  std::size_t keys() const noexcept { return entry_of_.size(); }
  /// Follows about half as many from now on.
  void halve();
  std::uint64_t threshold() const noexcept { return threshold_; }

 private:
  struct Entry {
    std::size_t slot = 0;    // when it was used last
    std::uint32_t size = 0;  // then
  };

  std::int64_t used_since(std::size_t slot) const noexcept;
  void add(std::size_t slot, std::int64_t size) noexcept;
  void forget_highest();
  void renumber();

  const std::size_t keys_max_;
  std::uint64_t threshold_ = ~std::uint64_t{0};
  std::unordered_map<std::uint64_t, Entry> entry_of_;  // by place
  std::priority_queue<std::uint64_t> places_;          // the one to go next first
  std::vector<std::int64_t> tree_;  // Fenwick: the sizes of last uses in slots up to one
  std::int64_t total_ = 0;          // of all sizes
  std::size_t next_slot_ = 1;
};

}  // namespace gd2fs
