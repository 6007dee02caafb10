#include "stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lease_reader.h"
#include "link.h"

namespace gd2fs {

namespace {

// Bulk requests in flight on one stream: two, or more small ones up to so many bytes.
constexpr std::size_t BULK_COUNT = 2;
constexpr std::uint64_t BULK_BYTES = 4 * MiB;
constexpr std::size_t SMALL_MAX = REQUESTS_MAX / 2;  // the rest is room for those let go
constexpr std::size_t TURN_BYTES = 4 * MiB;          // received before others have their turn
constexpr std::uint32_t LOST_MAX = 2;                // streams that one request may outlive
constexpr std::int64_t FRESH_MS = 5;                 // heard within this: the path works

}  // namespace

Stream::Stream(Link& link, IoThread& thread, std::size_t index)
    : link_(link), thread_(thread), index_(index) {}

// ---- work ----------------------------------------------------------------------------

void Stream::pump() {
  const std::int64_t now = now_ms();
  if (state_ == State::idle && now >= retry_at_ms_ && link_.wants_stream(index_, now)) connect(now);
  if (state_ == State::ready) {
    take_work();
    flush();
  }
  thread_.wake_at(link_.next_deadline());
  if (state_ != State::idle) return;
  if (link_.is_waiting()) thread_.wake_at(retry_at_ms_);
  thread_.wake_at(std::max(link_.retry_at(index_), retry_at_ms_));
}

bool Stream::take_arena(const wire::Header& header, wire::View table) {
  const auto bytes = wire::decode_arena(table, header.items);
  if (!bytes || transport() != Transport::shm || arena_ != nullptr) return false;
  auto map = link_.map_arena(in_->take_descriptor(), *bytes);
  if (!map) {
    goodbye_ = map.error().message;
    has_failed_shm_ = link_.options().transport == Transport::automatic;
    return false;
  }
  arena_ = std::move(*map);
  thread_.post([this] { tell_releases(); });  // of streams before this one
  return true;
}

bool Stream::take_lease(const wire::Header& header, wire::View table) {
  if (header.request == 0) return take_arena(header, table);
  if (arena_ == nullptr) return false;
  const auto lease = wire::decode_lease(table, header.items, arena_->memory().size());
  const std::optional<Rpc*> rpc = receiver_of(header.request);
  if (!lease || !rpc) return false;
  if (*rpc == nullptr && lease->id != 0) {
    link_.keeper()->release(lease->id);
    return true;
  }
  if (*rpc == nullptr) {
    std::uint64_t bytes = 0;
    for (const wire::DataPiece& piece : lease->data.pieces) bytes += piece.length;
    in_->count_leased(bytes, 0);
    return true;
  }
  if (!(*rpc)->is_next(lease->data)) return false;
  if ((*rpc)->is_view() != (lease->id != 0)) return false;
  LeaseReader reader(**rpc, *lease, arena_->memory(), link_.options().is_verifying);
  reader.take();
  if (lease->id == 0) in_->count_leased(reader.bytes(), reader.corrupt_blocks());
  if (lease->id != 0) note_view(**rpc, lease->id);
  return true;
}

void Stream::note_view(Rpc& rpc, std::uint64_t lease) {
  rpc.arena = arena_;
  const bool is_known = !rpc.leases.empty() && rpc.leases.back().lease() == lease;
  if (!is_known) rpc.leases.emplace_back(link_.keeper(), lease);
}

void Stream::tell_releases() {
  if (state_ != State::ready || transport() != Transport::shm) return;
  const std::vector<std::uint64_t> leases = link_.keeper()->take();
  if ((challenge_.capabilities & wire::VIEW) == 0) return;  // it gave none, and would take offence
  constexpr std::size_t LEASES_MAX = TABLE_BYTES_MAX / sizeof(std::uint64_t);
  for (std::size_t at = 0; at < leases.size(); at += LEASES_MAX) {
    const std::size_t count = std::min(LEASES_MAX, leases.size() - at);
    wire::encode_release(out_->control(), std::span(leases).subspan(at, count), in_->consumed());
  }
  if (!leases.empty()) {
    told_.push_back(leases);  // they leak when nobody tells them again after a loss
    acknowledge(0, wire::CONFIRM);
  }
  flush();
}

std::vector<std::uint64_t> Stream::take_told() {
  std::vector<std::uint64_t> leases;
  for (const auto& told : told_) leases.insert(leases.end(), told.begin(), told.end());
  told_.clear();
  return leases;
}

// ---- losing --------------------------------------------------------------------------

void Stream::close() {
  // First of all: no byte of a request moves any more.
  end_transfers();
  if (channel_) thread_.forget(channel_.fd());
  channel_.close();
  arena_ = nullptr;  // a node that has ended gets its memory back
  asked_ms_ = doubted_ms_ = 0;
  state_ = State::idle;
}

void Stream::lose(const std::string& reason) {
  if (state_ == State::idle) return;
  if (state_ != State::ready) {
    connect_failed(reason);
    return;
  }
  if (exposed_count_ > 0) link_.note_transfer_loss(now_ms());
  close();
  link_.stream_lost(index_, goodbye_.empty() ? reason : goodbye_);
  link_.keeper()->take_back(take_told());
  if (link_.keeper()->is_waiting()) link_.wake_for_releases();
  release_pending(now_ms(), true);
  // The state is whole again before anything is asked anew.
  thread_.post([this] { pump(); });
}

/// Asks again what may be asked again, and ends the rest. `is_counted`: each can be lost so only a
/// few times, as it may be what breaks the streams.
void Stream::release_pending(std::int64_t now, bool is_counted) {
  std::unordered_map<std::uint64_t, Pending> pending;
  pending.swap(pending_);
  exposed_count_ = 0;
  bulk_count_ = 0;
  bulk_bytes_ = 0;
  std::vector<RpcRef> again;
  if (held_ != nullptr) again.push_back(std::move(held_));  // never sent
  held_ = nullptr;
  for (auto& [request, entry] : pending) {
    RpcRef rpc = std::move(entry.rpc);
    if (rpc == nullptr) continue;
    const bool is_repeatable = rpc->is_idempotent() && rpc->lost_count < LOST_MAX;
    rpc->lost_count += is_counted ? 1 : 0;
    if (entry.ends_as) {
      rpc->finish(*entry.ends_as);
    } else if (!rpc->is_idempotent()) {
      rpc->finish(Status::unknown);
    } else if (is_repeatable && now < rpc->deadline_ms) {
      again.push_back(std::move(rpc));
    } else {
      rpc->finish(Status::unavailable);
    }
  }
  link_.submit(std::move(again));
}

// ---- requests ------------------------------------------------------------------------

void Stream::take_work() {
  const std::int64_t now = now_ms();
  if (asked_ms_ != 0) return thread_.wake_at(now);  // does this path work? Others take what waits
  if (held_ != nullptr) start(std::move(held_));
  const std::size_t room = std::min<std::size_t>(SMALL_MAX, challenge_.requests_max);
  while (pending_.size() < room) {
    RpcRef rpc = link_.take(bulk_count_ < BULK_COUNT || bulk_bytes_ < BULK_BYTES);
    if (rpc == nullptr) return;
    if (is_to_ask_first(*rpc, now)) {
      held_ = std::move(rpc);
      return ask_for_word(now);
    }
    start(std::move(rpc));
  }
}

/// What cannot be asked twice is not sent into a path that may be dead, when there are others.
bool Stream::is_to_ask_first(const Rpc& rpc, std::int64_t now) const {
  return !rpc.is_idempotent() && !is_unix_ && link_.has_paths() && now - heard_ms_ > FRESH_MS;
}

void Stream::start(RpcRef rpc) {
  const std::int64_t now = now_ms();
  if (rpc->is_cancelled()) return rpc->finish(Status::cancelled);
  if (now >= rpc->deadline_ms) return rpc->finish(Status::expired);
  if (rpc->is_view() && (challenge_.capabilities & wire::VIEW) == 0)
    return rpc->finish(Status::denied);
  if (pending_.empty()) heard_ms_ = now;
  thread_.wake_at(heard_ms_ + Silence::MS_MIN / 2);
  rpc->rewind();
  rpc->request.head.deadline_ms = static_cast<std::uint32_t>(rpc->deadline_ms - now);
  const std::size_t eager_max = std::min<std::size_t>(challenge_.eager_bytes_max, EAGER_BYTES_MAX);
  // What is moved may be there already: its bytes wait for the grant.
  const bool is_moved = rpc->request.head.priority == wire::PRIORITY_MOVE;
  const bool is_eager = rpc->is_upload() && !is_moved && rpc->body_bytes() <= eager_max;
  const bool is_exposed = expose(*rpc, is_eager);
  if (rpc->is_direct && !is_exposed) {
    rpc->lacks_transfers = true;
    return rpc->finish(Status::unavailable);
  }
  const std::uint64_t request = ++last_request_;
  wire::Bytes& control = out_->control();
  const std::size_t at = control.size();
  wire::encode_request(control, request, is_eager ? wire::EAGER : std::uint8_t{0}, rpc->request);
  acknowledged_ = in_->consumed();
  wire::restamp(std::span(control).subspan(at), acknowledged_);
  if (is_eager) {
    std::vector<std::uint16_t> items(rpc->bodies.size());
    for (std::size_t item = 0; item < items.size(); ++item)
      items[item] = static_cast<std::uint16_t>(item);
    out_->upload(request, *rpc, std::move(items));
  }
  thread_.wake_at(std::min(rpc->deadline_ms, rpc->late_ms));
  const std::uint64_t bulk_bytes = rpc->is_bulk() ? rpc->body_bytes() : 0;
  bulk_count_ += bulk_bytes != 0 ? 1 : 0;
  bulk_bytes_ += bulk_bytes;
  Pending pending{std::move(rpc), bulk_bytes, false, now};
  pending.is_exposed = is_exposed;
  exposed_count_ += is_exposed ? 1 : 0;
  pending_.emplace(request, std::move(pending));
  if (is_exposed) move_bytes();
}

void Stream::drop(std::unordered_map<std::uint64_t, Pending>::iterator entry) {
  exposed_count_ -= entry->second.is_exposed ? 1 : 0;
  pending_.erase(entry);
}

/// The call goes on without this request: no byte of its memory is touched from here on.
void Stream::let_go(std::uint64_t request, Pending& pending, Status status) {
  if (pending.is_exposed) return leave(request, pending, status);
  const RpcRef rpc = std::move(pending.rpc);
  pending.rpc = nullptr;
  out_->forget(request);
  // Of one that waits for its confirmation all frames have come: nothing is left to cancel.
  if (!pending.is_confirming) {
    wire::encode_ack(out_->control(), wire::Kind::cancel, request, in_->consumed());
  }
  rpc->finish(status);
}

void Stream::cancel(const OperationState* operation) {
  const bool is_held_hit =
      held_ != nullptr && (operation == nullptr || held_->operation.get() == operation);
  if (is_held_hit) std::exchange(held_, nullptr)->finish(Status::cancelled);
  for (auto& [request, pending] : pending_) {
    if (pending.rpc == nullptr) continue;
    if (operation == nullptr || pending.rpc->operation.get() == operation)
      let_go(request, pending, Status::cancelled);
  }
  if (state_ == State::ready) flush();
}

void Stream::cancel_one(const Rpc& rpc) {
  if (held_.get() == &rpc) return std::exchange(held_, nullptr)->finish(Status::cancelled);
  const auto found = std::find_if(pending_.begin(), pending_.end(),
                                  [&](const auto& each) { return each.second.rpc.get() == &rpc; });
  if (found == pending_.end()) return;
  let_go(found->first, found->second, Status::cancelled);
  if (state_ == State::ready) flush();
}

// ---- frames --------------------------------------------------------------------------

std::optional<Rpc*> Stream::receiver_of(std::uint64_t request) {
  const auto found = pending_.find(request);
  if (found == pending_.end()) return {};
  return found->second.rpc.get();
}

bool Stream::take_frame(const wire::Header& header, wire::View table) {
  if (header.kind == wire::Kind::goodbye) {
    goodbye_ = wire::decode_goodbye(table);
    return false;
  }
  if (state_ != State::ready) return take_greeting(header, table);
  switch (header.kind) {
    case wire::Kind::response: return take_response(header, table);
    case wire::Kind::grant: return take_grant(header, table);
    case wire::Kind::acked: return take_confirmation(header);
    case wire::Kind::lease: return take_lease(header, table);
    case wire::Kind::map: return take_map(table);
    case wire::Kind::placed: return take_placed(header, table);
    case wire::Kind::ack: return true;  // no payload is spliced to nodes
    default: return false;
  }
}

bool Stream::take_map(wire::View table) {
  const auto map = wire::decode_map(table);
  if (map && link_.options().on_map != nullptr) link_.options().on_map(*map);
  return map.has_value();
}

bool Stream::take_grant(const wire::Header& header, wire::View table) {
  const auto found = pending_.find(header.request);
  const auto grants = wire::decode_grant(table, header.items);
  if (found == pending_.end() || !grants) return false;
  Rpc* rpc = found->second.rpc.get();
  if (rpc == nullptr || found->second.ends_as) return true;
  if (!rpc->is_upload()) return false;
  if (rpc->is_question) {
    if (!rpc->absorb_grants(*grants)) return false;
    let_go(found->first, found->second, Status::ok);
    return true;
  }
  std::vector<std::uint16_t> items;
  for (const wire::Grant& grant : *grants) {
    if (grant.item >= rpc->bodies.size()) return false;
    const Body& body = rpc->bodies[grant.item];
    if (grant.status == Status::ok && body.moved == 0) items.push_back(grant.item);
  }
  out_->upload(header.request, *rpc, std::move(items), found->second.is_exposed);
  return true;
}

bool Stream::take_response(const wire::Header& header, wire::View table) {
  const auto found = pending_.find(header.request);
  if (found == pending_.end() || found->second.is_confirming) return false;
  RpcRef rpc = found->second.rpc;
  if (rpc != nullptr && !rpc->absorb(header, table)) return false;
  if ((header.flags & wire::LAST) == 0) return true;
  // Once a node has hung up, wrong bytes say that its memory serves others by now, and nothing
  // about the copy that it keeps: the request is lost with the stream.
  if (rpc != nullptr && rpc->has_corrupt() && tcp::has_hung_up(channel_.fd())) return false;
  bulk_count_ -= found->second.bulk_bytes != 0 ? 1 : 0;
  bulk_bytes_ -= found->second.bulk_bytes;
  silence_.note(now_ms() - found->second.since_ms);
  retry_ms_ = 0;  // this path works
  if (rpc != nullptr && rpc->is_to_confirm) {
    found->second.is_confirming = true;
    acknowledge(header.request, wire::CONFIRM);
    return true;
  }
  const std::optional<Status> ends_as = found->second.ends_as;
  if (found->second.is_exposed) link_.note_transfer();
  drop(found);
  if (in_->reference_end() > acknowledged_) acknowledge(0);
  if (rpc == nullptr) return true;
  out_->forget(header.request);
  if (ends_as) {
    rpc->finish(*ends_as);
    return true;
  }
  rpc->settle();
  rpc->finish(Status::ok);
  return true;
}

/// Every byte up to the node's count was in place when it was copied.
bool Stream::take_confirmation(const wire::Header& header) {
  if (header.request == 0) {  // the word that was asked for; over shared memory, of releases
    if (!told_.empty()) told_.pop_front();
    return true;
  }
  const auto found = pending_.find(header.request);
  if (found == pending_.end() || !found->second.is_confirming) return false;
  RpcRef rpc = std::move(found->second.rpc);
  drop(found);
  if (rpc == nullptr) return true;
  rpc->settle();
  rpc->finish(Status::ok);
  return true;
}

/// Tells a node that sends by reference how far its bytes have been copied out.
void Stream::acknowledge(std::uint64_t request, std::uint8_t flags) {
  acknowledged_ = in_->consumed();
  wire::encode_ack(out_->control(), wire::Kind::ack, request, acknowledged_, flags);
}

void Stream::flush() {
  const Outbound::Progress progress = out_->send(channel_, in_->consumed());
  if (progress == Outbound::Progress::closed) return lose(end_reason());
  const bool is_blocked = channel_.is_full();
  if (is_blocked == is_waiting_to_send_) return;
  is_waiting_to_send_ = is_blocked;
  const std::uint32_t events = is_blocked ? EPOLLIN | EPOLLOUT : EPOLLIN;
  thread_.rewatch(channel_.fd(), events, *this);
}

void Stream::ready(std::uint32_t events) {
  if (state_ == State::idle) return;
  if (state_ == State::connecting) {
    const int fault = tcp::connect_fault(channel_.fd());
    if (fault == 0) return begin_greeting();
    close();
    state_ = State::connecting;
    if (!try_address(now_ms())) connect_failed(std::strerror(fault));
    return;
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
    const Inbound::Progress progress = in_->receive(channel_, TURN_BYTES);
    hear(now_ms());
    if (progress == Inbound::Progress::closed) return lose(end_reason());
    if (progress == Inbound::Progress::broken) return lose("the node broke the protocol");
    const bool is_due = in_->consumed() - acknowledged_ >= ack_bytes_;
    if (is_due && in_->reference_end() > acknowledged_) acknowledge(0);
    if (progress == Inbound::Progress::more && has_buffered()) thread_.post([this] { read_on(); });
  }
  if (state_ == State::ready) take_work();
  flush();
}

/// The turn ended in the middle of what was read: perhaps the socket has nothing more to say.
void Stream::read_on() {
  const bool is_open = state_ != State::idle && state_ != State::connecting;
  if (is_open && has_buffered()) ready(EPOLLIN);
}

/// There are bytes of which the system does not tell again.
bool Stream::has_buffered() const { return in_->has_staged() || channel_.has_buffered(); }

std::string Stream::end_reason() const {
  const tls::Fault fault = channel_.fault();
  return fault.cause == tls::Cause::nothing ? "the connection was closed" : fault.message;
}

// ---- time ----------------------------------------------------------------------------

std::int64_t Stream::tick(std::int64_t now) {
  bool has_expired = link_.expire(now);
  if (state_ != State::idle && state_ != State::ready) {
    if (now < connect_until_ms_) return std::min(connect_until_ms_, watch_transfers(now));
    connect_failed("no answer within " + std::to_string(link_.options().connect_ms) + " ms");
  }
  std::int64_t next = NEVER_MS;
  std::vector<std::function<void()>> late;
  bool is_to_ask = false;
  for (auto& [request, pending] : pending_) {
    if (pending.rpc == nullptr || pending.ends_as) continue;
    if (now >= pending.rpc->deadline_ms) {
      has_expired = true;
      let_go(request, pending, Status::expired);
    } else {
      if (auto call = pending.rpc->take_late(now); call != nullptr) late.push_back(std::move(call));
      const std::int64_t ask_at = ask_at_ms(pending);
      is_to_ask |= now >= ask_at;
      next = std::min(
          {next, pending.rpc->deadline_ms, pending.rpc->late_ms, now < ask_at ? ask_at : NEVER_MS});
    }
  }
  for (const auto& call : late) call();
  next = std::min({next, expire_held(now), watch_transfers(now)});
  if (has_expired && is_silent(now)) {
    link_.node_silent();
  } else if (is_to_ask && state_ == State::ready) {
    ask_for_word(now);
    flush();
  } else if (has_expired && state_ == State::ready) {
    flush();
  }
  next = std::min({next, watch_silence(now), watch_node(now)});
  if (state_ == State::idle) {
    pump();
    next = std::min(next, std::max(link_.retry_at(index_), retry_at_ms_));
  }
  return std::min(next, link_.next_deadline());
}

}  // namespace gd2fs
