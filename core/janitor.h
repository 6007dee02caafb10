// Janitor: the one thread of a node that may wait. Long walks, what vanished writers left, times to
// live.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "home.h"
#include "node.h"

namespace gd2fs::serve {

class Janitor {
 public:
  explicit Janitor(Node& node) : node_(node), home_(node) {}
  ~Janitor();
  Janitor(const Janitor&) = delete;
  Janitor& operator=(const Janitor&) = delete;

  void start();
  /// The node is stopping: joins.
  void stop();

  // From any thread. At most one task per request in flight, so the queue is bounded by those.
  void add(std::function<void()> task);
  /// The stream on which these were written has ended: those that are still staged are settled now.
  void writer_vanished(std::vector<Store::StagedName> names);

 private:
  void loop();
  void run_tasks();
  void settle_vanished();
  void settle_aged();
  void settle(const Store::StagedName& name);

  Node& node_;
  Home home_;  // this thread's alone
  std::int64_t swept_ms_ = 0;

  std::mutex mutex_;  // Guards: tasks_, vanished_, is_called_.
  std::condition_variable called_;
  bool is_called_ = false;
  std::deque<std::function<void()>> tasks_;
  std::deque<Store::StagedName> vanished_;
  std::thread thread_;
};

}  // namespace gd2fs::serve
