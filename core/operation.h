// Operation: one call in progress, and the queue of finished ones that announces itself by a
// descriptor.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

#include "client.h"
#include "transport/tcp.h"

namespace gd2fs {

class OperationState;

inline Outcome outcome_of(Status status) {
  Outcome outcome;
  outcome.status = status;
  return outcome;
}

/// Finished announced operations, oldest first. The descriptor is readable while there are any.
class CompletionQueue {
 public:
  CompletionQueue();
  void push(OperationRef operation);
  std::vector<OperationRef> take(std::size_t count_max);
  int descriptor() const noexcept { return bell_.get(); }

 private:
  std::mutex mutex_;  // Guards: finished_ and whether the bell rings.
  std::deque<OperationRef> finished_;
  tcp::Descriptor bell_;
};

class OperationState : public Operation, public std::enable_shared_from_this<OperationState> {
 public:
  /// `canceller` is called at most once, and not after the end.
  OperationState(const CallOptions& options, std::shared_ptr<CompletionQueue> queue,
                 std::function<void(std::shared_ptr<OperationState>)> canceller);

  bool is_done() const override { return is_done_.load(std::memory_order_acquire); }
  bool wait(std::int64_t timeout_ms) override;
  const Outcome& outcome() const override { return outcome_; }
  void cancel() override;
  std::uint64_t cookie() const override { return cookie_; }
  std::uint64_t progress() const override { return progress_.load(std::memory_order_relaxed); }
  void note_progress(std::uint64_t bytes) noexcept {
    progress_.fetch_add(bytes, std::memory_order_relaxed);
  }

  bool is_cancelled() const noexcept { return is_cancelled_.load(); }
  /// Exactly once. From here on nothing of the client touches the caller's memory.
  void finish(Outcome outcome);

 private:
  const std::uint64_t cookie_;
  const bool is_announced_;
  std::shared_ptr<CompletionQueue> queue_;
  std::function<void(std::shared_ptr<OperationState>)> canceller_;
  std::atomic<bool> is_cancelled_{false};
  std::atomic<std::uint64_t> progress_{0};
  std::atomic<bool> is_done_{false};  // outcome_ is written before, read after
  std::mutex mutex_;                  // Guards: the step to done, for those who wait.
  std::condition_variable done_;
  Outcome outcome_;
};

}  // namespace gd2fs
