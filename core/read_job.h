// Read job: one GET or READ on its way out, cut into DATA frames, then the RESPONSE that ends it.
//
// Pieces are looked up when their turn comes and held only while their bytes go out. Whole blocks
// travel with their stored sums; of a cut block the whole is verified in a copy, and the part asked
// for gets a sum of its own.
//
// A piece that is on disk is loaded first, and so are the next ones: meanwhile the job waits, and
// nobody with it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "node.h"
#include "outgoing.h"

namespace gd2fs::serve {

class ReadJob {
 public:
  /// `deadline_ms`: on the clock of `boottime_ms`, 0 for none. `tally`: of the thread that works it
  /// off.
  ReadJob(std::uint64_t request, wire::Request body, std::int64_t deadline_ms, Tally& tally);

  std::uint64_t request() const noexcept { return request_; }
  const wire::Request& body() const noexcept { return body_; }
  bool is_small() const noexcept { return is_small_; }
  std::int64_t deadline_ms() const noexcept { return deadline_ms_; }
  /// Its items have ITEM_VIEW, all or none: they are kept for a viewer, under one lease.
  bool is_view() const noexcept { return lease_ != 0; }
  std::uint64_t lease() const noexcept { return lease_; }

  /// Where the end of a load is told, from any thread.
  using Wake = std::function<void(std::uint64_t request, Status status, PieceRef piece)>;
  enum class Turn : std::uint8_t { more, over, waits };

  /// Adds at most one DATA frame, and the RESPONSE when it was the last. waits: for `loaded`, which
  /// gets what `wake` was told.
  Turn next_frame(Node& node, Outgoing& out, Views::Viewer* viewer, const Wake& wake,
                  std::size_t payload_max, std::uint64_t consumed);
  /// Adds what is next to `out`, of which nothing travels on the stream, and tells it in `table`.
  Turn next_batch(Node& node, Payload& out, wire::DataTable& table, const Wake& wake,
                  std::size_t bytes_max);
  bool is_waiting() const noexcept { return is_waiting_; }
  void loaded(Status status, PieceRef piece);
  /// Ends it early: items that were not answered yet get `status`.
  void end(wire::Bytes& out, Status status);

 private:
  /// The item that is being sent.
  struct Current {
    PieceRef piece;
    std::uint64_t begin = 0, at = 0, end = 0;  // in the piece
    FoundIn found_in = FoundIn::memory;
  };

  /// Loads that were asked for.
  struct Loads {
    Stop stop;
    std::size_t next_item = 0;     // from here on nothing was
    bool has_answer = false;       // of the present item
    Status status = Status::miss;  // of this answer
    PieceRef piece;                // with ok only
  };

  bool fill(Node& node, Payload& out, std::size_t bytes_max, wire::DataTable& table);
  bool open_item(Node& node);
  void check(Node& node);
  Status keep_view(Node& node);
  Status open_page(Node& node, const wire::Item& item);
  Status open_piece(Node& node, const wire::Item& item);
  PieceRef find(Node& node, const wire::Item& item, bool is_use);
  Status absence() const;
  void load(Node& node, PieceRef cold);
  void load_ahead(Node& node);
  bool add_run(Node& node, Payload& out, std::size_t room, wire::DataTable& table);
  bool add_cut_block(Node& node, Payload& out, std::size_t room, wire::DataTable& table);
  void add_to_table(wire::DataTable& table, std::uint64_t length, std::size_t hashes) const;
  void close_item(Node& node, Status status);
  void count(Node& node, Status status);
  void follow(Node& node, NamespaceTally& space, bool is_found) const;
  void count_rest(Status status);
  void note_keys(KeyTrace::Batch& batch) const;

  std::uint64_t request_;
  wire::Request body_;
  std::int64_t deadline_ms_;
  Tally* tally_;
  bool is_small_ = false;
  std::uint64_t lease_;              // of a view; 0 for a read
  Views::Viewer* viewer_ = nullptr;  // of this turn
  const Wake* wake_ = nullptr;       // likewise
  std::unique_ptr<Loads> loads_;     // once a piece was on disk
  bool is_waiting_ = false;
  std::size_t next_item_ = 0;
  Current current_;
  std::vector<wire::ResponseItem> answers_;
};

}  // namespace gd2fs::serve
