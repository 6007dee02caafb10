// Pace: how quickly one node has answered lately, and how much is asked of it now. Kept apart for
// requests of like size.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

#include "limits.h"

namespace gd2fs {

/// A clock that only goes on, in microseconds.
std::int64_t now_us() noexcept;

class Pace {
 public:
  /// Any thread. A request for so many bytes is on its way; it has ended.
  void begin(std::uint64_t bytes) noexcept { bytes_in_flight_.fetch_add(bytes + REQUEST_BYTES); }
  void end(std::uint64_t bytes) noexcept { bytes_in_flight_.fetch_sub(bytes + REQUEST_BYTES); }
  /// It was answered, after so long.
  void answered(std::uint64_t bytes, std::int64_t took_us);
  /// Another process answers there by now: what the last one did means nothing.
  void forget();

  std::uint64_t bytes_in_flight() const noexcept { return bytes_in_flight_.load(); }
  /// Smoothed, of answers of that size. It halves with every few seconds without one, so that who
  /// was slow once is tried again. 0: not known.
  std::int64_t answer_us(std::uint64_t bytes, std::int64_t now) const noexcept;
  /// What all but one in a hundred took at most. Nothing: too few of that size are known.
  std::optional<std::int64_t> slow_us(std::uint64_t bytes) const noexcept;

 private:
  static constexpr std::uint64_t REQUEST_BYTES = 4 * KiB;  // what a request costs beside its bytes
  static constexpr std::size_t RECENT = 128;
  static constexpr std::size_t ENOUGH = 64;  // of answers, to know which are slow
  static constexpr std::size_t SORTED_EVERY = 16;

  struct Size {
    std::array<std::int64_t, RECENT> recent{};
    std::size_t count = 0;
    std::atomic<std::int64_t> smooth_us{0};
    std::atomic<std::int64_t> last_us{0};
    std::atomic<std::int64_t> slow_us{0};  // 0: not known yet
  };

  static std::size_t size_of(std::uint64_t bytes) noexcept {
    return bytes <= 64 * KiB ? 0 : bytes <= 1 * MiB ? 1 : 2;
  }
  static std::int64_t slowest_of(const Size& size);

  std::atomic<std::uint64_t> bytes_in_flight_{0};
  std::mutex mutex_;  // Guards: recent and count of all sizes. Held for one note.
  std::array<Size, 3> sizes_;
};

}  // namespace gd2fs
