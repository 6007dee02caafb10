// GIL: gives the interpreter's lock to other threads, and knows for how long.
//
// What a thread's call takes less what it spent here is how long it kept all others waiting.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>

namespace gd2fs::bindings {

class GilReleased {
 public:
  GilReleased() = default;
  ~GilReleased() {
    take_back(state_);
    const auto taken = std::chrono::steady_clock::now() - start_;
    total_ns_ += static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(taken).count());
  }
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

  /// Of this thread, since it began: without the lock, or waiting for it.
  static std::uint64_t total_ns() { return total_ns_; }

 private:
  /// The interpreter that ends lets nobody in any more: it unwinds other threads from here, which
  /// no destructor allows. Such a thread stays, and ends with the process.
  static void take_back(PyThreadState* state) {
    try {
      PyEval_RestoreThread(state);
    } catch (...) {
      while (true) pause();
    }
  }

  inline static thread_local std::uint64_t total_ns_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  PyThreadState* state_ = PyEval_SaveThread();
};

}  // namespace gd2fs::bindings
