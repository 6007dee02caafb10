// Threads that do one blocking call each: where io_uring is forbidden, as in many containers.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "io.h"
#include "waiting_line.h"

namespace gd2fs::disk {
namespace {

class ThreadIo final : public DiskIo {
 public:
  explicit ThreadIo(std::size_t depth) {
    for (std::size_t i = 0; i < depth; ++i) threads_.emplace_back([this] { loop(); });
  }
  ~ThreadIo() override {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    called_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void submit(IoRequest request) override {
    {
      const std::lock_guard lock(mutex_);
      line_.push(std::move(request));
    }
    called_.notify_one();
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      called_.wait(lock, [this] { return is_ending_ || !line_.is_empty(); });
      if (line_.is_empty()) return;
      IoRequest request = line_.pop();
      lock.unlock();
      request.done(carry_out(request));
      request = {};  // what it keeps alive goes without the lock
      lock.lock();
    }
  }

  std::mutex mutex_;  // Guards: the line and the end. Never held while a request is carried out.
  std::condition_variable called_;
  WaitingLine line_;
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<DiskIo> make_thread_io(std::size_t depth) {
  return std::make_unique<ThreadIo>(depth);
}

}  // namespace gd2fs::disk
