#include "link.h"

#include <algorithm>
#include <cassert>

namespace gd2fs {

namespace {

constexpr std::uint32_t TRANSFER_LOSSES_MAX = 2;  // no more than a request bears
constexpr std::int64_t RETRY_MS_MIN = 100;
constexpr std::int64_t RETRY_MS_MAX = 2'000;

}  // namespace

Link::Link(std::string node_name, std::vector<tcp::Address> addresses, LinkOptions options,
           std::span<const std::unique_ptr<IoThread>> threads, std::size_t first_thread,
           std::function<void()> on_down)
    : node_name_(std::move(node_name)),
      options_(std::move(options)),
      on_down_(std::move(on_down)),
      keeper_(std::make_shared<LeaseKeeper>(*this, options_.socket_name, options_.hello,
                                            options_.token)),
      heard_ms_(options_.streams),
      addresses_(std::move(addresses)),
      is_ready_(options_.streams),
      transports_(options_.streams),
      is_doubtful_(options_.streams),
      has_failed_(std::max<std::size_t>(options_.local.size(), 1)) {
  for (std::size_t at = 0; at < options_.streams; ++at) {
    IoThread& thread = *threads[(first_thread + at) % threads.size()];
    streams_.push_back(std::make_unique<Stream>(*this, thread, at));
    thread.post([&thread, stream = streams_.back().get()] { thread.enlist(*stream); });
  }
}

Link::~Link() {
  for (const auto& stream : streams_) keeper_->take_back(stream->take_told());
  keeper_->detach();
}

void Link::wake_for_releases() {
  const std::lock_guard lock(mutex_);
  for (std::size_t at = 0; at < is_ready_.size(); ++at) {
    if (!is_ready_[at] || transports_[at] != Transport::shm) continue;
    Stream* const stream = streams_[at].get();
    return stream->thread().post([stream] { stream->tell_releases(); });
  }
  // Nothing else may be asked of this node for a long time: a stream is connected for them.
  const auto unconnected = std::find(is_ready_.begin(), is_ready_.end(), false);
  if (unconnected == is_ready_.end()) return;
  wake(static_cast<std::size_t>(unconnected - is_ready_.begin()));
}

// ---- any thread ----------------------------------------------------------------------

void Link::submit(std::vector<RpcRef> rpcs) {
  if (rpcs.empty()) return;
  std::vector<RpcRef> refused;
  std::vector<RpcRef> cancelled;
  std::size_t taken_count = 0;
  std::vector<Stream*> chosen;
  const std::int64_t now = now_us();
  {
    const std::lock_guard lock(mutex_);
    for (RpcRef& rpc : rpcs) {
      const bool is_cancelled = is_closed_ || rpc->is_cancelled();
      if (is_cancelled || is_down_) {
        (is_cancelled ? cancelled : refused).push_back(std::move(rpc));
        continue;
      }
      next_deadline_ms_ = std::min({next_deadline_ms_, rpc->deadline_ms, rpc->late_ms});
      rpc->enter(pace_, now);
      (rpc->is_bulk() ? bulk_ : small_).push_back(std::move(rpc));
      ++taken_count;
    }
    chosen = choose_streams(taken_count);
  }
  for (Stream* stream : chosen) stream->thread().post([stream] { stream->pump(); });
  if (refused.empty() && cancelled.empty()) return;
  streams_.front()->thread().post([refused = std::move(refused), cancelled = std::move(cancelled)] {
    finish_all(cancelled, Status::cancelled);
    finish_all(refused, Status::unavailable);
  });
}

/// Who is woken for so many new requests: those that are connected, in turn, then the others; at
/// first one for each local address, as nobody knows yet which of them serve. Last come those that
/// have been silent for a while: they take nothing.
std::vector<Stream*> Link::choose_streams(std::size_t count) {
  if (count != 0 && ready_count_ == 0) count = std::max(count, options_.local.size());
  std::vector<Stream*> chosen;
  const auto rank_of = [this](std::size_t stream) {
    return is_doubtful_[stream] ? 2 : is_ready_[stream] ? 0 : 1;
  };
  for (const int rank : {0, 1, 2}) {
    for (std::size_t at = 0; at < streams_.size() && chosen.size() < count; ++at) {
      const std::size_t stream = (next_stream_ + at) % streams_.size();
      if (rank_of(stream) == rank) chosen.push_back(streams_[stream].get());
    }
  }
  ++next_stream_;
  return chosen;
}

void Link::cancel(const std::shared_ptr<OperationState>& operation) {
  std::vector<RpcRef> found;
  {
    const std::lock_guard lock(mutex_);
    for (std::deque<RpcRef>* queue : {&small_, &bulk_}) {
      for (RpcRef& rpc : *queue)
        if (operation == nullptr || rpc->operation == operation) found.push_back(std::move(rpc));
      std::erase(*queue, nullptr);
    }
  }
  for (const auto& stream : streams_)
    stream->thread().post([stream = stream.get(), operation] { stream->cancel(operation.get()); });
  if (found.empty()) return;
  streams_.front()->thread().post(
      [found = std::move(found)] { finish_all(found, Status::cancelled); });
}

void Link::let_go(const RpcRef& rpc) {
  rpc->is_unwanted.store(true);  // also if it is on its way from one place to another now
  if (take_out(rpc)) {
    return streams_.front()->thread().post([rpc] { rpc->finish(Status::cancelled); });
  }
  for (const auto& stream : streams_)
    stream->thread().post([stream = stream.get(), rpc] { stream->cancel_one(*rpc); });
}

bool Link::take_out(const RpcRef& rpc) {
  const std::lock_guard lock(mutex_);
  return std::erase(small_, rpc) + std::erase(bulk_, rpc) != 0;
}

void Link::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  cancel(nullptr);
}

