// Courier: brings pieces to other nodes, straight from the arena, with the sums that they were
// stored with: what has changed since is refused there.
//
// Pieces for one node travel together. Bytes on their way are limited, per node and in all, and so
// are bytes per second. A node that is full, slow or silent holds nobody else up. It is asked first
// whether it wants what is on disk here: only then is it loaded.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "node.h"

namespace gd2fs::serve {

/// One piece, and those who shall have it. `done` runs once all of them have spoken, or were given
/// up.
struct Move {
  PieceRef piece;
  std::uint64_t epoch = 0;       // of the map that this follows
  std::uint64_t idle_ms = 0;     // since the last use
  std::uint8_t replicas = 0;     // that it shall have; 0: as the namespace has
  std::int64_t deadline_ms = 0;  // 0: none of its own
  bool is_owner = false;         // this node is one
  std::uint64_t pass = 0;        // which walk has found it
  std::size_t waiting_count = 0;
  std::size_t refused_count = 0;  // they will not have it: it is older than all they have
  std::size_t missing_count = 0;  // they do not have it now
  Status fault = Status::ok;      // why one of these does not
  std::function<void(Move&)> done;
};
using MoveRef = std::shared_ptr<Move>;

class Courier {
 public:
  /// `post` runs a task on the thread that all of this belongs to; from any thread.
  Courier(Node& node, std::function<void(std::function<void()>)> post);

  enum class Room : std::uint8_t { free, busy, out_of_reach };
  /// May a piece be handed in for this node? busy: not yet. out_of_reach: not for a while.
  Room room(const NodeId& target, std::int64_t now_ms);
  void send(const MoveRef& move, const NodeId& target);
  /// Sends what waits, as far as the limits allow; `is_whole`: also what is not a lot yet.
  void pump(bool is_whole);
  /// Pieces handed in whose end is not known yet.
  std::size_t count() const noexcept { return count_; }
  /// When `pump` could send more without an answer before. NEVER_MS: nothing waits.
  std::int64_t next_ms(std::int64_t now_ms) const;
  /// The map has changed: who was out of reach may be there again.
  void forget_faults();

 private:
  struct Entry {
    MoveRef move;
    std::uint32_t tries = 0;
  };
  /// The pieces of one request.
  struct Lot {
    NodeId target;
    std::vector<Entry> entries;
    std::vector<PieceRef> pieces;  // by entry: what the request is about
    std::vector<Status> statuses;  // by entry, once answered
    bool is_question = false;
    std::uint64_t bytes = 0;
    std::int64_t deadline_ms = 0;  // that its moves have of their own
    bool has_answer = false;
  };
  using LotRef = std::shared_ptr<Lot>;
  struct Target {
    std::deque<Entry> waiting;
    std::uint64_t waiting_bytes = 0;
    std::uint64_t on_way_bytes = 0;
    std::uint64_t window_bytes = 0;
    std::int64_t not_before_ms = 0;
    std::int64_t heard_ms = 0;
    std::uint32_t failures = 0;  // requests without an answer, one after the other
  };

  Target& target_of(const NodeId& id);
  bool may_send(const Target& target, std::int64_t now_ms, bool is_whole) const;
  void offer(const NodeId& id, Target& target);
  static wire::Item item_of(const Move& move);
  void ask(const LotRef& lot, RpcRef rpc, void (Courier::*then)(const LotRef&));
  void take_offered(const LotRef& lot);
  void load(const NodeId& id, Entry entry);
  void publish(const LotRef& lot);
  void take_published(const LotRef& lot);
  void fail_all(const LotRef& lot);
  void retry(Target& target, Entry entry);
  void settle(Entry& entry, Status status);
  void check_own(const PieceRef& piece);
  void refill(std::int64_t now_ms);

  Node& node_;
  const std::function<void(std::function<void()>)> post_;
  std::uint64_t rate_;  // bytes per second, as the node has it at the last refill
  const std::uint64_t on_way_max_;
  const std::uint64_t window_max_;  // to one node
  std::uint64_t lot_bytes_;
  std::map<NodeId, Target> targets_;
  std::uint64_t on_way_bytes_ = 0;
  std::uint64_t loading_bytes_ = 0;  // from disk, for who wants them
  double budget_bytes_ = 0;  // below zero: more was sent than the time that has passed allows
  std::int64_t refilled_ms_ = 0;
  std::size_t count_ = 0;
};

}  // namespace gd2fs::serve
