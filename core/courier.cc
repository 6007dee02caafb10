#include "courier.h"

#include <algorithm>

namespace gd2fs::serve {
namespace {

constexpr std::uint64_t LOT_BYTES = 2 * MiB;  // of one request, unless a piece is larger
constexpr std::size_t LOT_PIECES = 256;
constexpr std::uint64_t WINDOW_MAX = 16 * MiB;  // on their way to one node
constexpr std::uint64_t WAITING_MAX = 8 * MiB;  // handed in for one node, and not sent yet
constexpr std::size_t WAITING_PIECES = 1024;
constexpr std::size_t ON_WAY_SHARE = 16;  // of the arena: what is on its way cannot be evicted
constexpr std::int64_t OFFER_MS = 10'000;
constexpr std::int64_t PUBLISH_MS = 5'000;
constexpr std::int64_t BACK_OFF_MIN_MS = 100;
constexpr std::int64_t BACK_OFF_MAX_MS = 5'000;
constexpr std::uint32_t RETRIES_MAX = 64;
constexpr std::uint32_t RETRY_STEPS = 8;     // each RETRY_MS longer than the one before
constexpr std::int64_t PATIENCE_MS = 1'000;  // with a node that has not spoken
constexpr std::int64_t BURST_MS = 50;

std::uint64_t lot_bytes_at(std::uint64_t rate) {
  return std::clamp<std::uint64_t>(rate / 16, BLOCK_BYTES, LOT_BYTES);
}

}  // namespace

Courier::Courier(Node& node, std::function<void(std::function<void()>)> post)
    : node_(node),
      post_(std::move(post)),
      rate_(node.options.move_bytes_per_s),
      on_way_max_(std::min<std::uint64_t>(node.options.move_bytes_on_way,
                                          node.store->arena().bytes() / ON_WAY_SHARE)),
      window_max_(std::clamp(on_way_max_ / 2, LOT_BYTES, WINDOW_MAX)),
      lot_bytes_(lot_bytes_at(rate_)) {}

Courier::Target& Courier::target_of(const NodeId& id) {
  const auto [found, is_new] = targets_.try_emplace(id);
  if (is_new) found->second.window_bytes = LOT_BYTES;
  return found->second;
}

Courier::Room Courier::room(const NodeId& id, std::int64_t now_ms) {
  const Target& target = target_of(id);
  if (target.failures > 0 && now_ms < target.not_before_ms) return Room::out_of_reach;
  const bool is_full =
      target.waiting_bytes >= WAITING_MAX || target.waiting.size() >= WAITING_PIECES;
  if (!is_full) return Room::free;
  const bool is_silent = target.on_way_bytes > 0 && now_ms - target.heard_ms > PATIENCE_MS;
  return is_silent ? Room::out_of_reach : Room::busy;
}

void Courier::send(const MoveRef& move, const NodeId& id) {
  Target& target = target_of(id);
  ++count_;
  ++move->waiting_count;
  target.waiting_bytes += move->piece->length();
  target.waiting.push_back({move});
}

void Courier::forget_faults() {
  for (auto& [id, target] : targets_) {
    target.failures = 0;
    target.not_before_ms = 0;
  }
}

void Courier::refill(std::int64_t now_ms) {
  rate_ = node_.move_bytes_per_s.load();
  lot_bytes_ = lot_bytes_at(rate_);
  const double per_ms = static_cast<double>(rate_) / 1'000;
  const auto passed_ms = static_cast<double>(now_ms - std::exchange(refilled_ms_, now_ms));
  const double most = per_ms * BURST_MS + static_cast<double>(lot_bytes_);
  budget_bytes_ = std::min(budget_bytes_ + passed_ms * per_ms, most);
}

/// A single lot may always be on its way.
bool Courier::may_send(const Target& target, std::int64_t now_ms, bool is_whole) const {
  if (target.waiting.empty() || now_ms < target.not_before_ms) return false;
  const bool is_lot = target.waiting_bytes >= lot_bytes_ || target.waiting.size() >= LOT_PIECES;
  if (!is_lot && !is_whole) return false;
  const bool is_question = !target.waiting.front().move->piece->is_whole();
  if (is_question && loading_bytes_ >= on_way_max_) return false;
  const std::uint64_t bytes = std::min(target.waiting_bytes, lot_bytes_);
  const bool has_room =
      target.on_way_bytes + bytes <= target.window_bytes || target.on_way_bytes == 0;
  return has_room && (on_way_bytes_ + bytes <= on_way_max_ || on_way_bytes_ == 0);
}

void Courier::pump(bool is_whole) {
  const std::int64_t now_ms = boottime_ms();
  refill(now_ms);
  for (auto& [id, target] : targets_) {
    while (budget_bytes_ > 0 && may_send(target, now_ms, is_whole)) offer(id, target);
  }
}

std::int64_t Courier::next_ms(std::int64_t now_ms) const {
  std::int64_t next = NEVER_MS;
  for (const auto& [id, target] : targets_) {
    if (target.waiting.empty()) continue;
    if (now_ms < target.not_before_ms) next = std::min(next, target.not_before_ms);
    if (budget_bytes_ > 0) continue;
    const double wait_ms = -budget_bytes_ * 1'000 / static_cast<double>(rate_);
    next = std::min(next, now_ms + 1 + static_cast<std::int64_t>(wait_ms));
  }
  return next;
}

// ---- one lot -------------------------------------------------------------------------

wire::Item Courier::item_of(const Move& move) {
  const Piece& piece = *move.piece;
  wire::Item item;
  item.name = wire::Name::borrowed(piece.name());
  item.flags = piece.is_page() ? wire::ITEM_PAGE : std::uint16_t{0};
  item.flags |= wire::class_flags(piece.eviction_class());
  item.chunk = piece.chunk();
  item.offset = piece.offset();
  item.length = piece.length();
  item.tag = piece.tag();
  item.sink = wire::offer_sink(move.replicas, move.idle_ms);
  item.ttl_s = piece.ttl_left_s();
  return item;
}

void Courier::offer(const NodeId& id, Target& target) {
  const auto lot = std::make_shared<Lot>();
  lot->target = id;
  lot->is_question = !target.waiting.front().move->piece->is_whole();
  auto rpc = std::make_shared<Rpc>(wire::Op::offer, nullptr, now_ms() + OFFER_MS);
  rpc->request.head.priority = wire::PRIORITY_MOVE;
  rpc->is_question = lot->is_question;
  while (!target.waiting.empty() && lot->entries.size() < LOT_PIECES) {
    const Move& move = *target.waiting.front().move;
    const Piece& piece = *move.piece;
    if (lot->bytes > 0 && lot->bytes + piece.length() > lot_bytes_) break;
    if (lot->bytes > 0 && lot->deadline_ms != move.deadline_ms) break;
    if (lot->is_question == piece.is_whole()) break;
    lot->deadline_ms = move.deadline_ms;
    if (lot->is_question) {
      rpc->add(item_of(move));
    } else {
      std::vector<std::span<std::byte>> runs;
      piece.runs(0, piece.length(), runs);
      rpc->add_stored(item_of(move), runs, piece.hashes());
    }
    lot->pieces.push_back(move.piece);
    rpc->request.head.map_epoch = move.epoch;
    if (move.deadline_ms != 0)
      rpc->deadline_ms = std::min(rpc->deadline_ms, now_ms() + move.deadline_ms - boottime_ms());
    lot->bytes += piece.length();
    target.waiting_bytes -= piece.length();
    lot->entries.push_back(std::move(target.waiting.front()));
    target.waiting.pop_front();
  }
  if (target.on_way_bytes == 0) target.heard_ms = boottime_ms();
  target.on_way_bytes += lot->bytes;
  on_way_bytes_ += lot->bytes;
  budget_bytes_ -= static_cast<double>(lot->bytes);
  ask(lot, std::move(rpc), &Courier::take_offered);
}

/// The lot keeps the pieces until nothing reads them any more: `done` of the request holds it.
void Courier::ask(const LotRef& lot, RpcRef rpc, void (Courier::*then)(const LotRef&)) {
  Rpc* const asked = rpc.get();
  rpc->done = [this, lot, asked, then] {
    lot->has_answer = asked->status == Status::ok;
    lot->statuses.clear();
    for (std::size_t at = 0; at < asked->request.items.size(); ++at)
      lot->statuses.push_back(asked->item_status(at));
    post_([this, lot, then] { (this->*then)(lot); });
  };
  node_.peers.ask(lot->target, std::move(rpc));
}

void Courier::take_offered(const LotRef& lot) {
  Target& target = target_of(lot->target);
  target.on_way_bytes -= lot->bytes;
  on_way_bytes_ -= lot->bytes;
  if (!lot->has_answer) return fail_all(lot);
  target.heard_ms = boottime_ms();
  target.failures = 0;
  std::vector<Entry> staged;
  bool has_retry = false;
  for (std::size_t at = 0; at < lot->entries.size(); ++at) {
    Entry& entry = lot->entries[at];
    const Status status = lot->statuses[at];
    const PieceRef& piece = lot->pieces[at];
    if (lot->is_question && status == Status::ok) {
      budget_bytes_ += static_cast<double>(piece->length());
      load(lot->target, std::move(entry));
      continue;
    }
    if (status == Status::ok) {
      Counters::add(node_.counters.moved);
      Counters::add(node_.counters.moved_bytes, piece->length());
    } else {
      budget_bytes_ += static_cast<double>(piece->length());
    }
    if (status == Status::corrupt) check_own(piece);
    has_retry = has_retry || status == Status::retry;
    const bool is_there = status == Status::ok || status == Status::have;
    if (is_there && !piece->is_page()) {
      staged.push_back(std::move(entry));
    } else if (status == Status::retry && entry.tries < RETRIES_MAX) {
      retry(target, std::move(entry));
    } else {
      settle(entry, status);
    }
  }
  target.window_bytes = has_retry ? std::max(target.window_bytes / 2, lot_bytes_)
                                  : std::min(target.window_bytes + lot_bytes_, window_max_);
  lot->entries = std::move(staged);
  if (!lot->entries.empty()) publish(lot);
}

/// It is wanted there, and on disk here. It goes on its way before what waits.
void Courier::load(const NodeId& id, Entry entry) {
  const PieceRef piece = entry.move->piece;
  loading_bytes_ += piece->length();
  node_.store->load(piece, LoadRank::advised, nullptr,
                    [this, id, entry](Status status, const PieceRef& loaded) {
                      post_([this, id, entry, status, loaded]() mutable {
                        loading_bytes_ -= entry.move->piece->length();
                        const bool is_lost = status == Status::miss;  // else it is asked for again
                        if (loaded == nullptr)
                          return settle(entry, is_lost ? status : Status::unavailable);
                        Target& target = target_of(id);
                        entry.move->piece = loaded;
                        target.waiting_bytes += loaded->length();
                        target.waiting.push_front(std::move(entry));
                      });
                    });
}

void Courier::publish(const LotRef& lot) {
  auto rpc = std::make_shared<Rpc>(wire::Op::publish, nullptr, now_ms() + PUBLISH_MS);
  lot->pieces.clear();
  for (const Entry& entry : lot->entries) {
    const Piece& piece = *lot->pieces.emplace_back(entry.move->piece);
    wire::Item item;
    item.name = wire::Name::borrowed(piece.name());
    item.chunk = piece.chunk();
    item.tag = piece.tag();
    item.offset = piece.seq();
    rpc->add(std::move(item));
  }
  ask(lot, std::move(rpc), &Courier::take_published);
}

void Courier::take_published(const LotRef& lot) {
  for (std::size_t at = 0; at < lot->entries.size(); ++at)
    settle(lot->entries[at], lot->statuses[at]);
}

/// Nobody answered. What waits for that node is given up too, so that nothing is kept for it.
void Courier::fail_all(const LotRef& lot) {
  Target& target = target_of(lot->target);
  if (lot->deadline_ms != 0) {  // perhaps there was too little time
    for (std::size_t at = 0; at < lot->entries.size(); ++at)
      settle(lot->entries[at], lot->statuses[at]);
    return;
  }
  target.failures = std::min(target.failures + 1, 16u);
  const std::int64_t pause_ms = std::min(BACK_OFF_MIN_MS << (target.failures - 1), BACK_OFF_MAX_MS);
  target.not_before_ms = boottime_ms() + pause_ms;
  target.window_bytes = LOT_BYTES;
  budget_bytes_ += static_cast<double>(lot->bytes);
  for (std::size_t at = 0; at < lot->entries.size(); ++at)
    settle(lot->entries[at], lot->statuses[at]);
  std::deque<Entry> waiting;
  waiting.swap(target.waiting);
  target.waiting_bytes = 0;
  for (Entry& entry : waiting) settle(entry, Status::unavailable);
}

void Courier::retry(Target& target, Entry entry) {
  const std::uint32_t step = std::min(++entry.tries, RETRY_STEPS);
  target.not_before_ms = boottime_ms() + std::int64_t{step} * RETRY_MS;
  target.waiting_bytes += entry.move->piece->length();
  target.waiting.push_back(std::move(entry));
}

void Courier::settle(Entry& entry, Status status) {
  Move& move = *entry.move;
  --count_;
  --move.waiting_count;
  if (status == Status::full) ++move.refused_count;
  const bool is_there = status == Status::ok || status == Status::have;
  if (!is_there && status != Status::full) ++move.missing_count;
  if (!is_there) move.fault = status;
  if (move.waiting_count == 0) move.done(move);
}

/// The other node says that the sums do not match: is it this copy that has changed?
void Courier::check_own(const PieceRef& piece) {
  for (std::size_t block = 0; block < piece->hashes().size(); ++block) {
    const std::uint64_t at = block * BLOCK_BYTES;
    const std::uint64_t bytes = std::min<std::uint64_t>(BLOCK_BYTES, piece->length() - at);
    if (piece->hash_of(at, bytes) != piece->hashes()[block]) return node_.store->quarantine(piece);
  }
}

}  // namespace gd2fs::serve
