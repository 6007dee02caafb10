// Peer tally: what a node has asked of the others, and what came of it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace gd2fs::serve {

struct PeerCounts {
  std::string name;
  bool is_up = false;
  std::uint64_t requests = 0, failures = 0;
  std::uint64_t sent_bytes = 0;             // of cache, that it took
  std::uint64_t answered = 0, took_us = 0;  // of these, how long they all took
};

/// Of one other node. Any thread.
class PeerTally {
 public:
  void ended(bool is_answered, std::uint64_t sent_bytes, std::uint64_t took_us) noexcept {
    add(requests_, 1);
    if (!is_answered) return add(failures_, 1);
    add(sent_bytes_, sent_bytes);
    add(took_us_, took_us);
  }
  /// All but its name and whether it is up.
  PeerCounts counts() const noexcept {
    PeerCounts now;
    now.requests = requests_.load(std::memory_order_relaxed);
    now.failures = failures_.load(std::memory_order_relaxed);
    now.sent_bytes = sent_bytes_.load(std::memory_order_relaxed);
    now.took_us = took_us_.load(std::memory_order_relaxed);
    now.answered = now.requests - std::min(now.failures, now.requests);
    return now;
  }

 private:
  static void add(std::atomic<std::uint64_t>& count, std::uint64_t by) noexcept {
    count.fetch_add(by, std::memory_order_relaxed);
  }
  std::atomic<std::uint64_t> requests_{0}, failures_{0}, sent_bytes_{0}, took_us_{0};
};
using PeerTallyRef = std::shared_ptr<PeerTally>;

}  // namespace gd2fs::serve
