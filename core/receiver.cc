#include "receiver.h"

#include <algorithm>
#include <chrono>

#include "mover.h"
#include "planted.h"

namespace gd2fs::serve {
namespace {

constexpr std::size_t ITEMS_PER_LOOK = 64;  // reservations between two looks at the clock
constexpr auto TURN = std::chrono::milliseconds(1);
constexpr std::int64_t IDLE_GRANT_MS = 2'000;
constexpr std::uint64_t IDLE_GRANT_BYTES = 64 * KiB * IDLE_GRANT_MS / 1'000;
constexpr std::size_t TARGETS_WAITING_MAX = 256 * 1024;  // of one stream
constexpr std::size_t STAGED_NAMES_MAX = 4096;           // older ones are found by their age

std::uint64_t body_bytes(const wire::Request& body) {
  std::uint64_t sum = 0;
  for (const wire::Item& item : body.items) {
    sum += std::min<std::uint64_t>(item.length, PAGE_BYTES_MAX + 1);
  }
  return sum;
}

/// Planted: as if nobody had looked at the sums, here or at the reader.
void spoil(const Piece& piece, std::uint64_t at) {
  std::vector<std::span<std::byte>> runs;
  piece.runs(at, 1, runs);
  runs.front().front() ^= std::byte{1};
}

/// What was there already counts as stored: its use is as fresh.
void note_keys(const Offer& offer, KeyTrace::Batch& batch) {
  for (std::size_t at = 0; at < offer.items.size(); ++at) {
    const Status status = offer.items[at].status;
    if (status != Status::ok && status != Status::have) continue;
    const wire::Item& item = offer.body.items[at];
    const bool is_page = (item.flags & wire::ITEM_PAGE) != 0;
    batch.add(item.name, is_page, item.chunk, is_page ? 0 : item.tag, item.length,
              KeyTrace::Outcome::stored);
  }
}

std::uint8_t replicas_of(std::uint32_t sink) {
  return static_cast<std::uint8_t>(std::min<std::uint32_t>(sink & 0xff, REPLICAS_MAX));
}

std::uint64_t idle_ms_of(std::uint32_t sink) { return (sink >> 8) * wire::IDLE_STEP_MS; }

/// By which map the piece was brought here. One that was moved is looked at again: whether its
/// mover has lived to bring it to all others is not known.
/// So is one whose writer has passed over an owner: that one shall have it too.
std::uint64_t writer_epoch(const Node& node, const wire::RequestHead& head, std::uint16_t flags) {
  if (head.priority == wire::PRIORITY_MOVE || (flags & wire::ITEM_SHORT) != 0) return 0;
  return head.map_epoch != 0 ? head.map_epoch : node.mover->epoch();
}

}  // namespace

// ---- offers --------------------------------------------------------------------------

std::string Receiver::add(std::uint64_t request, wire::Request body, bool is_eager,
                          std::int64_t deadline_ms, Replies& out, std::vector<bool> refused) {
  if (is_eager && body_bytes(body) > node_.eager_bytes_max()) {
    return "eager OFFER of " + std::to_string(body_bytes(body)) + " B, at most " +
           std::to_string(node_.eager_bytes_max());
  }
  auto offer = std::make_shared<Offer>();
  offer->request = request;
  offer->items.resize(body.items.size());
  offer->body = std::move(body);
  offer->is_eager = is_eager;
  offer->refused = std::move(refused);
  offer->deadline_ms = deadline_ms;
  offers_.push_back(offer);
  ++reserving_count_;
  if (!is_eager) return {};
  while (!offer->is_granted()) reserve(*offer, offer->reserved_count);
  granted(*offer, out);
  return {};
}

void Receiver::reserve_some(Replies& out) {
  for (const OfferRef& each : offers_) {
    if (each->granted_ms != 0) continue;
    const OfferRef offer = each;  // `granted` may take it out of the list
    if (reserve_until_turn_ends(*offer)) granted(*offer, out);
    return;
  }
}

bool Receiver::reserve_until_turn_ends(Offer& offer) {
  const auto turn_ends = std::chrono::steady_clock::now() + TURN;
  for (std::size_t steps = 1; !offer.is_granted(); ++steps) {
    if (steps % ITEMS_PER_LOOK == 0 && std::chrono::steady_clock::now() > turn_ends) return false;
    reserve(offer, offer.reserved_count);
  }
  return true;
}

void Receiver::reserve(Offer& offer, std::size_t index) {
  const wire::Item& wanted = offer.body.items[index];
  OfferedItem& item = offer.items[index];
  ++offer.reserved_count;
  item.status = offered_item_fault(wanted);
  if (item.status != Status::ok) return;
  const bool is_page = (wanted.flags & wire::ITEM_PAGE) != 0;
  if (index < offer.refused.size() && offer.refused[index]) {
    item.status = Status::full;
    node_.store->note_refused(wanted.name, is_page, wanted.chunk, wanted.tag, wanted.length,
                              {Cause::not_admitted});
    return;
  }
  const wire::RequestHead& head = offer.body.head;
  const bool is_moved = head.priority == wire::PRIORITY_MOVE;
  if (filling_bytes_ > 0 && filling_bytes_ + wanted.length > node_.filling_bytes_max) {
    const bool is_here =
        is_page ? node_.store->find_page(wanted.name, false) != nullptr
                : node_.store->find_piece(wanted.name, wanted.chunk, wanted.tag, false) != nullptr;
    item.status = is_here ? Status::have : Status::retry;
    return;
  }
  Reserved reserved = node_.store->reserve({.name = wanted.name,
                                            .is_page = is_page,
                                            .chunk = wanted.chunk,
                                            .tag = wanted.tag,
                                            .offset = wanted.offset,
                                            .length = wanted.length,
                                            .ttl_s = wanted.ttl_s,
                                            .replicas = replicas_of(wanted.sink),
                                            .epoch = writer_epoch(node_, head, wanted.flags),
                                            .idle_ms = is_moved ? idle_ms_of(wanted.sink) : 0,
                                            .eviction_class = wire::class_of(wanted.flags),
                                            .is_moved = is_moved});
  item.status = reserved.status;
  if (reserved.status != Status::ok) return;
  item.piece = std::move(reserved.piece);
  item.left = wanted.length;
  item.claimed.resize(wire::blocks_of(wanted.length));
  filling_bytes_ += wanted.length;
  ++offer.open_count;
}

void Receiver::granted(Offer& offer, Replies& out) {
  --reserving_count_;
  offer.granted_ms = boottime_ms();
  if (marked_ms_ == 0) {
    marked_ms_ = offer.granted_ms;
    marked_bytes_ = bytes_received_;
  }
  if (!offer.is_eager) encode_grants(offer, out.bytes);
  if (offer.is_done()) finish(offer, out);
}

OfferRef Receiver::find(std::uint64_t request) const {
  const auto found = std::find_if(offers_.begin(), offers_.end(),
                                  [&](const OfferRef& each) { return each->request == request; });
  return found == offers_.end() ? nullptr : *found;
}

// ---- frames --------------------------------------------------------------------------

std::string Receiver::announce(std::uint64_t request, const wire::DataTable& table,
                               Frame& frame) const {
  frame.offer = find(request);
  if (frame.offer && frame.offer->granted_ms == 0) {
    return "DATA for request " + std::to_string(request) + " came before its GRANT";
  }
  std::size_t hash_at = 0;
  for (const wire::DataPiece& piece : table.pieces) {
    if (frame.offer) {
      if (std::string fault = claim(*frame.offer, piece); !fault.empty()) return fault;
    }
    frame.runs.push_back({piece.item, piece.offset, piece.length, hash_at, piece.hashes > 0});
    hash_at += piece.hashes;
  }
  frame.hashes = table.hashes;
  return {};
}

std::string Receiver::begin_frame(const wire::Header& header, const wire::DataTable& table) {
  frame_.runs.clear();
  frame_.at = 0;
  frame_.done = frame_.verified = 0;
  left_ = header.payload_bytes();
  return announce(header.request, table, frame_);
}

bool Receiver::is_wanted(const Frame& frame, const Run& run) {
  return frame.offer && frame.offer->items[run.item].piece != nullptr;
}

std::size_t Receiver::next(std::size_t bytes_max, std::vector<iovec>& into) const {
  const bool is_wanted_now = is_wanted(frame_, frame_.runs[frame_.at]);
  std::vector<std::span<std::byte>> runs;
  std::uint64_t done = frame_.done;
  std::size_t room = is_wanted_now ? bytes_max : left_;
  for (std::size_t at = frame_.at; at < frame_.runs.size() && room > 0; ++at) {
    const Run& run = frame_.runs[at];
    if (is_wanted(frame_, run) != is_wanted_now) break;
    const std::uint64_t length = std::min<std::uint64_t>(run.length - done, room);
    if (is_wanted_now) {
      frame_.offer->items[run.item].piece->runs(run.offset + done, length, runs);
    }
    room -= length;
    done = 0;
  }
  for (const auto& run : runs) into.push_back({run.data(), run.size()});
  return is_wanted_now ? 0 : left_ - room;
}

void Receiver::received(std::size_t bytes, Replies& out) {
  bytes_received_ += bytes;
  left_ -= bytes;
  tally_.moved(by_, Direction::in, bytes);
  take(frame_, bytes, out);
  if (left_ == 0) frame_.offer = nullptr;
}

/// The next bytes of a frame are in place, or were thrown away.
void Receiver::take(Frame& frame, std::uint64_t bytes, Replies& out) {
  while (bytes > 0) {
    const Run run = frame.runs[frame.at];
    const std::uint64_t taken = std::min<std::uint64_t>(bytes, run.length - frame.done);
    bytes -= taken;
    advance(frame, run, taken, out);
    if (frame.done == run.length) {
      ++frame.at;
      frame.done = frame.verified = 0;
    }
  }
}

void Receiver::advance(Frame& frame, const Run& run, std::uint64_t bytes, Replies& out) {
  frame.done += bytes;
  if (!frame.offer || frame.offer->open_count == 0) return;  // it is over, or ends
  Offer& offer = *frame.offer;
  OfferedItem& item = offer.items[run.item];
  if (item.claimed.empty()) return;
  while (item.piece && frame.verified < frame.done) {
    const std::uint64_t length = std::min<std::uint64_t>(BLOCK_BYTES, run.length - frame.verified);
    if (frame.verified + length > frame.done) break;
    verify(frame, run, frame.verified, length);
    frame.verified += length;
  }
  item.left -= bytes;
  if (item.left > 0) return;
  complete(offer, run.item);
  --offer.open_count;
  if (offer.is_done()) finish(offer, out);
}

/// `at`: in the run. The block lies in the piece's own memory, and is in cache still.
void Receiver::verify(Frame& frame, const Run& run, std::uint64_t at, std::uint64_t length) {
  OfferedItem& item = frame.offer->items[run.item];
  const std::uint64_t hash = item.piece->hash_of(run.offset + at, length);
  if (run.is_summed && hash != frame.hashes[run.hash_at + at / BLOCK_BYTES]) {
    Counters::add(node_.counters.corrupt_in);
    let_go(*frame.offer, run.item, Status::corrupt);
    return;
  }
  const bool is_spoilt = is_planted_now("skip_checksum", 16);
  if (is_spoilt) spoil(*item.piece, run.offset + at);
  item.piece->set_hash((run.offset + at) / BLOCK_BYTES,
                       is_spoilt ? item.piece->hash_of(run.offset + at, length) : hash);
}

// ---- pulls ---------------------------------------------------------------------------

std::string Receiver::pull(std::uint64_t request, const wire::Source& source,
                           std::vector<Target> targets) {
  Pull pull{{}, std::move(targets)};
  if (std::string fault = announce(request, source.data, pull.frame); !fault.empty()) return fault;
  if (!pull.frame.offer) return {};
  const auto is_refused = [&](const Run& run) {
    return pull.frame.offer->items[run.item].claimed.empty();
  };
  if (std::all_of(pull.frame.runs.begin(), pull.frame.runs.end(), is_refused)) return {};
  targets_waiting_ += pull.targets.size();
  if (targets_waiting_ > TARGETS_WAITING_MAX)
    return "more than " + std::to_string(TARGETS_WAITING_MAX) + " sinks wait to be taken from";
  ++pull.frame.offer->pull_count;
  pulls_.push_back(std::move(pull));
  return {};
}

/// What nobody wants any more is stepped over.
void Receiver::start_pull(Transfers& transfers, Replies& out) {
  const auto pull = std::make_shared<Pull>(std::move(pulls_.front()));
  pulls_.pop_front();
  targets_waiting_ -= pull->targets.size();
  TargetCursor cursor(pull->targets);
  std::vector<ucx::Move> moves;
  std::vector<ucx::RemoteKeyRef> keys;
  std::vector<std::span<std::byte>> runs;
  for (const Run& run : pull->frame.runs) {
    if (!is_wanted(pull->frame, run)) {
      cursor.skip(run.length);
      continue;
    }
    const PieceRef& piece = pull->frame.offer->items[run.item].piece;
    runs.clear();
    piece->runs(run.offset, run.length, runs);
    for (const auto& part : runs) cursor.pair(part, moves, keys);
    pull->pieces.push_back(piece);
    pull->moved_bytes += run.length;
  }
  if (moves.empty()) return pulled(*pull, true, out);
  transfers.start(ucx::Way::get, moves, std::move(keys),
                  [this, pull, &out](bool is_whole) { pulled(*pull, is_whole, out); });
}

/// Its bytes are in place, or never will be: then the stream is at its end.
void Receiver::pulled(Pull& pull, bool is_whole, Replies& out) {
  Offer& offer = *pull.frame.offer;
  if (!is_whole || offer.is_over) return;
  --offer.pull_count;
  std::uint64_t bytes = 0;
  for (const Run& run : pull.frame.runs) bytes += run.length;
  bytes_received_ += pull.moved_bytes;
  tally_.moved(Transport::rdma, Direction::in, pull.moved_bytes);
  take(pull.frame, bytes, out);
  if (!offer.is_over && offer.is_done()) finish(offer, out);
}

// ---- ends ----------------------------------------------------------------------------

void Receiver::complete(Offer& offer, std::size_t index) {
  const PieceRef piece = offer.items[index].piece;
  if (!piece) return;  // corrupt, and gone already
  if (is_planted_now("acknowledge_before_publish", 4)) return let_go(offer, index, Status::ok);
  const Status status =
      piece->is_page() ? node_.store->publish_page(piece) : node_.store->stage(piece);
  const bool is_moved = offer.body.head.priority == wire::PRIORITY_MOVE;
  if (status == Status::ok && !is_moved)
    tally_.of(piece->name(), piece->is_page()).written_bytes.add(piece->length());
  if (status == Status::ok || status == Status::have) node_.follow_stored(*piece, tally_);
  if (status == Status::ok && !piece->is_page()) remember_staged(*piece);
  if (status == Status::ok && piece->is_page()) node_.mover->note(*piece);
  let_go(offer, index, status);
}

void Receiver::let_go(Offer& offer, std::size_t index, Status status) {
  OfferedItem& item = offer.items[index];
  if (item.piece) filling_bytes_ -= offer.body.items[index].length;
  item.piece = nullptr;
  item.status = status;
}

void Receiver::finish(Offer& offer, Replies& out) {
  offer.is_over = true;
  if (node_.key_trace.is_on() && offer.body.head.priority != wire::PRIORITY_MOVE) [[unlikely]]
    node_.key_trace.note(wire::Op::offer,
                         [&offer](KeyTrace::Batch& batch) { note_keys(offer, batch); });
  encode_offer_response(offer, out.bytes);
  out.ends.push_back(offer.request);
  std::erase_if(offers_, [&](const OfferRef& each) { return each.get() == &offer; });
  if (offers_.empty()) marked_ms_ = 0;
}

bool Receiver::end(std::uint64_t request, Status status, Replies& out) {
  const OfferRef offer = find(request);
  if (!offer) return false;
  if (offer->granted_ms == 0) --reserving_count_;
  for (std::size_t index = 0; index < offer->items.size(); ++index) {
    const bool is_open = offer->items[index].piece || index >= offer->reserved_count;
    if (is_open) let_go(*offer, index, status);
  }
  offer->pull_count -= std::erase_if(pulls_, [&](const Pull& each) {
    const bool is_its = each.frame.offer == offer;
    targets_waiting_ -= is_its ? each.targets.size() : 0;
    return is_its;
  });
  offer->open_count = 0;
  if (offer->is_done()) finish(*offer, out);
  return true;
}

void Receiver::tick(std::int64_t now_ms, Replies& out) {
  std::vector<std::uint64_t> expired;
  const bool is_time_to_look = marked_ms_ != 0 && now_ms - marked_ms_ >= IDLE_GRANT_MS;
  const bool is_idle = is_time_to_look && bytes_received_ - marked_bytes_ < IDLE_GRANT_BYTES;
  for (const OfferRef& offer : offers_) {
    const bool is_late = offer->deadline_ms != 0 && now_ms >= offer->deadline_ms;
    const bool is_stalled = is_idle && offer->granted_ms != 0 && offer->granted_ms <= marked_ms_;
    if (is_late || is_stalled) expired.push_back(offer->request);
  }
  if (is_time_to_look) {
    marked_ms_ = now_ms;
    marked_bytes_ = bytes_received_;
  }
  for (const std::uint64_t request : expired) end(request, Status::expired, out);
}

void Receiver::clear() {
  for (const OfferRef& offer : offers_) {
    offer->is_over = true;
    for (OfferedItem& item : offer->items) item.piece = nullptr;
  }
  offers_.clear();
  pulls_.clear();
  targets_waiting_ = 0;
  frame_ = {};
  left_ = 0;
  reserving_count_ = 0;
  filling_bytes_ = 0;
}

void Receiver::remember_staged(const Piece& piece) {
  if (staged_.size() == STAGED_NAMES_MAX) staged_.pop_front();
  staged_.push_back({piece.name(), piece.chunk(), piece.tag()});
}

std::vector<Store::StagedName> Receiver::take_staged() {
  std::vector<Store::StagedName> names(staged_.begin(), staged_.end());
  staged_.clear();
  return names;
}

}  // namespace gd2fs::serve