std::string Link::last_fault() const {
  const std::lock_guard lock(mutex_);
  return last_fault_;
}

void Link::move_to(std::vector<tcp::Address> addresses) {
  const std::lock_guard lock(mutex_);
  addresses_ = std::move(addresses);
}

void Link::leave() {
  std::vector<RpcRef> failed;
  {
    const std::lock_guard lock(mutex_);
    if (has_left_) return;
    has_left_ = is_down_ = true;
    last_fault_ = "it has left the cluster";
    take_all(failed);
  }
  for (const auto& stream : streams_)
    stream->thread().post([stream = stream.get()] { stream->lose("it has left the cluster"); });
  if (failed.empty()) return;
  streams_.front()->thread().post(
      [failed = std::move(failed)] { finish_all(failed, Status::unavailable); });
}

void Link::rejoin() {
  const std::lock_guard lock(mutex_);
  if (!has_left_) return;
  has_left_ = is_down_ = false;
  retry_ms_ = 0;
}

void Link::look_now() {
  std::size_t looking = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!is_down_ || has_left_ || is_closed_) return;
    retry_at_ms_ = 0;
    retry_ms_ = 0;
    looking = looking_;
  }
  wake(looking);
}

Transport Link::transport() const {
  const std::lock_guard lock(mutex_);
  Transport best = Transport::automatic;
  for (std::size_t at = 0; at < is_ready_.size(); ++at) {
    if (!is_ready_[at]) continue;
    // They are listed from the best to the worst, after `automatic`.
    if (best == Transport::automatic || transports_[at] < best) best = transports_[at];
  }
  return best;
}

Result<ArenaMapRef> Link::map_arena(const tcp::Descriptor& descriptor, std::uint64_t bytes) {
  const auto known = [&]() -> ArenaMapRef {
    const std::lock_guard lock(mutex_);
    ArenaMapRef map = arena_map_.lock();
    const bool is_it = map != nullptr && map->memory().size() == bytes && map->is_of(descriptor);
    return is_it ? map : nullptr;
  };
  if (ArenaMapRef map = known()) return map;
  auto opened = ArenaMap::open(descriptor, bytes);
  if (!opened) return opened;
  if (ArenaMapRef map = known()) return map;  // another stream was quicker
  const std::lock_guard lock(mutex_);
  arena_map_ = *opened;
  return opened;
}

