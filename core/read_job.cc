#include "read_job.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <optional>

#include "checksum.h"
#include "name.h"
#include "planted.h"
#include "random.h"

namespace gd2fs::serve {
namespace {

constexpr std::uint64_t SMALL_BYTES = 64 * KiB;  // a request for no more than this goes before bulk
constexpr std::uint64_t AHEAD_BYTES = 32 * MiB;  // of one request, loaded before their turn
constexpr std::size_t AHEAD_SHARE = 16;          // of the arena, at most
constexpr std::uint32_t ROOM_RETRY_MS = 50;      // until memory may have room for what is on disk
constexpr auto TURN = std::chrono::milliseconds(1);

using Clock = std::chrono::steady_clock;

std::uint64_t wanted_bytes(const wire::Request& body) {
  std::uint64_t sum = 0;
  for (const wire::Item& item : body.items) {
    sum += std::min<std::uint64_t>(item.length, PAGE_BYTES_MAX);
  }
  return sum;
}

/// Is `[offset, offset + length)` inside `[0, bytes)`? Sums are never formed: they could wrap.
bool is_inside(std::uint64_t offset, std::uint64_t length, std::uint64_t bytes) {
  return offset <= bytes && length <= bytes - offset;
}

bool is_view_of(const wire::Request& body) {
  return !body.items.empty() && (body.items.front().flags & wire::ITEM_VIEW) != 0;
}

/// Planted: what an earlier write left of these bytes, if it is there still.
PieceRef old_copy(Node& node, const wire::Item& item, const PieceRef& right) {
  PieceRef oldest = right;
  for (const PieceRef& each :
       node.store->find_live(item.name, item.chunk, 0, item.offset, item.length)) {
    const bool covers = item.offset >= each->offset() &&
                        is_inside(item.offset - each->offset(), item.length, each->length());
    const bool is_older = oldest == nullptr || each->seq() < oldest->seq();
    if (covers && is_older) oldest = each;
  }
  return oldest;
}

std::uint64_t told_tag(const wire::Item& item, const Piece& piece) {
  const bool is_told = is_planted("serve_old_copy") && item.tag != 0 && !piece.is_page();
  return is_told ? item.tag : piece.tag();
}

}  // namespace

ReadJob::ReadJob(std::uint64_t request, wire::Request body, std::int64_t deadline_ms, Tally& tally)
    : request_(request),
      body_(std::move(body)),
      deadline_ms_(deadline_ms),
      tally_(&tally),
      is_small_(wanted_bytes(body_) <= SMALL_BYTES),
      lease_(is_view_of(body_) ? random_tag() : 0) {
  answers_.reserve(body_.items.size());
}

ReadJob::Turn ReadJob::next_frame(Node& node, Outgoing& out, Views::Viewer* viewer,
                                  const Wake& wake, std::size_t payload_max,
                                  std::uint64_t consumed) {
  viewer_ = viewer;
  wake_ = &wake;
  wire::DataTable& table = out.table;
  table.pieces.clear();
  table.hashes.clear();
  const bool is_over = fill(node, out.payload, payload_max, table);
  if (!table.pieces.empty() && out.is_leasing()) {
    tally_->leases.add();
    wire::Lease lease{lease_, std::move(table), out.take_runs(node.store->arena().memory().data())};
    wire::encode_lease(out.head, request_, lease, consumed);
  } else if (!table.pieces.empty()) {
    const bool is_spliced = out.is_by_reference();
    if (is_spliced) tally_->bytes_spliced.add(out.payload.bytes());
    const std::uint8_t flags = is_spliced ? wire::SPLICED : std::uint8_t{0};
    wire::encode_data(out.head, request_, flags, table, consumed);
  }
  if (is_over) end(out.tail, Status::ok);
  return is_over ? Turn::over : is_waiting_ ? Turn::waits : Turn::more;
}

ReadJob::Turn ReadJob::next_batch(Node& node, Payload& out, wire::DataTable& table,
                                  const Wake& wake, std::size_t bytes_max) {
  viewer_ = nullptr;
  wake_ = &wake;
  out.is_in_arena = true;
  const bool is_over = fill(node, out, bytes_max, table);
  return is_over ? Turn::over : is_waiting_ ? Turn::waits : Turn::more;
}

void ReadJob::end(wire::Bytes& out, Status status) {
  current_ = {};
  count_rest(status);
  while (answers_.size() < body_.items.size()) {
    answers_.push_back({.item = static_cast<std::uint16_t>(answers_.size()), .status = status});
  }
  wire::encode_response(out, request_, answers_);
}

/// True when all items are answered; else the frame is full, the turn is over, or the job waits.
bool ReadJob::fill(Node& node, Payload& out, std::size_t bytes_max, wire::DataTable& table) {
  const Clock::time_point turn_ends = Clock::now() + TURN;
  for (std::size_t steps = 1; next_item_ < body_.items.size(); ++steps) {
    if (steps % LOOKUPS_MAX == 0 && Clock::now() > turn_ends) return false;
    if (table.pieces.size() == ITEMS_MAX) return false;
    if (!current_.piece && !open_item(node)) {
      if (is_waiting_) return false;
      continue;
    }
    while (current_.piece && !current_.piece->is_checked()) {
      if (Clock::now() > turn_ends) return false;
      check(node);
    }
    if (!current_.piece) continue;
    const std::size_t room = bytes_max - out.bytes();
    const bool is_cut =
        current_.at % BLOCK_BYTES != 0 ||
        (current_.end - current_.at < BLOCK_BYTES && current_.end != current_.piece->length());
    const bool is_added =
        is_cut ? add_cut_block(node, out, room, table) : add_run(node, out, room, table);
    if (!is_added) return false;
  }
  if (node.key_trace.is_on()) [[unlikely]]
    node.key_trace.note(body_.head.op, [this](KeyTrace::Batch& batch) { note_keys(batch); });
  return true;
}

/// Finds the piece of the next item; false when it is answered already, without bytes, or is loaded
/// first.
bool ReadJob::open_item(Node& node) {
  const wire::Item& item = body_.items[next_item_];
  const bool is_page = body_.head.op == wire::Op::get;
  if (is_page && next_item_ % LOOKUPS_MAX == 0)
    node.warm(std::span(body_.items).subspan(next_item_));
  const bool was_loaded = loads_ != nullptr && loads_->has_answer;
  const Status status = is_page ? open_page(node, item) : open_piece(node, item);
  if (was_loaded) current_.found_in = FoundIn::disk;
  const bool is_empty = current_.at == current_.end;
  const bool is_here =
      status != Status::ok || current_.piece->has(current_.at, current_.end - current_.at);
  if (!is_here) [[unlikely]] {
    load(node, std::exchange(current_, {}).piece);
    return false;
  }
  const bool is_kept = status == Status::ok && !is_empty && is_view();
  const Status kept = is_kept ? keep_view(node) : status;
  if (kept == Status::ok && !is_empty) return true;
  close_item(node, kept);
  return false;
}

/// Of a piece that an earlier process left, before any byte of it leaves. Wrong ones are a miss.
void ReadJob::check(Node& node) {
  if (current_.piece->check_some()) return;
  node.store->quarantine(current_.piece);
  close_item(node, Status::miss);
}

/// full: the reader looks at too much already, and has to ask for a copy.
Status ReadJob::keep_view(Node& node) {
  const bool is_kept = viewer_ != nullptr && node.views.hold(*viewer_, lease_, current_.piece);
  return is_kept ? Status::ok : Status::full;
}

Status ReadJob::open_page(Node& node, const wire::Item& item) {
  if (!is_valid_name(item.name, true)) return Status::invalid;
  PieceRef piece = find(node, item, (item.flags & wire::ITEM_PROBE) == 0);
  if (!piece) return absence();
  const std::uint64_t length = piece->length();
  if ((item.flags & wire::ITEM_RANGE) != 0) {
    const std::uint64_t begin = std::min(item.offset, length);
    const std::uint64_t end = begin + std::min(item.length, length - begin);
    current_ = {std::move(piece), begin, begin, end};
    return Status::ok;
  }
  const bool is_range = item.offset != 0;
  current_ = {std::move(piece), item.offset, item.offset, length};
  if (is_range && !is_inside(item.offset, 1, length)) return Status::invalid;
  return length - item.offset > item.length ? Status::invalid : Status::ok;
}

Status ReadJob::open_piece(Node& node, const wire::Item& item) {
  const bool is_fit = is_inside(item.offset, item.length, CHUNK_BYTES_MAX) && item.length > 0;
  if (!is_fit || !is_valid_name(item.name, false)) return Status::invalid;
  const bool is_use = (item.flags & wire::ITEM_PROBE) == 0;
  PieceRef piece = find(node, item, is_use);
  if (is_planted_now("serve_old_copy", 4)) piece = old_copy(node, item, piece);
  if (!piece) return absence();
  if (item.offset < piece->offset()) return Status::miss;
  const std::uint64_t begin = item.offset - piece->offset();
  if (!is_inside(begin, item.length, piece->length())) return Status::miss;
  current_ = {std::move(piece), begin, begin, begin + item.length};
  return Status::ok;
}

/// Of the present item, which `find` has not found. Where memory has no room for it now it is to be
/// asked for again; where it will have none it is a miss.
Status ReadJob::absence() const {
  const bool is_late = loads_ != nullptr && loads_->status == Status::retry;
  return is_late ? Status::retry : Status::miss;
}

/// Of the item that was loaded for: what came of it.
PieceRef ReadJob::find(Node& node, const wire::Item& item, bool is_use) {
  if (loads_ != nullptr && std::exchange(loads_->has_answer, false))
    return std::move(loads_->piece);
  if (loads_ != nullptr) loads_->status = Status::miss;
  Store& store = *node.store;
  if (body_.head.op == wire::Op::get) return store.find_page(item.name, is_use);
  if (item.tag != 0) return store.find_piece(item.name, item.chunk, item.tag, is_use);
  return store.find_latest(item.name, item.chunk, item.offset, item.length, is_use);
}

/// The present item's piece; and those of the next ones, so that the disk is kept busy.
void ReadJob::load(Node& node, PieceRef cold) {
  if (loads_ == nullptr) loads_ = std::make_unique<Loads>();
  loads_->next_item = std::max(loads_->next_item, next_item_ + 1);
  is_waiting_ = true;
  const auto done = [wake = *wake_, request = request_](Status status, PieceRef piece) {
    wake(request, status, std::move(piece));
  };
  node.store->load(cold, LoadRank::demand, loads_->stop.flag, done);
  load_ahead(node);
}

void ReadJob::load_ahead(Node& node) {
  const auto ignore = [](Status, const PieceRef&) {};
  std::uint64_t bytes = 0;
  for (std::size_t at = next_item_ + 1; at < loads_->next_item; ++at)
    bytes += std::min<std::uint64_t>(body_.items[at].length, PAGE_BYTES_MAX);
  const std::uint64_t bytes_max =
      std::min<std::uint64_t>(AHEAD_BYTES, node.store->arena().bytes() / AHEAD_SHARE);
  std::size_t& next = loads_->next_item;
  for (std::size_t looked = 0; looked < LOOKUPS_MAX && next < body_.items.size(); ++looked) {
    const wire::Item& item = body_.items[next];
    bytes += std::min<std::uint64_t>(item.length, PAGE_BYTES_MAX);
    if (bytes > bytes_max) return;
    ++next;
    const PieceRef piece = find(node, item, false);
    if (piece != nullptr && !piece->is_whole())
      node.store->load(piece, LoadRank::ahead, loads_->stop.flag, ignore);
  }
}

void ReadJob::loaded(Status status, PieceRef piece) {
  if (!is_waiting_) return;
  is_waiting_ = false;
  loads_->has_answer = true;
  loads_->status = status;
  loads_->piece = std::move(piece);
}

/// Whole blocks, and the piece's own short last one. False: no room in this frame.
bool ReadJob::add_run(Node& node, Payload& out, std::size_t room, wire::DataTable& table) {
  const bool is_to_end = current_.end == current_.piece->length();
  std::uint64_t length = current_.end - current_.at;
  if (!is_to_end || length > room) {
    length = std::min<std::uint64_t>(length, room) / BLOCK_BYTES * BLOCK_BYTES;
  }
  if (length == 0) return false;
  const std::size_t hashes = wire::blocks_of(length);
  const auto stored = current_.piece->hashes().subspan(current_.at / BLOCK_BYTES, hashes);
  table.hashes.insert(table.hashes.end(), stored.begin(), stored.end());
  add_to_table(table, length, hashes);
  out.borrow(current_.piece, current_.at, length);
  current_.at += length;
  if (current_.at == current_.end) close_item(node, Status::ok);
  return true;
}

/// Part of one block: the whole block is copied and verified, the part gets its own sum. False: no
/// room.
bool ReadJob::add_cut_block(Node& node, Payload& out, std::size_t room, wire::DataTable& table) {
  thread_local wire::Bytes block;
  const std::size_t index = current_.at / BLOCK_BYTES;
  const std::uint64_t block_at = index * BLOCK_BYTES;
  const std::uint64_t block_end =
      std::min<std::uint64_t>(block_at + BLOCK_BYTES, current_.piece->length());
  const std::uint64_t length = std::min(current_.end, block_end) - current_.at;
  if (length > room) return false;

  std::vector<std::span<std::byte>> runs;
  current_.piece->runs(block_at, block_end - block_at, runs);
  block.clear();
  for (const auto& run : runs) block.insert(block.end(), run.begin(), run.end());
  if (checksum(block) != current_.piece->hashes()[index]) {
    node.store->quarantine(current_.piece);
    close_item(node, Status::miss);
    return true;
  }
  const wire::View part = wire::View(block).subspan(current_.at - block_at, length);
  table.hashes.push_back(checksum(part));
  add_to_table(table, length, 1);
  if (out.is_in_arena) {
    out.borrow(current_.piece, current_.at, length);
  } else {
    out.keep(wire::Bytes(part.begin(), part.end()));
  }
  current_.at += length;
  if (current_.at == current_.end) close_item(node, Status::ok);
  return true;
}

void ReadJob::add_to_table(wire::DataTable& table, std::uint64_t length, std::size_t hashes) const {
  table.pieces.push_back({.item = static_cast<std::uint16_t>(next_item_),
                          .hashes = static_cast<std::uint16_t>(hashes),
                          .length = static_cast<std::uint32_t>(length),
                          .offset = current_.at - current_.begin,
                          .tag = told_tag(body_.items[next_item_], *current_.piece)});
}

void ReadJob::close_item(Node& node, Status status) {
  wire::ResponseItem answer{.item = static_cast<std::uint16_t>(next_item_), .status = status};
  if (status == Status::retry) answer.detail = ROOM_RETRY_MS;
  if (current_.piece) {
    const bool is_page = body_.head.op == wire::Op::get;
    answer.length = is_page ? current_.piece->length() : current_.end - current_.begin;
    answer.gen = told_tag(body_.items[next_item_], *current_.piece);
    answer.seq = current_.piece->seq();
  }
  count(node, status);
  answers_.push_back(answer);
  current_ = {};
  ++next_item_;
}

/// The present item, which ends with this status.
void ReadJob::count(Node& node, Status status) {
  const wire::Item& item = body_.items[next_item_];
  // Perhaps for its name: then it is of no namespace.
  if (status == Status::invalid) return tally_->miss(tally_->other(), Miss::invalid);
  NamespaceTally& space = tally_->of(item.name, body_.head.op == wire::Op::get);
  if (status == Status::ok) {
    space.read_bytes.add(current_.end - current_.begin);
    tally_->hit(space, current_.found_in);
    return follow(node, space, true);
  }
  if (status == Status::retry) return tally_->miss(space, Miss::no_room);
  if (status != Status::miss) return tally_->miss(space, Miss::refused);
  tally_->miss(space, miss_of(node.store->departures().last_cause_of(item.name, item.chunk)));
  follow(node, space, false);
}

/// The present item, for the curves. Ranges of one page count once.
void ReadJob::follow(Node& node, NamespaceTally& space, bool is_found) const {
  const wire::Item& item = body_.items[next_item_];
  if ((item.flags & wire::ITEM_RANGE) != 0 && item.offset != 0) return;
  (is_found ? space.wholes_found : space.wholes_lacking).add();
  const bool is_page = body_.head.op == wire::Op::get;
  const Piece* const piece = is_found ? current_.piece.get() : nullptr;
  const std::uint64_t hash = piece != nullptr ? piece->name_hash() : node.store->hash_of(item.name);
  const std::uint64_t place =
      is_page ? LiveCurves::place_of(hash)
              : LiveCurves::place_of(hash, item.chunk, piece != nullptr ? piece->tag() : item.tag);
  if (!node.curves.follows(place)) [[likely]]
    return;
  std::optional<std::uint64_t> bytes;
  if (piece != nullptr) bytes = piece->length();
  node.curves.got({space.number, place, node.has_quota(item.name, is_page)}, bytes,
                  (item.flags & wire::ITEM_PROBE) == 0);
}

/// Items whose time was over before their turn came.
void ReadJob::count_rest(Status status) {
  if (status != Status::expired) return;
  const bool is_page = body_.head.op == wire::Op::get;
  for (std::size_t at = answers_.size(); at < body_.items.size(); ++at) {
    const std::string_view name = body_.items[at].name;
    const bool is_valid = is_valid_name(name, is_page);
    tally_->miss(is_valid ? tally_->of(name, is_page) : tally_->other(), Miss::timeout);
  }
}

/// Ranges of one page are asked for side by side: the first stands for all.
void ReadJob::note_keys(KeyTrace::Batch& batch) const {
  for (std::size_t at = 0; at < answers_.size(); ++at) {
    const wire::Item& item = body_.items[at];
    const wire::ResponseItem& answer = answers_[at];
    const bool is_hit = answer.status == Status::ok;
    const bool is_later = (item.flags & wire::ITEM_RANGE) != 0 && item.offset != 0;
    if (is_later || (!is_hit && answer.status != Status::miss)) continue;
    batch.add(item.name, body_.head.op == wire::Op::get, item.chunk, item.tag,
              is_hit ? answer.length : item.length,
              is_hit ? KeyTrace::Outcome::hit : KeyTrace::Outcome::miss);
  }
}

}  // namespace gd2fs::serve
