// Requests: what each op does that moves no payload. One object is one request, worked off in turns
// of a millisecond.
#pragma once

#include <cstdint>
#include <vector>

#include "node.h"

namespace gd2fs::serve {

class SmallRequest {
 public:
  /// `asker`: whose rights say what the answer may tell. `tally`: of the thread that works it off;
  /// what the janitor works off instead counts nothing.
  SmallRequest(std::uint64_t request, wire::Request body, std::int64_t deadline_ms, TokenRef asker,
               Tally& tally)
      : request_(request),
        body_(std::move(body)),
        deadline_ms_(deadline_ms),
        asker_(std::move(asker)),
        tally_(&tally) {}

  std::uint64_t request() const noexcept { return request_; }
  wire::Op op() const noexcept { return body_.head.op; }
  std::size_t items() const noexcept { return body_.items.size(); }
  std::int64_t deadline_ms() const noexcept { return deadline_ms_; }
  /// Does it walk through all that a node has? Then it is work for the janitor, not for a
  /// stream's thread.
  bool is_long() const;

  /// Does it need other nodes? Then the mover has to carry it out.
  bool is_advice() const noexcept { return op() == wire::Op::advise; }
  const wire::Request& body() const noexcept { return body_; }
  /// Does it need the disk?
  bool is_sync() const noexcept { return op() == wire::Op::sync; }
  /// Does it need whoever runs the node?
  bool is_question() const noexcept { return op() == wire::Op::configure; }
  wire::Request take_body() { return std::move(body_); }

  enum class Turn : std::uint8_t {
    more,   // there is more to do
    done,   // the RESPONSE is in `out`
    waits,  // for other nodes: `wait`, then `resume`, then run again
  };
  /// Works for about a millisecond (to the end with `is_patient`).
  Turn run(Node& node, wire::Bytes& out, bool is_patient = false);
  /// Asks for what it waits for. `on_end` runs once, on any thread.
  void wait(Node& node, RecordService::OnEnd on_end) const;
  void resume(const RecordAnswer& told) { told_ = told; }
  /// Ends it without (further) effect.
  void end(wire::Bytes& out, Status status) const;

 private:
  bool step(Node& node, const wire::Item& item);
  bool is_refused(Node& node, wire::Bytes& out) const;
  void respond(Node& node, wire::Bytes& out);
  std::optional<wire::ResponseItem> answer(Node& node, const wire::Item& item);
  std::optional<wire::ResponseItem> change(Node& node, const wire::Item& item);
  std::optional<wire::ResponseItem> is_listed(Node& node, const wire::Item& item);
  Status take_look();
  wire::ResponseItem confirm(Node& node, const wire::Item& item);
  wire::ResponseItem publish(Node& node, const wire::Item& item);
  wire::ResponseItem drop(Node& node, const wire::Item& item);
  bool is_present(Node& node, const wire::Item& item) const;
  bool is_page_present(Node& node, const wire::Item& item) const;
  void note_keys(KeyTrace::Batch& batch) const;
  bool meta(Node& node, const wire::Item& item);
  void list(Node& node, wire::Bytes& out);
  void drain(Node& node, wire::Bytes& out);
  void why(Node& node, wire::Bytes& out);

  std::uint64_t request_;
  wire::Request body_;
  std::int64_t deadline_ms_;
  TokenRef asker_;
  Tally* tally_;
  std::size_t next_item_ = 0;
  std::vector<wire::ResponseItem> answers_;
  std::vector<wire::MetaBody> bodies_;  // META
  std::size_t segments_ = 0;            // in all of `bodies_`
  std::vector<bool> present_;           // EXISTS
  wire::Bytes part_;                    // PULL
  std::optional<RecordAnswer> told_;    // what the item waited for
};

}  // namespace gd2fs::serve
