// Account: in which state the grains of the arena are. Each is in exactly one; the sum is always
// the arena.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace gd2fs {

enum class Use : std::uint8_t {
  free = 0,
  filling = 1,
  staged = 2,
  live = 3,
  zombie = 4,
  records = 5,
  loading = 6,  // half-read from disk
};

class Account {
 public:
  static constexpr std::size_t USES = 7;
  using Sums = std::array<std::uint64_t, USES>;  // bytes, by Use

  /// All of it is free at first. At most `filling_max` may be half-written at a time, and as much
  /// half-read from disk.
  Account(std::uint64_t arena_bytes, std::uint64_t filling_max);

  void move(Use from, Use to, std::uint64_t bytes);
  /// Takes free bytes for records; false when fewer are free.
  bool try_records(std::uint64_t bytes);

  enum class Verdict : std::uint8_t { admitted, busy, short_of_bytes, too_large };
  struct Admission {
    Verdict verdict = Verdict::busy;
    std::uint64_t free_bytes = 0;  // afterwards
  };
  /// Moves free bytes to filling, or to loading, when the limit of those allows it. A single piece
  /// is admitted whenever there is no other.
  Admission admit(std::uint64_t bytes, Use use = Use::filling);

  /// Of one moment.
  Sums sums() const;
  std::uint64_t used_bytes() const;  // all but free

 private:
  std::uint64_t& of(Use use) { return sums_[static_cast<std::size_t>(use)]; }

  const std::uint64_t arena_bytes_;
  const std::uint64_t filling_max_;
  // Guards: the sums. The innermost lock: nothing else is taken under it.
  mutable std::mutex mutex_;
  Sums sums_{};
};

}  // namespace gd2fs
