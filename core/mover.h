// Mover: a node's work behind the scenes. After each change of the map it walks through all that
// the node has and sees to it that every piece is where it belongs: new owners get copies, what is
// one too many here is let go once all owners have theirs.
//
// One thread, which works for a fraction of a millisecond at a time and never waits for another
// node. Repair after a loss, growth and drain are this same walk.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "courier.h"
#include "cursor.h"
#include "move_plan.h"
#include "node.h"

namespace gd2fs::serve {

class Mover {
 public:
  using Reply = std::function<void(const std::vector<wire::ResponseItem>&)>;

  explicit Mover(Node& node);
  ~Mover();  // stops

  // Any thread.
  /// The map in force from now on. The first one starts no walk: what is here came by it.
  void take_map(ClusterViewRef view);
  std::uint64_t epoch() const noexcept { return epoch_.load(std::memory_order_relaxed); }
  /// A piece can be read from now on. One that came by another map than the one in force may have
  /// to go on.
  void note(const Piece& piece) {
    if (piece.settled_epoch() < epoch()) note_late();
  }
  /// A node of the list in force has begun anew, and has lost what it had.
  void note_arrival(const NodeId& node, std::uint64_t boot);
  /// Carries out an ADVISE. The answers go to `reply`, on the mover's thread; to nobody once it
  /// stops.
  void advise(wire::Request request, std::int64_t deadline_ms, Reply reply);

  /// Runs a task again and again, some milliseconds apart, until it says that it is done. On the
  /// mover's thread; not any more once it stops.
  void repeat(std::function<bool()> task);

  struct Progress {
    std::uint64_t left = 0, left_bytes = 0;  // yet to be looked at, or on their way
    bool is_settled = true;                  // all that the map in force asks for is done
  };
  Progress progress() const noexcept;
  /// Joins the thread. What is on its way may still arrive.
  void stop();

 private:
  struct Advice;

  /// One walk through everything.
  struct Pass {
    std::uint64_t number = 0;  // another one for each
    bool is_running = false;
    Cursor cursor;
    std::int64_t began_ms = 0;
    std::uint64_t settled = 0;                         // by this pass
    std::uint64_t unsettled = 0, unsettled_bytes = 0;  // seen, and not settled yet
    std::uint64_t kept = 0;        // copies too many that are kept a little longer
    std::vector<NodeId> returned;  // for whom settled pieces are looked at too
  };
  struct Found {
    PieceRef piece;
    std::uint64_t used_ns;
  };

  struct Known {
    ClusterViewRef view;
    bool is_same = true;  // as the map in force, as far as places go
  };

  void note_late();
  void post(std::function<void()> task);
  void start_thread();
  void loop();
  void run_tasks();
  std::chrono::microseconds pause_until_next(std::int64_t now_ms) const;

  void begin_map(const ClusterViewRef& view);
  bool is_due(std::int64_t now_ms) const;
  void new_pass();
  void begin_pass(std::int64_t now_ms);
  void step();
  bool has_work() const;
  void find_some();
  bool place(const Found& found);
  bool place_returned(const Found& found);
  void take_arrival(const NodeId& node, std::uint64_t boot);
  bool bring(const Found& found, const MovePlan& plan);
  void moved(Move& move);
  void settle(Piece& piece, std::uint64_t epoch, bool is_handed_over);
  void let_go(const PieceRef& piece);
  void end_pass();

  void take_advice(wire::Request& request, std::int64_t deadline_ms, Reply reply);
  void advise_one(const std::shared_ptr<Advice>& advice, std::size_t at);
  void load_advised(const std::shared_ptr<Advice>& advice, std::size_t at, const PieceRef& piece);
  void bring_advised(const std::shared_ptr<Advice>& advice, std::size_t at, const PieceRef& piece);

  Node& node_;
  std::atomic<std::uint64_t> epoch_{0};
  std::atomic<std::uint64_t> settled_epoch_{0};  // the walk for this one is done
  std::atomic<std::uint64_t> left_{0}, left_bytes_{0};
  std::atomic<bool> is_late_{false};

  // The thread's own.
  Courier courier_;
  std::map<std::uint64_t, Known> maps_;  // by epoch, the last MAPS_KEPT
  ClusterViewRef view_;
  bool is_member_ = false;
  std::int64_t applied_ms_ = 0;
  Pass pass_;
  std::uint64_t last_pass_ = 0;
  std::deque<Found> found_;
  std::map<NodeId, std::uint64_t> boots_;  // of nodes that have begun anew
  std::vector<NodeId> returned_;           // of them, whose copies are not all there again
  bool is_blocked_ = false;                // the first of `found_` waits for room on the way
  std::vector<std::function<bool()>> repeated_;
  std::int64_t next_pass_ms_ = NEVER_MS;
  std::int64_t pause_ms_ = 0;

  std::mutex mutex_;  // Guards: all below.
  std::condition_variable called_;
  std::deque<std::function<void()>> tasks_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace gd2fs::serve
