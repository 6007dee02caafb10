// Receiver: the offers of one stream. Reserves their pieces, says where the bytes of a DATA frame
// go, verifies each block while it is in cache, publishes what is whole and frees what is not.
//
// Bytes go straight into extents. Nobody else sees a piece while it fills, and only this stream's
// thread lets it go.
//
// They come as DATA on the stream, or are pulled out of the client's memory as a SOURCE says. An
// offer that is pulled from ends when its transfers are over, and not before.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "offer.h"
#include "transfers.h"

namespace gd2fs::serve {

class Receiver {
 public:
  Receiver(Node& node, Tally& tally, Transport by) : node_(node), tally_(tally), by_(by) {}

  /// Takes an OFFER. A fault: one line. Eager ones are reserved at once, the others by
  /// `reserve_some`. `refused`: items that are not let in.
  std::string add(std::uint64_t request, wire::Request body, bool is_eager,
                  std::int64_t deadline_ms, Replies& out, std::vector<bool> refused = {});
  bool is_reserving() const noexcept { return reserving_count_ > 0; }
  /// Reserves for about a millisecond. A whole offer's GRANT goes out; of one with nothing granted
  /// the end too.
  void reserve_some(Replies& out);

  /// Starts a DATA frame. One of a request that is over is thrown away. A fault: one line.
  std::string begin_frame(const wire::Header& header, const wire::DataTable& table);
  /// Payload of the frame that is still to come.
  std::size_t left() const noexcept { return left_; }
  /// How many of the next bytes nobody wants; if 0, `into` says where at most `bytes_max` of them
  /// go.
  std::size_t next(std::size_t bytes_max, std::vector<iovec>& into) const;
  /// So many bytes are there, or were thrown away.
  void received(std::size_t bytes, Replies& out);

  /// Takes a SOURCE; its transfers start when there is room for them. A fault: one line.
  std::string pull(std::uint64_t request, const wire::Source& source, std::vector<Target> targets);
  bool has_to_pull(const Transfers& transfers) const noexcept {
    return !pulls_.empty() && transfers.has_room() && !transfers.is_broken();
  }
  void start_pull(Transfers& transfers, Replies& out);

  bool end(std::uint64_t request, Status status, Replies& out);
  void tick(std::int64_t now_ms, Replies& out);
  /// Frees everything that fills.
  void clear();
  bool is_expecting() const noexcept { return !offers_.empty(); }
  std::uint64_t bytes_received() const noexcept { return bytes_received_; }
  /// Staged pieces of this stream, for the question to their homes once it has ended.
  std::vector<Store::StagedName> take_staged();

 private:
  /// A run of one item in a frame.
  struct Run {
    std::size_t item = 0;
    std::uint64_t offset = 0, length = 0;  // in the piece
    std::size_t hash_at = 0;
    bool is_summed = false;
  };

  /// What one DATA or SOURCE frame announces, and how much of it has come.
  struct Frame {
    OfferRef offer;  // nothing: it is thrown away
    std::vector<Run> runs;
    std::vector<std::uint64_t> hashes;
    std::size_t at = 0;                    // of `runs`: the one that is coming
    std::uint64_t done = 0, verified = 0;  // of that run
  };

  /// A SOURCE on its way: what it fills, which stays as it is until its transfers are over.
  struct Pull {
    Frame frame;
    std::vector<Target> targets;
    std::vector<PieceRef> pieces{};
    std::uint64_t moved_bytes = 0;
  };

  void reserve(Offer& offer, std::size_t index);
  bool reserve_until_turn_ends(Offer& offer);
  void granted(Offer& offer, Replies& out);
  OfferRef find(std::uint64_t request) const;
  std::string announce(std::uint64_t request, const wire::DataTable& table, Frame& frame) const;
  static bool is_wanted(const Frame& frame, const Run& run);
  void take(Frame& frame, std::uint64_t bytes, Replies& out);
  void advance(Frame& frame, const Run& run, std::uint64_t bytes, Replies& out);
  void verify(Frame& frame, const Run& run, std::uint64_t at, std::uint64_t length);
  void pulled(Pull& pull, bool is_whole, Replies& out);
  void complete(Offer& offer, std::size_t index);
  void let_go(Offer& offer, std::size_t index, Status status);
  void finish(Offer& offer, Replies& out);
  void remember_staged(const Piece& piece);

  Node& node_;
  Tally& tally_;
  const Transport by_;
  std::vector<OfferRef> offers_;
  std::size_t reserving_count_ = 0;
  std::uint64_t filling_bytes_ = 0;
  std::deque<Store::StagedName> staged_;

  Frame frame_;                      // of DATA, the one that is coming in
  std::size_t left_ = 0;             // of its payload
  std::deque<Pull> pulls_;           // for which there was no room yet
  std::size_t targets_waiting_ = 0;  // of pulls_

  std::uint64_t bytes_received_ = 0;
  std::uint64_t marked_bytes_ = 0;  // of `bytes_received_`, when the progress was last looked at
  std::int64_t marked_ms_ = 0;
};

}  // namespace gd2fs::serve