void Link::rename(std::vector<std::string> names) {
  const std::lock_guard lock(mutex_);
  names_ = std::move(names);
}

std::vector<std::string> Link::names() const {
  const std::lock_guard lock(mutex_);
  return names_;
}

std::vector<tcp::Address> Link::addresses() const {
  const std::lock_guard lock(mutex_);
  return addresses_;
}

// ---- the queue -----------------------------------------------------------------------

RpcRef Link::take(bool is_bulk_welcome) {
  const std::lock_guard lock(mutex_);
  std::deque<RpcRef>& queue = small_.empty() && is_bulk_welcome ? bulk_ : small_;
  if (queue.empty()) return nullptr;
  RpcRef rpc = std::move(queue.front());
  queue.pop_front();
  if (small_.empty() && bulk_.empty()) next_deadline_ms_ = NEVER_MS;
  return rpc;
}

bool Link::is_waiting() const {
  const std::lock_guard lock(mutex_);
  return !small_.empty() || !bulk_.empty() || keeper_->is_waiting();
}

std::int64_t Link::next_deadline() const {
  const std::lock_guard lock(mutex_);
  return next_deadline_ms_;
}

bool Link::has_others_waiting() const {
  const std::lock_guard lock(mutex_);
  const auto has_others = [](const RpcRef& rpc) { return rpc->has_others; };
  return std::any_of(small_.begin(), small_.end(), has_others) ||
         std::any_of(bulk_.begin(), bulk_.end(), has_others);
}

bool Link::expire(std::int64_t now) {
  std::vector<RpcRef> overdue;
  std::vector<std::function<void()>> late;
  {
    const std::lock_guard lock(mutex_);
    if (now < next_deadline_ms_) return false;
    next_deadline_ms_ = NEVER_MS;
    for (std::deque<RpcRef>* queue : {&small_, &bulk_}) {
      for (RpcRef& rpc : *queue) {
        if (now >= rpc->deadline_ms) {
          overdue.push_back(std::move(rpc));
        } else {
          if (auto call = rpc->take_late(now); call != nullptr) late.push_back(std::move(call));
          next_deadline_ms_ = std::min({next_deadline_ms_, rpc->deadline_ms, rpc->late_ms});
        }
      }
      std::erase(*queue, nullptr);
    }
  }
  for (const auto& call : late) call();
  finish_all(overdue, Status::expired);
  return !overdue.empty();
}

void Link::finish_all(const std::vector<RpcRef>& rpcs, Status status) {
  for (const RpcRef& rpc : rpcs) rpc->finish(status);
}

void Link::take_all(std::vector<RpcRef>& out) {
  for (std::deque<RpcRef>* queue : {&small_, &bulk_}) {
    std::move(queue->begin(), queue->end(), std::back_inserter(out));
    queue->clear();
  }
  next_deadline_ms_ = NEVER_MS;
}

// ---- up and down ---------------------------------------------------------------------

bool Link::wants_stream(std::size_t index, std::int64_t now) const {
  const std::lock_guard lock(mutex_);
  if (is_closed_ || has_left_) return false;
  if (is_down_) return index == looking_ && now >= retry_at_ms_;  // one stream looks for it
  return !small_.empty() || !bulk_.empty() || keeper_->is_waiting();
}

std::int64_t Link::retry_at(std::size_t index) const {
  const std::lock_guard lock(mutex_);
  const bool is_looking = is_down_ && index == looking_;
  return is_looking && !is_closed_ && !has_left_ ? retry_at_ms_ : NEVER_MS;
}

void Link::note_transfer_loss(std::int64_t now) noexcept {
  if (options_.transport != Transport::automatic) return;
  if (transfer_losses_.fetch_add(1) + 1 < TRANSFER_LOSSES_MAX) return;
  transfer_losses_ = 0;
  transfers_at_ms_ = now + TRANSFERS_AGAIN_MS;
}

