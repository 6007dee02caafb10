// Slow: requests that took longer than they should, until whoever runs the node asks for them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "client.h"

namespace gd2fs::serve {

inline constexpr std::uint32_t SLOW_MS = 1'000;        // a request that takes longer is told
inline constexpr std::size_t SLOW_REQUESTS_MAX = 256;  // of these, until somebody asks

struct SlowRequest {
  std::string_view op;
  Transport transport = Transport::tcp;
  std::uint64_t took_us = 0;
  std::uint64_t trace = 0;  // of whoever asked; 0: none
};

class SlowRequests {
 public:
  struct Taken {
    std::vector<SlowRequest> requests;
    std::uint64_t untold = 0;  // there was no room for these
  };

  void set_limit(std::uint32_t limit_ms) noexcept {
    limit_ns_.store(limit_ms * NS_PER_MS, std::memory_order_relaxed);
  }
  bool is_slow(std::uint64_t took_ns) const noexcept {
    return took_ns >= limit_ns_.load(std::memory_order_relaxed);
  }
  void note(const SlowRequest& request) {
    const std::lock_guard lock(mutex_);
    if (waiting_.requests.size() < SLOW_REQUESTS_MAX) {
      waiting_.requests.push_back(request);
    } else {
      ++waiting_.untold;
    }
  }
  Taken take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(waiting_, {});
  }

 private:
  static constexpr std::uint64_t NS_PER_MS = 1'000'000;
  std::atomic<std::uint64_t> limit_ns_{SLOW_MS * NS_PER_MS};
  std::mutex mutex_;  // Guards: waiting_. Taken for slow requests alone.
  Taken waiting_;
};

}  // namespace gd2fs::serve
