// Latch: waits until so many calls have come back, and keeps the first error of theirs.
//
// It has no deadline: the kernel still has the caller's memory until then.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace gd2fs::disk {

class Latch {
 public:
  explicit Latch(std::size_t count) : left_(count) {}

  void arrive(int error) {
    const std::lock_guard lock(mutex_);  // held while notifying: the waiter may end the latch then
    if (error != 0 && error_ == 0) error_ = error;
    if (--left_ == 0) called_.notify_all();
  }
  /// 0, or the errno of the first one that failed.
  int wait() {
    std::unique_lock lock(mutex_);
    called_.wait(lock, [this] { return left_ == 0; });
    return error_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable called_;
  std::size_t left_;
  int error_ = 0;
};

}  // namespace gd2fs::disk