bool Link::may_connect() const {
  const std::lock_guard lock(mutex_);
  return !is_closed_ && !is_down_;
}

bool Link::others_heard_since(std::size_t index, std::int64_t since) const noexcept {
  for (std::size_t at = 0; at < heard_ms_.size(); ++at)
    if (at != index && heard_ms_[at].load() >= since) return true;
  return false;
}

void Link::doubt(std::size_t index) {
  for (std::size_t at = 0; at < streams_.size(); ++at)
    if (at != index) streams_[at]->thread().post([stream = streams_[at].get()] { stream->look(); });
}

void Link::set_doubtful(std::size_t index, bool is_doubtful) {
  const std::lock_guard lock(mutex_);
  is_doubtful_[index] = is_doubtful;
}

void Link::stream_connecting() {
  const std::lock_guard lock(mutex_);
  ++connecting_count_;
}

void Link::stream_greeted(std::uint64_t boot) {
  {
    const std::lock_guard lock(mutex_);
    const bool is_other = boot_ != 0 && boot != boot_;
    boot_ = boot;
    if (!is_other) return;
    arena_map_.reset();
    retry_ms_ = 0;
  }
  pace_.forget();
}

void Link::stream_connected(std::size_t index, Transport transport) {
  const std::lock_guard lock(mutex_);
  assert(connecting_count_ > 0);
  --connecting_count_;
  ++ready_count_;
  is_ready_[index] = true;
  transports_[index] = transport;
  is_down_ = has_left_;
  retry_ms_ = 0;
  has_failed_.assign(has_failed_.size(), false);
}

std::int64_t Link::stream_failed(std::size_t index, const std::string& reason) {
  std::vector<RpcRef> failed;
  std::int64_t retry_at_ms = NEVER_MS;
  std::size_t looking = index;
  {
    const std::lock_guard lock(mutex_);
    assert(connecting_count_ > 0);
    --connecting_count_;
    last_fault_ = reason;
    const bool is_alone = ready_count_ == 0 && connecting_count_ == 0;
    if (is_alone && !tries_another(index)) go_down(failed);
    if (is_down_) retry_at_ms = retry_at_ms_;
    looking = looking_;
  }
  if (looking != index) wake(looking);
  if (retry_at_ms != NEVER_MS && on_down_ != nullptr) on_down_();
  finish_all(failed, Status::unavailable);
  return retry_at_ms;
}

/// The node may be there, and only this local address of no use. True: one that has not been tried
/// is next.
bool Link::tries_another(std::size_t index) {
  has_failed_[index % has_failed_.size()] = true;
  const auto other = std::find(has_failed_.begin(), has_failed_.end(), false);
  if (is_down_ || other == has_failed_.end()) return false;
  looking_ = static_cast<std::size_t>(other - has_failed_.begin());
  return true;
}

void Link::wake(std::size_t index) {
  Stream* stream = streams_[index].get();
  stream->thread().post([stream] { stream->pump(); });
}

void Link::stream_lost(std::size_t index, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  assert(ready_count_ > 0);
  --ready_count_;
  is_ready_[index] = false;
  is_doubtful_[index] = false;
  last_fault_ = reason;
}

void Link::node_silent() {
  std::vector<RpcRef> failed;
  std::size_t looking = 0;
  {
    const std::lock_guard lock(mutex_);
    last_fault_ = "it has gone silent";
    go_down(failed);
    looking = looking_;
  }
  wake(looking);
  for (const auto& stream : streams_)
    stream->thread().post([stream = stream.get()] { stream->lose("it has gone silent"); });
  finish_all(failed, Status::unavailable);
}

void Link::go_down(std::vector<RpcRef>& failed) {
  is_down_ = true;
  retry_ms_ = std::clamp(retry_ms_ * 2, RETRY_MS_MIN, RETRY_MS_MAX);
  retry_at_ms_ = now_ms() + retry_ms_;
  looking_ = (looking_ + 1) % streams_.size();  // by another path, if there is one
  take_all(failed);
}

}  // namespace gd2fs
