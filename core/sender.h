// Sender: what one stream has to send. Small frames first, then one DATA frame a turn, jobs in
// turn.
#pragma once

#include <cstdint>
#include <deque>

#include "node.h"
#include "offer.h"
#include "outgoing.h"
#include "read_job.h"

namespace gd2fs::serve {

class Sender {
 public:
  Sender(Node& node, Tally& tally, Transport by)
      : node_(node), tally_(tally), by_(by), outgoing_(node.hold_budget, node.pipes) {}

  /// Who looks at views over this stream; nothing when it may not.
  Views::ViewerRef viewer;
  /// Where a job is told what was loaded for it; see `loaded`.
  ReadJob::Wake wake;

  /// The reader says how far it has read: bytes may leave by reference.
  void allow_splice() noexcept { outgoing_.may_splice = true; }
  Holds& holds() noexcept { return outgoing_.holds; }

  /// Frames that go out before any DATA. Append whole frames only.
  Replies& replies() noexcept { return replies_; }
  void add(ReadJob job) { jobs_.push_back(std::move(job)); }
  /// A job of this stream goes on, if it is there still. Nothing: its piece is lost.
  void loaded(std::uint64_t request, Status status, PieceRef piece);

  bool has_work() const noexcept;
  /// Is there bulk, so that this stream's small frames do not count as small work?
  bool has_jobs() const noexcept { return !jobs_.empty(); }
  /// So much waits already that no further answer should be made.
  bool is_full() const noexcept;

  /// Sends one batch: what waits, and at most one DATA frame of at most `payload_max`.
  Outgoing::Sent turn(Channel& channel, std::size_t payload_max, std::uint64_t consumed);
  /// Requests whose last byte the kernel has got in the last turn.
  std::span<const std::uint64_t> ended() const noexcept { return ended_; }

  bool end(std::uint64_t request, Status status);
  void expire(std::int64_t now_ms);
  /// Behind the replies so far: the arena's descriptor. From here on reads are answered by leases.
  void lease_arena();
  /// Forgets all but the batch under way: a frame cannot be taken back.
  void abandon();

 private:
  void compose_arena();
  void compose(std::size_t payload_max, std::uint64_t consumed);
  std::deque<ReadJob>::iterator choose();
  std::deque<ReadJob>::iterator find(std::uint64_t request);

  Node& node_;
  Tally& tally_;
  const Transport by_;
  Replies replies_;
  std::vector<std::uint64_t> ended_;
  std::deque<ReadJob> jobs_;
  std::size_t waiting_count_ = 0;  // of `jobs_`, for something to be loaded
  bool is_small_turn_ = true;      // small jobs get at most every second turn
  Outgoing outgoing_;
  wire::Bytes arena_frame_;         // to go alone: its first byte carries the descriptor
  std::size_t arena_frame_at_ = 0;  // of the replies: behind so many bytes
};

}  // namespace gd2fs::serve
