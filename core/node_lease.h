// Node lease: until when a node may speak about records (R2). A static list has none: always.
#pragma once

#include <atomic>
#include <cstdint>

#include "rules.h"

namespace gd2fs {

class NodeLease {
 public:
  explicit NodeLease(bool is_needed) : is_needed_(is_needed) {}

  /// CLOCK_BOOTTIME, ms. 0: fenced.
  void set(std::int64_t until_ms) { until_ms_.store(until_ms, std::memory_order_release); }
  bool is_good(std::int64_t now_ms) const {
    return !is_needed_ || !is_kept(Rule::lease) ||
           now_ms < until_ms_.load(std::memory_order_acquire);
  }

 private:
  const bool is_needed_;
  std::atomic<std::int64_t> until_ms_{0};
};

}  // namespace gd2fs
