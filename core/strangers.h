// Strangers: connections that have not proven themselves yet. How many of them one source may have,
// and all together, and how fast new ones may come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "limits.h"
#include "refusal.h"

namespace gd2fs::serve {

class Strangers {
 public:
  /// Nothing: it may come in, until `leave`. `now_ms`: of a clock that never falls.
  std::optional<Refusal> enter(const std::string& source, std::int64_t now_ms);
  /// Proven connections cost their source nothing: it gets its ticket back.
  void leave(const std::string& source, bool is_proven);
  std::size_t count() const;

 private:
  struct Source {
    std::size_t count = 0;
    double tickets = STRANGERS_BURST;
    std::int64_t told_ms = 0;  // when they were counted last
  };

  Source& source_of(const std::string& source, std::int64_t now_ms);
  void forget_idle();

  mutable std::mutex mutex_;  // Guards: all below. Held for one look-up, or a walk over all.
  std::unordered_map<std::string, Source> sources_;
  std::size_t count_ = 0;
};

}  // namespace gd2fs::serve
