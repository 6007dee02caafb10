#include "operation.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cassert>
#include <chrono>

namespace gd2fs {

CompletionQueue::CompletionQueue() : bell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

void CompletionQueue::push(OperationRef operation) {
  const std::lock_guard lock(mutex_);
  finished_.push_back(std::move(operation));
  const std::uint64_t one = 1;
  if (finished_.size() == 1) static_cast<void>(!write(bell_.get(), &one, sizeof one));
}

std::vector<OperationRef> CompletionQueue::take(std::size_t count_max) {
  const std::lock_guard lock(mutex_);
  std::vector<OperationRef> taken;
  while (taken.size() < count_max && !finished_.empty()) {
    taken.push_back(std::move(finished_.front()));
    finished_.pop_front();
  }
  std::uint64_t rings;
  if (finished_.empty()) static_cast<void>(!read(bell_.get(), &rings, sizeof rings));
  return taken;
}

OperationState::OperationState(const CallOptions& options, std::shared_ptr<CompletionQueue> queue,
                               std::function<void(std::shared_ptr<OperationState>)> canceller)
    : cookie_(options.cookie),
      is_announced_(options.is_announced),
      queue_(std::move(queue)),
      canceller_(std::move(canceller)) {}

bool OperationState::wait(std::int64_t timeout_ms) {
  if (is_done()) return true;
  std::unique_lock lock(mutex_);
  const auto is_over = [this] { return is_done(); };
  if (timeout_ms < 0) {
    done_.wait(lock, is_over);
    return true;
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  return done_.wait_until(lock, until, is_over);
}

void OperationState::cancel() {
  if (is_done() || is_cancelled_.exchange(true)) return;
  canceller_(shared_from_this());
}

void OperationState::finish(Outcome outcome) {
  assert(!is_done());
  outcome_ = std::move(outcome);
  const std::lock_guard lock(mutex_);
  is_done_.store(true, std::memory_order_release);
  if (is_announced_) queue_->push(shared_from_this());  // done before it can be taken
  done_.notify_all();
}

}  // namespace gd2fs
