// Histogram: how long things took, in buckets that are the same everywhere.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gd2fs {

/// A number that one thread counts and any thread reads: no locked instruction on its way.
class Count {
 public:
  void add(std::uint64_t by = 1) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }
  std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// One thread adds, any thread sums. Two sums may differ by what came between them.
class Histogram {
 public:
  /// Upper bounds in microseconds, the bound itself included; what took longer comes behind them.
  static constexpr std::array<std::uint64_t, 17> BOUNDS_US = {
      50,     100,     250,     500,     1'000,     2'500,     5'000,     10'000,    25'000,
      50'000, 100'000, 250'000, 500'000, 1'000'000, 2'500'000, 5'000'000, 10'000'000};
  static constexpr std::size_t BUCKETS = BOUNDS_US.size() + 1;

  struct Sum {
    std::array<std::uint64_t, BUCKETS> counts{};
    std::uint64_t took_ns = 0;
    bool is_empty() const noexcept {
      return std::all_of(counts.begin(), counts.end(), [](auto each) { return each == 0; });
    }
  };

  void add(std::uint64_t took_ns) noexcept {
    const std::uint64_t took_us = (took_ns + 999) / 1000;
    std::size_t bucket = 0;
    while (bucket < BOUNDS_US.size() && took_us > BOUNDS_US[bucket]) ++bucket;
    counts_[bucket].add();
    took_ns_.add(took_ns);
  }

  void add_to(Sum& sum) const noexcept {
    for (std::size_t at = 0; at < BUCKETS; ++at) sum.counts[at] += counts_[at].get();
    sum.took_ns += took_ns_.get();
  }

 private:
  std::array<Count, BUCKETS> counts_;
  Count took_ns_;
};

}  // namespace gd2fs
