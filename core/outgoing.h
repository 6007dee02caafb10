// Outgoing: what one turn sends on a stream, and what keeps it alive until the kernel has it.
//
//   control frames | header and table of one DATA frame | its payload | the RESPONSE that ends it
//
// Payload lies in pieces (borrowed) or aside (copied edge blocks). It leaves as a copy, and is kept
// until the kernel has it; or by reference, and is held until the reader has it (holds.h): spliced
// into the socket, or named in a LEASE frame for a reader that has the arena mapped.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "holds.h"
#include "payload.h"
#include "transport/channel.h"
#include "transport/splice.h"
#include "wire.h"

namespace gd2fs::serve {

class Outgoing {
 public:
  enum class Sent : std::uint8_t { all, blocked, broken };

  Outgoing(HoldBudget& budget, PipePool& pipes) : holds(budget), pipes_(pipes) {}
  ~Outgoing() { give_pipe(); }
  Outgoing(const Outgoing&) = delete;
  Outgoing& operator=(const Outgoing&) = delete;

  Holds holds;              // of what has left this stream by reference
  bool may_splice = false;  // the reader says how far it has read
  bool may_lease = false;   // the reader has the arena mapped

  wire::Bytes head;  // before the payload
  Payload payload;
  wire::Bytes tail;                 // after it
  wire::DataTable table;            // of the DATA frame in `head`, kept for its memory
  std::vector<std::uint64_t> ends;  // requests that are over once all of this is sent
  int descriptor = -1;              // goes with the first byte

  /// Decides how the payload of this batch travels. How long it may be.
  std::size_t begin_payload(std::size_t payload_max, bool is_view) noexcept;
  /// Its payload is not sent but named: all of it is borrowed.
  bool is_leasing() const noexcept { return payload.is_in_arena; }
  /// After the payload of a DATA frame is complete: does it leave by reference?
  bool is_by_reference();
  /// Of a batch that is leasing: where its payload lies in the arena that starts at `arena`.
  std::vector<wire::LeaseRun> take_runs(const std::byte* arena);
  bool is_empty() const noexcept { return head.empty() && tail.empty(); }

  /// Nothing is added after this.
  void seal();
  bool is_sealed() const noexcept { return !left_.empty(); }
  /// Gives the kernel as much as it takes now.
  Sent send(Channel& channel);
  void clear();

 private:
  bool is_worth_splicing() const noexcept;
  bool is_over() const noexcept;
  ssize_t copy_some(Channel& channel);
  ssize_t splice_some(Channel& channel);
  void advance(std::size_t bytes);
  void give_pipe();

  bool is_view_ = false;  // what is leased is kept by someone else
  std::vector<iovec> left_;
  std::size_t left_at_ = 0;  // the first of `left_` that is not wholly sent
  PipePool& pipes_;
  std::unique_ptr<Pipe> pipe_;   // what is spliced goes through it
  std::size_t splice_from_ = 0;  // of `left_`: the runs that are spliced,
  std::size_t splice_to_ = 0;    // empty when none are
};

}  // namespace gd2fs::serve
