// Placer: the reads of one stream whose bytes go into memory that the client has named. Several
// batches of one read are under way at once; each is told as PLACED when it and all before it are
// there, and the RESPONSE follows when the last one is.
//
// A read ends when its transfers are over, and not before: one that is cancelled or late starts
// nothing new, and waits for what is under way.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "node.h"
#include "offer.h"
#include "read_job.h"
#include "transfers.h"

namespace gd2fs::serve {

class Placer {
 public:
  Placer(Node& node, Tally& tally) : node_(node), tally_(tally) {}

  /// `targets`: as long as the items of the job together.
  void add(ReadJob job, std::vector<Target> targets);
  /// Is there something that `turn` could start?
  bool has_work(const Transfers& transfers) const noexcept;
  /// Starts a batch of the read whose turn it is.
  void turn(Transfers& transfers, Replies& out, const ReadJob::Wake& wake);

  void loaded(std::uint64_t request, Status status, PieceRef piece);
  /// As soon as it can be. False: there is no such read.
  bool end(std::uint64_t request, Status status, Replies& out);
  void expire(std::int64_t now_ms, Replies& out);
  /// Nobody waits for the reads any more. What is under way keeps its pieces.
  void abandon();

 private:
  struct Placement;
  using PlacementRef = std::shared_ptr<Placement>;

  /// What is under way together, and what keeps its bytes in place.
  struct Batch {
    PlacementRef of;
    Payload payload;
    wire::DataTable table;
    bool is_here = false;
  };

  struct Placement {
    Placement(ReadJob of, std::vector<Target> where)
        : job(std::move(of)), targets(std::move(where)), cursor(targets) {}
    ReadJob job;
    const std::vector<Target> targets;
    TargetCursor cursor;
    std::uint64_t cursor_at = 0;  // of the bytes of all items
    std::size_t item = 0;
    std::uint64_t item_at = 0;                       // where that item's bytes begin, of all
    std::deque<std::shared_ptr<Batch>> under_way{};  // in order, those that are here included
    std::optional<Status> ends_as;                   // nothing more is started
    bool is_abandoned = false;
  };
  void start(Transfers& transfers, const std::shared_ptr<Batch>& batch, Replies& out);
  static std::vector<ucx::Move> moves_of(Placement& of, const Batch& batch,
                                         std::vector<ucx::RemoteKeyRef>& keys);
  void placed(Batch& batch, Replies& out);
  void finish(const PlacementRef& placement, Replies& out);
  PlacementRef find(std::uint64_t request) const;
  static bool is_ready(const Placement& each) noexcept {
    return !each.ends_as && !each.job.is_waiting();
  }

  Node& node_;
  Tally& tally_;
  std::list<PlacementRef> placements_;  // in turn
};

}  // namespace gd2fs::serve
