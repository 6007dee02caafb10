// Judge: what a site's own rule says about bytes to come. Offers wait here, lot by lot, until
// whoever runs the node has asked its rule; no lock is held meanwhile, and none of the node's
// threads waits.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "limits.h"

namespace gd2fs {

/// One page or piece that is offered.
struct Case {
  std::string name;  // as on the wire
  bool is_page = false;
  std::uint64_t bytes = 0;
  std::uint32_t ttl_s = 0;                         // as its writer wants it; 0: none
  std::uint8_t eviction_class = EVICTION_CLASSES;  // likewise; that one: as the namespace has
};

/// What is not set stays as the writer or the namespace has it.
struct Verdict {
  bool is_admitted = true;
  std::optional<std::uint32_t> ttl_s;
  std::optional<std::uint8_t> eviction_class;
};

class Judge {
 public:
  /// As many verdicts as there were cases; none: all stays as it is.
  using OnVerdicts = std::function<void(std::vector<Verdict>)>;
  struct Lot {
    std::uint64_t number = 0;
    std::string tags;  // of the caller, as it wrote them
    std::vector<Case> cases;
  };

  /// Is there a rule? Else nobody needs to ask.
  bool is_sitting() const noexcept { return is_sitting_.load(std::memory_order_relaxed); }
  /// From the start on: before anything is offered.
  void sit() noexcept { is_sitting_ = true; }

  /// `on_verdicts` runs once: on the judging thread, on the one that closes, or here when too many
  /// lots wait.
  void ask(std::string tags, std::vector<Case> cases, OnVerdicts on_verdicts);
  /// All that waits, up to `cases_max` and one lot at least; nothing within `timeout_ms`: empty.
  std::vector<Lot> take(std::int64_t timeout_ms, std::size_t cases_max);
  void answer(std::uint64_t number, std::vector<Verdict> verdicts);
  void close();

 private:
  std::atomic<bool> is_sitting_{false};
  std::mutex mutex_;  // Guards: all below. Held for look-ups.
  std::condition_variable asked_;
  bool is_closed_ = false;
  std::uint64_t last_ = 0;
  std::deque<Lot> waiting_;
  std::map<std::uint64_t, OnVerdicts> open_;
};

}  // namespace gd2fs
