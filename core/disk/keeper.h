// Keeper: the thread of one place that may take its time. It makes segments ready before they are
// wanted, seals those that are full, has the cleaner make room, and tries again what failed.
#pragma once

#include <mutex>
#include <thread>

#include "cleaner.h"
#include "log.h"

namespace gd2fs::disk {

class Keeper {
 public:
  Keeper(Log& log, Place& place) : log_(log), place_(place), cleaner_(log, place) {}
  void start() {
    thread_ = std::thread([this] { loop(); });
  }
  /// Once the log is closing: ends after the step that it is at.
  void join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  using Lock = std::unique_lock<std::mutex>;

  void loop();
  // One step each, with the lock held when it begins and ends. False: there is nothing to do.
  bool step(Lock& lock);
  bool revive(Lock& lock);
  bool tidy(Lock& lock);
  bool seal(Lock& lock);
  bool provide(Lock& lock);
  bool clean(Lock& lock);

  Log& log_;
  Place& place_;
  Cleaner cleaner_;
  std::thread thread_;
};

}  // namespace gd2fs::disk
