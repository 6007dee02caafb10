// A stream's one-sided transfers: how its node reaches the caller's memory, and how that ends.
#include <algorithm>
#include <utility>

#include "link.h"
#include "stream.h"

namespace gd2fs {

namespace {

constexpr std::int64_t FENCE_MS = 1'000;  // for the node's last word on a request nobody waits for
constexpr std::int64_t LOOK_MS = 5;       // UCX does not ring for all that it waits for
constexpr std::size_t PROGRESS_MAX = 64;  // then other streams of the thread have their turn
constexpr std::size_t KEYS_TOLD_MAX = KEYS_MAX / 2;  // then the node is told which are over

}  // namespace

// ---- a way to this process -----------------------------------------------------------

bool Stream::wants_rdma() const {
  const bool is_possible =
      !is_unix_ && link_.options().registrations != nullptr && !channel_.is_tls();
  return is_possible && now_ms() >= rdma_at_ms_;
}

/// After a node was not reached in time: is it tried without?
bool Stream::leaves_rdma(std::int64_t now) {
  if (link_.options().transport != Transport::automatic || !link_.may_connect()) return false;
  goodbye_.clear();
  rdma_at_ms_ = now + TRANSFERS_AGAIN_MS;
  connect_until_ms_ = now + link_.options().connect_ms;
  candidates_left_ = candidates_.size();
  thread_.wake_at(connect_until_ms_);
  return try_address(now);
}

/// After the greeting. False: the stream goes on without; else it waits, or `goodbye_` says why it
/// cannot go on.
bool Stream::reach() {
  const bool is_granted = wants_rdma() && (challenge_.capabilities & wire::RDMA) != 0;
  if (!is_granted) return lacks_rdma("it offers none: start it with `--rdma on`");
  auto worker = link_.options().registrations->context()->make_worker();
  if (!worker) return lacks_rdma(worker.error().message);
  worker_ = std::move(*worker);
  thread_.watch(worker_->descriptor(), EPOLLIN, hands_);
  wire::encode_peer(out_->control(), worker_->address());
  state_ = State::reaching;
  thread_.wake_at(now_ms() + LOOK_MS);
  move_bytes();
  return true;
}

/// There are no transfers, for this reason. True: then there shall be no stream; see `goodbye_`.
bool Stream::lacks_rdma(const std::string& fault) {
  if (link_.options().transport != Transport::rdma) return false;
  goodbye_ = "no RDMA: " + fault;
  return true;
}

bool Stream::take_peer(wire::View table) {
  const auto answer = wire::decode_peer(table);
  if (!answer) return false;
  wire::TableReader reader(*answer);
  const std::string fault(reader.text(answer->size()));
  if (!fault.empty()) {
    end_transfers();
    if (lacks_rdma(fault)) return false;
  }
  begin_ready(challenge_);
  return true;
}

/// The node reaches nothing of this process any more.
void Stream::end_transfers() {
  keys_.clear();
  if (worker_ == nullptr) return;
  thread_.forget(worker_->descriptor());
  if (exposed_count_ > 0) ucx::Worker::strand(std::move(worker_));
  worker_ = nullptr;
}

void Stream::move_bytes() {
  if (worker_ == nullptr) return;
  std::size_t steps = 0;
  while (steps < PROGRESS_MAX && worker_->progress()) ++steps;
  if (steps < PROGRESS_MAX && worker_->may_sleep(is_reached())) return;
  if (std::exchange(is_to_move_, true)) return;
  thread_.post([this] {
    is_to_move_ = false;
    move_bytes();
  });
}

/// Does the node reach this process now?
bool Stream::is_reached() const { return state_ == State::reaching || exposed_count_ > 0; }

// ---- requests ------------------------------------------------------------------------

/// Names the memory of a request to the node, where that is worth it. True: until its end the node
/// may reach it.
bool Stream::expose(Rpc& rpc, bool is_eager) {
  const bool is_read = rpc.op() == wire::Op::get || rpc.op() == wire::Op::read;
  const bool is_write = rpc.is_upload() && !rpc.is_question && !is_eager;
  if (worker_ == nullptr || !rpc.is_bulk() || !(is_read || is_write)) return false;
  if (!link_.may_transfer(now_ms())) return false;
  if (rpc.memory.size() > ITEMS_MAX) return false;  // a table would not hold them
  if (!find_registrations(rpc)) return false;
  if (is_read) {
    for (const Buffer& run : rpc.memory) rpc.name(run, rpc.request.sinks);
  }
  std::size_t names_bytes = 0;
  for (const wire::Item& item : rpc.request.items) names_bytes += item.name.size();
  const std::size_t table_bytes =
      wire::request_table_bytes(rpc.op(), rpc.request.items.size(), names_bytes) +
      rpc.request.sinks.size() * wire::SINK_BYTES;
  if (table_bytes > TABLE_BYTES_MAX || !has_room_for_keys(rpc.registrations.size())) {
    rpc.request.sinks.clear();
    rpc.registrations.clear();
    return false;
  }
  for (const RegistrationRef& each : rpc.registrations) tell(each);
  worker_->expect();
  thread_.wake_at(now_ms() + LOOK_MS);
  return true;
}

/// Memory that nobody has registered is, for this request, where transfers are asked for.
bool Stream::find_registrations(Rpc& rpc) const {
  Registrations& all = *link_.options().registrations;
  const bool is_forced = link_.options().transport == Transport::rdma;
  for (std::size_t at = 0; at < rpc.memory.size(); ++at) {
    Buffer run = rpc.memory[at];
    if (!rpc.registrations.empty() &&
        rpc.registrations.back()->memory().covers({run.at, run.bytes}))
      continue;
    RegistrationRef found = all.find(run);
    if (found == nullptr && is_forced) {
      for (std::size_t next = at + 1; next < rpc.memory.size(); ++next) {
        if (rpc.memory[next].at != run.at + run.bytes) break;
        run.bytes += rpc.memory[next].bytes;
      }
      found = all.make(run);
    }
    if (found == nullptr) {
      rpc.registrations.clear();
      return false;
    }
    rpc.registrations.push_back(std::move(found));
  }
  return true;
}

/// The node takes so many of a stream, and no more.
bool Stream::has_room_for_keys(std::size_t count) {
  if (keys_.size() + count > KEYS_TOLD_MAX) forget_keys();
  return keys_.size() + count <= KEYS_MAX;
}

void Stream::tell(const RegistrationRef& registration) {
  const auto [told, is_new] = keys_.try_emplace(registration->number());
  if (told->second.lock() == registration) return;
  // Numbers come round again, after a very long time.
  if (!is_new) wire::encode_key(out_->control(), {.number = registration->number()});
  told->second = registration;
  const ucx::Memory& memory = registration->memory();
  wire::Key key{.number = registration->number(),
                .at = reinterpret_cast<std::uintptr_t>(memory.bytes().data()),  // as a number
                .length = memory.bytes().size()};
  key.packed.assign(memory.key().begin(), memory.key().end());
  wire::encode_key(out_->control(), key);
}

/// Of memory that is not registered any more.
void Stream::forget_keys() {
  std::erase_if(keys_, [&](const auto& each) {
    if (!each.second.expired()) return false;
    wire::encode_key(out_->control(), {.number = each.first});
    return true;
  });
}

bool Stream::take_placed(const wire::Header& header, wire::View table) {
  const auto found = pending_.find(header.request);
  const auto placed = wire::decode_placed(table, header.items);
  if (found == pending_.end() || !placed || !found->second.is_exposed) return false;
  if (found->second.ends_as) return true;  // nobody counts any more how far it has come
  Rpc& rpc = *found->second.rpc;
  if (!rpc.is_next(*placed)) return false;
  in_->count_corrupt(rpc.take_placed(*placed, link_.options().is_verifying));
  return true;
}

/// Nobody waits for this request any more, yet the node may still reach its memory.
void Stream::leave(std::uint64_t request, Pending& pending, Status status) {
  if (pending.ends_as) return;
  pending.ends_as = status;
  pending.fence_ms = now_ms() + FENCE_MS;
  thread_.wake_at(pending.fence_ms);
  out_->forget(request);
  wire::encode_ack(out_->control(), wire::Kind::cancel, request, in_->consumed());
}

/// When to look again. A node that has said nothing in time reaches nothing from here on.
std::int64_t Stream::watch_transfers(std::int64_t now) {
  if (worker_ == nullptr) return NEVER_MS;
  std::int64_t fence = NEVER_MS;
  for (const auto& [request, pending] : pending_) fence = std::min(fence, pending.fence_ms);
  if (is_reached()) move_bytes();
  if (now < fence) return is_reached() ? now + LOOK_MS : NEVER_MS;
  lose("it did not end a transfer that nobody waits for");
  return NEVER_MS;
}

}  // namespace gd2fs
