// Rpc: one request to one node, and its answer.
//
// It is owned by one place at a time: the queue of a link, then one stream. Its memory is touched
// only by the stream that has it, and not after `finish`.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "arena_map.h"
#include "buffer_list.h"
#include "io_thread.h"
#include "lease_keeper.h"
#include "operation.h"
#include "pace.h"
#include "registrations.h"
#include "wire.h"

namespace gd2fs {

/// The bytes of one item: where they go to (GET, READ) or come from (OFFER).
struct Body {
  std::size_t first = 0;  // of Rpc::memory
  std::uint64_t bytes = 0;
  std::uint64_t moved = 0;  // received or sent so far; always the front
  std::uint64_t tag = 0;    // of the received pieces
  bool is_corrupt = false;
  bool is_summed = true;                // an upload's sums are made here, and go with it
  std::span<const std::uint64_t> sums;  // or these go with it: made when the bytes were written
  BufferCursor cursor;                  // at `moved`

  /// A piece of that tag has come. Parts of two values are no value.
  void take_tag(std::uint64_t of_piece) noexcept {
    if (tag != 0 && tag != of_piece) is_corrupt = true;
    tag = of_piece;
  }
};

struct Rpc {
  // What is asked.
  wire::Request request;
  std::vector<Buffer> memory;  // of all bodies, back to back
  std::vector<Body> bodies;    // one per item with GET, READ and OFFER
  std::int64_t deadline_ms = 0;
  std::shared_ptr<OperationState> operation;  // nullptr: nobody waits (PUBLISH, DROP hints)
  std::function<void()> done;                 // once, on an I/O thread
  // An OFFER that asks who would take what: its grants are the answer, and no bytes follow.
  bool is_question = false;
  // Other nodes can be asked for the same: one that falls silent is not waited for to the end.
  bool has_others = false;
  std::int64_t late_ms = NEVER_MS;  // when `late` is called, on an I/O thread, if it has not ended
  std::function<void()> late;       // at most once; perhaps just after the end
  bool was_late = false;
  std::atomic<bool> is_unwanted{false};  // whoever has it lets it go, as cancelled

  // What came back. `status` ok: the answers are there; else every item has this status.
  Status status = Status::unavailable;
  std::vector<wire::ResponseItem> answers;  // by item; EXISTS, LIST, PING: one
  std::vector<wire::MetaBody> metas;        // META, by item
  std::vector<bool> present;                // EXISTS
  std::vector<wire::ListEntry> entries;     // LIST
  wire::NodeStatus node;                    // PING
  wire::Bytes body;                         // PULL, WHY, CONFIGURE
  std::uint32_t lost_count = 0;             // streams that broke under it
  // Of the link that has it:
  Pace* pace = nullptr;
  std::uint64_t pace_bytes = 0;
  std::int64_t submitted_us = 0;
  // Bytes came by reference, and nothing proves that they were in place when they were copied: the
  // node has to confirm it.
  bool is_to_confirm = false;

  /// Of a view: bytes of an item, where they lie.
  struct Seen {
    std::size_t item;
    std::span<const std::byte> bytes;
  };
  std::vector<Seen> seen;  // in order, item by item
  std::vector<LeaseHold> leases;
  ArenaMapRef arena;  // that `seen` lies in
  bool is_verifying_view = false;

  /// Of a request whose bytes go beside the stream: what `memory` lies in. While it has these a
  /// node may reach the memory.
  std::vector<RegistrationRef> registrations;

  // Some of `memory` is a GPU's, and none of this process's hands: transfers alone move the bytes,
  // and nothing is summed here.
  bool is_direct = false;
  bool lacks_transfers = false;           // ended for that: its stream has none
  bool keeps_placed = false;              // what `take_placed` has taken in is kept,
  std::vector<wire::DataTable> placed{};  // here

  Rpc(wire::Op op, std::shared_ptr<OperationState> for_operation, std::int64_t deadline);

  /// Room for so many items.
  void reserve(std::size_t items);
  /// Adds an item with its memory.
  void add(wire::Item item, BufferCursor& memory_at, std::uint64_t bytes);
  /// Adds an item that is stored here, with its sums. `done` keeps both alive.
  void add_stored(wire::Item item, std::span<const std::span<std::byte>> runs,
                  std::span<const std::uint64_t> sums);
  /// Adds an item with ITEM_VIEW: at most its length, looked at where it lies.
  void add_view(wire::Item item, bool is_verifying);
  /// Of the caller: they go with what it offers.
  void set_tags(std::string_view tags);
  void add(wire::Item item) { request.items.push_back(std::move(item)); }

  wire::Op op() const noexcept { return request.head.op; }
  std::uint64_t body_bytes() const noexcept;
  bool is_bulk() const noexcept;
  bool is_view() const noexcept;
  bool is_upload() const noexcept { return op() == wire::Op::offer; }
  bool is_cancelled() const noexcept {
    return is_unwanted.load() || (operation != nullptr && operation->is_cancelled());
  }
  /// A link has taken it.
  void enter(Pace& of_link, std::int64_t now);
  /// Is it time to say that it is late? Then `late` is the caller's to call.
  std::function<void()> take_late(std::int64_t now);
  /// Asking again is harmless, even when the first one was carried out.
  bool is_idempotent() const noexcept;

  /// Back to the start: nothing sent, nothing received.
  void rewind();
  /// Does every piece lie within its item, and go on where the one before ended, with items in
  /// their order? So what has arrived of an item is always its front, and a count says how much.
  bool is_next(const wire::DataTable& table) const;
  /// Appends where this part of `memory` lies, as nodes know it.
  void name(Buffer part, std::vector<wire::Sink>& out) const;
  /// Takes in what is in `memory` by now, as `is_next` allows. How many blocks are not as promised.
  std::size_t take_placed(const wire::DataTable& table, bool is_verifying);
  /// Takes a RESPONSE frame in. False: it breaks the protocol.
  bool absorb(const wire::Header& header, wire::View table);
  /// Takes grants in as the answer. False: they break the protocol.
  bool absorb_grants(std::span<const wire::Grant> grants);
  /// A sum did not match, or parts of two values came.
  bool has_corrupt() const noexcept;
  /// After the last frame: every item has an answer, and what was promised has arrived.
  void settle();
  /// Ends it, exactly once.
  void finish(Status with);

  /// Of an item: its answer's status, or why there is none.
  Status item_status(std::size_t item) const noexcept;

 private:
  bool absorb_extras(const wire::ResponseItem& head, wire::TableReader& table);
};

using RpcRef = std::shared_ptr<Rpc>;

}  // namespace gd2fs
