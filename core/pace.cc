#include "pace.h"

#include <chrono>

namespace gd2fs {

namespace {

constexpr std::int64_t HALVES_US = 4'000'000;
constexpr int HALVES_MAX = 40;

}  // namespace

std::int64_t now_us() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

void Pace::answered(std::uint64_t bytes, std::int64_t took_us) {
  const std::lock_guard lock(mutex_);
  Size& size = sizes_[size_of(bytes)];
  size.recent[size.count++ % RECENT] = took_us;
  const std::int64_t smooth = size.smooth_us.load();
  size.smooth_us.store(smooth == 0 ? took_us : smooth + (took_us - smooth) / 8);
  size.last_us.store(now_us());
  if (size.count >= ENOUGH && size.count % SORTED_EVERY == 0) size.slow_us.store(slowest_of(size));
}

void Pace::forget() {
  const std::lock_guard lock(mutex_);
  for (Size& size : sizes_) {
    size.count = 0;
    size.smooth_us.store(0);
    size.slow_us.store(0);
  }
}

std::int64_t Pace::slowest_of(const Size& size) {
  std::array<std::int64_t, RECENT> sorted = size.recent;
  const std::size_t count = std::min(size.count, RECENT);
  const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(count - 1 - count / 100);
  std::nth_element(sorted.begin(), at, sorted.begin() + static_cast<std::ptrdiff_t>(count));
  return std::max<std::int64_t>(*at, 1);
}

std::int64_t Pace::answer_us(std::uint64_t bytes, std::int64_t now) const noexcept {
  const Size& size = sizes_[size_of(bytes)];
  const std::int64_t quiet_us = std::max<std::int64_t>(now - size.last_us.load(), 0);
  return size.smooth_us.load() >> std::min<std::int64_t>(quiet_us / HALVES_US, HALVES_MAX);
}

std::optional<std::int64_t> Pace::slow_us(std::uint64_t bytes) const noexcept {
  const std::int64_t slow = sizes_[size_of(bytes)].slow_us.load();
  return slow == 0 ? std::nullopt : std::optional(slow);
}

}  // namespace gd2fs
