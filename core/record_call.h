// Record call: a call on one file.
//
// Its record is asked for at its home; while that does not answer, a reader asks the backups, in
// order. Who answers that the map has changed, or that it cannot say now, is asked again, by the
// map that there is by then. When nobody answers who should, another node may know a newer map.
#pragma once

#include "call.h"

namespace gd2fs {

class RecordCall : public Call {
 public:
  RecordCall(CallContext context, std::string path, OnEnd on_end)
      : Call(std::move(context), std::move(on_end)), path_(std::move(path)) {}

 protected:
  wire::Item new_item() const;
  /// One item to the home. `then` runs with the answer that counts: `answer()`, `answer_status()`.
  /// RETRY, STALE_MAP and FENCED only when there was no more time.
  void ask(wire::Op op, wire::Item item, std::function<void()> then);
  /// Who was asked for the record last.
  std::size_t home() const;
  /// Does this call change the file? Then also what it asks about the record has time until the
  /// deadline, while nobody may say it.
  virtual bool is_change() const { return false; }
  /// How many copies the pieces of this file have.
  std::size_t replicas_of(const Routes& routes, const FileFacts& facts) const;

  const std::string path_;

 private:
  struct Question {
    wire::Op op = wire::Op::meta;
    wire::Item item;
    std::function<void()> then;
    std::uint64_t epoch = 0;  // by whose map it was asked
    std::size_t rank = 0;     // of the record's owners: who was asked
    std::size_t pauses = 0;
    Sent kept{};  // the answer that counts, if nobody has a better one
  };

  std::shared_ptr<RecordCall> self() {
    return std::static_pointer_cast<RecordCall>(shared_from_this());
  }
  void ask_rank();
  void take();
  void ask_next();
  void ask_later(std::int64_t pause_ms);
  void scout();
  void take_scouted();
  bool is_over() const;
  void wait_for_map();
  void end_with_kept();
  void end();
  bool is_read() const { return question_.op == wire::Op::meta; }

  Question question_;
  std::size_t asked_ = 0;  // the slot
  bool has_asked_ = false;
};

}  // namespace gd2fs
