// I/O thread: one epoll loop that owns some sockets. What it owns is touched by no other thread.
//
// Others hand it work with `post`. Deadlines are kept by the watchers: each says when it wants to
// be asked next.
#pragma once

#include <sys/epoll.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "transport/tcp.h"

namespace gd2fs {

/// CLOCK_MONOTONIC in milliseconds: what deadlines are counted in.
std::int64_t now_ms() noexcept;

inline constexpr std::int64_t NEVER_MS = INT64_MAX;

class IoThread {
 public:
  class Watcher {
   public:
    virtual ~Watcher() = default;
    /// The descriptor is ready: bits of epoll.
    virtual void ready(std::uint32_t events) = 0;
    /// Ends what is overdue. Answers when it wants to be asked again.
    virtual std::int64_t tick(std::int64_t now) = 0;
  };

  IoThread();
  ~IoThread();  // as `stop`

  /// Any thread. Tasks run in order, between two rounds of events.
  void post(std::function<void()> task);
  /// Any thread. Runs at `at_ms`, or a little later.
  void post_at(std::int64_t at_ms, std::function<void()> task);
  /// Any thread. Runs all tasks of `post_at` now, and from here on at once.
  void hurry();
  /// Ends the loop after the tasks posted so far and joins it.
  void stop();

  // On this thread only.
  void enlist(Watcher& watcher) { watchers_.push_back(&watcher); }
  void watch(int fd, std::uint32_t events, Watcher& watcher);
  void rewatch(int fd, std::uint32_t events, Watcher& watcher);
  void forget(int fd);
  /// Ticks come at the latest at `at_ms`.
  void wake_at(std::int64_t at_ms) { next_tick_ = std::min(next_tick_, at_ms); }

 private:
  struct Timed {
    std::int64_t at_ms;
    std::function<void()> task;
  };

  void loop();
  int wait_ms();
  void run_posted();
  void run_timed(std::int64_t now);
  void tick_all(std::int64_t now);
  void ring() noexcept;

  tcp::Descriptor poll_;
  tcp::Descriptor bell_;  // eventfd
  std::mutex mutex_;  // Guards: posted_, timed_, is_hurried_, is_stopping_. Never held in a task.
  std::vector<std::function<void()>> posted_;
  std::vector<Timed> timed_;
  bool is_hurried_ = false;
  bool is_stopping_ = false;
  std::vector<Watcher*> watchers_;
  std::int64_t next_tick_ = NEVER_MS;
  std::thread thread_;
};

}  // namespace gd2fs
