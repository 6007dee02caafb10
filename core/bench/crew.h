// Crew: threads that wait for work, so that a measured transfer does not pay for starting them.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace gd2fs::bench {

class Crew {
 public:
  /// `size` members, the thread that calls `run` among them.
  explicit Crew(std::size_t size) {
    for (std::size_t index = 1; index < size; ++index)
      threads_.emplace_back([this, index] { serve(index); });
  }
  ~Crew() {
    {
      std::lock_guard guard(lock_);
      is_ended_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  std::size_t size() const { return threads_.size() + 1; }

  /// Calls `work(index)` for the first `members` indexes, each in a thread of its own, and waits.
  void run(std::size_t members, const std::function<void(std::size_t)>& work) {
    {
      std::lock_guard guard(lock_);
      work_ = &work;
      members_ = members;
      left_ = members - 1;
      ++round_;
    }
    if (members > 1) wake_.notify_all();
    work(0);
    std::unique_lock guard(lock_);
    done_.wait(guard, [&] { return left_ == 0; });
  }

 private:
  void serve(std::size_t index) {
    std::size_t seen = 0;
    std::unique_lock guard(lock_);
    while (true) {
      wake_.wait(guard, [&] { return is_ended_ || round_ != seen; });
      if (is_ended_) return;
      seen = round_;
      if (index >= members_) continue;
      const auto* work = work_;
      guard.unlock();
      (*work)(index);
      guard.lock();
      if (--left_ == 0) done_.notify_one();
    }
  }

  std::mutex lock_;  // Guards: all below but threads_. Never held while working.
  std::condition_variable wake_, done_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::size_t round_ = 0, members_ = 0, left_ = 0;
  bool is_ended_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace gd2fs::bench
