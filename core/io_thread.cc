#include "io_thread.h"

#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>

namespace gd2fs {

namespace {

constexpr int EVENTS_MAX = 64;  // taken from the kernel at once
constexpr int WAIT_MS_MAX = 60'000;

thread_local const IoThread* current = nullptr;  // the one whose loop runs here

}  // namespace

std::int64_t now_ms() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

IoThread::IoThread()
    : poll_(epoll_create1(EPOLL_CLOEXEC)), bell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;  // the bell: no watcher
  epoll_ctl(poll_.get(), EPOLL_CTL_ADD, bell_.get(), &event);
  thread_ = std::thread([this] { loop(); });
}

IoThread::~IoThread() { stop(); }

void IoThread::ring() noexcept {
  const std::uint64_t one = 1;
  // A full counter is a bell that rings already.
  static_cast<void>(!write(bell_.get(), &one, sizeof one));
}

void IoThread::post(std::function<void()> task) {
  bool is_first;
  {
    const std::lock_guard lock(mutex_);
    is_first = posted_.empty();
    posted_.push_back(std::move(task));
  }
  if (is_first && current != this) ring();  // its own loop looks before it sleeps
}

void IoThread::post_at(std::int64_t at_ms, std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    timed_.push_back({at_ms, std::move(task)});
  }
  ring();
}

void IoThread::hurry() {
  {
    const std::lock_guard lock(mutex_);
    is_hurried_ = true;
  }
  ring();
}

void IoThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  ring();
  if (thread_.joinable()) thread_.join();
}

void IoThread::watch(int fd, std::uint32_t events, Watcher& watcher) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = &watcher;
  epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void IoThread::rewatch(int fd, std::uint32_t events, Watcher& watcher) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = &watcher;
  epoll_ctl(poll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void IoThread::forget(int fd) { epoll_ctl(poll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

void IoThread::loop() {
  current = this;
  std::array<epoll_event, EVENTS_MAX> events;
  while (true) {
    const int wait = wait_ms();
    if (wait < 0) return;
    const int count = epoll_wait(poll_.get(), events.data(), EVENTS_MAX, wait);
    for (int at = 0; at < count; ++at) {
      const epoll_event& event = events[static_cast<std::size_t>(at)];
      if (event.data.ptr != nullptr) {
        static_cast<Watcher*>(event.data.ptr)->ready(event.events);
      } else {
        std::uint64_t rings;
        static_cast<void>(!read(bell_.get(), &rings, sizeof rings));
      }
    }
    run_posted();
    const std::int64_t now = now_ms();
    run_timed(now);
    if (now >= next_tick_) tick_all(now);
  }
}

/// How long to sleep; < 0: the end.
int IoThread::wait_ms() {
  const std::lock_guard lock(mutex_);
  if (!posted_.empty()) return 0;
  if (is_stopping_) return -1;
  std::int64_t until = next_tick_;
  for (const Timed& timed : timed_) until = std::min(until, is_hurried_ ? 0 : timed.at_ms);
  if (until == NEVER_MS) return WAIT_MS_MAX;
  return static_cast<int>(std::clamp<std::int64_t>(until - now_ms(), 0, WAIT_MS_MAX));
}

void IoThread::run_posted() {
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(posted_);
  }
  for (const std::function<void()>& task : tasks) task();
}

void IoThread::run_timed(std::int64_t now) {
  std::vector<Timed> due;
  {
    const std::lock_guard lock(mutex_);
    const auto is_waiting = [&](const Timed& timed) { return !is_hurried_ && timed.at_ms > now; };
    const auto middle = std::partition(timed_.begin(), timed_.end(), is_waiting);
    due.assign(std::make_move_iterator(middle), std::make_move_iterator(timed_.end()));
    timed_.erase(middle, timed_.end());
  }
  for (const Timed& timed : due) timed.task();
}

void IoThread::tick_all(std::int64_t now) {
  next_tick_ = NEVER_MS;
  for (Watcher* watcher : watchers_) wake_at(watcher->tick(now));
}

}  // namespace gd2fs
