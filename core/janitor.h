// Janitor: the one thread of a node that may take its time. Long walks, what vanished writers left,
// times to live.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "node.h"

namespace gd2fs::serve {

class Janitor {
 public:
  explicit Janitor(Node& node) : node_(node) {}
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
  /// A staged piece whose home is to say whether its tag is listed.
  struct Doubt {
    Store::StagedName name;
    std::int64_t give_up_ms = 0;  // until then home may be away
    std::int64_t at_ms = 0;       // not asked before
  };
  using Key = std::tuple<std::string, std::uint64_t, std::uint64_t>;

  void loop();
  void run_tasks();
  void doubt(Store::StagedName name, std::int64_t patience_ms);
  void find_outlived();
  void settle_doubts(std::int64_t now_ms);
  void find_aged();
  void settle(Doubt doubt);
  void ask_home(std::uint32_t home, Doubt doubt);
  void take(Doubt doubt, Status status, std::uint64_t seq);

  Node& node_;
  std::int64_t swept_ms_ = 0;

  std::mutex mutex_;  // Guards: all below but the thread.
  std::condition_variable called_;
  bool is_called_ = false;
  std::deque<std::function<void()>> tasks_;
  std::deque<Doubt> doubts_;
  std::set<Key> doubted_;  // those of doubts_, and those that are being asked about
  std::size_t asking_ = 0;
  std::thread thread_;
};

}  // namespace gd2fs::serve
