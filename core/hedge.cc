#include "hedge.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>

#include "network.h"

namespace gd2fs {

namespace {

constexpr std::int64_t LATE_MS_MIN = 5;  // sooner is not late, whatever the node does nearly always
constexpr std::uint64_t HEDGE_BYTES_MAX = 16 * MiB;

}  // namespace

bool HedgeBudget::take(std::uint64_t bytes, std::uint64_t requests) noexcept {
  const std::uint64_t reads = reads_.load();
  const std::uint64_t allowed = reads / ONE_IN + 1;
  // What was not spent long ago is not saved up.
  std::uint64_t spent = spent_.load();
  if (allowed > spent + SAVED_MAX) spent_.compare_exchange_strong(spent, allowed - SAVED_MAX);
  if (spent_.fetch_add(requests) + requests > allowed) {
    spent_.fetch_sub(requests);
    return false;
  }
  if (bytes_.fetch_add(bytes) + bytes > BYTES_MAX) {
    bytes_.fetch_sub(bytes);
    spent_.fetch_sub(requests);
    return false;
  }
  hedged_.fetch_add(requests);
  return true;
}

void Hedge::watch(Network& network, RpcRef first, std::size_t slot,
                  std::vector<std::uint32_t> others, std::function<void()> done) {
  network.hedges().note_read();
  first->has_others = true;
  const std::uint64_t bytes = first->body_bytes();
  const auto slow_us = network.link(slot).pace().slow_us(bytes);
  // What the second one brings is copied over, by this process.
  const bool is_copied = !first->is_view() && !first->is_direct;
  if (!slow_us || bytes > HEDGE_BYTES_MAX || !is_copied) {
    first->done = std::move(done);
    return;
  }
  // The request refers to the hedge, and the hedge to the request, until it ends.
  auto hedge = std::make_shared<Hedge>(network, first, slot, std::move(others), std::move(done));
  first->late_ms = now_ms() + std::max(LATE_MS_MIN, *slow_us / 1'000 + 1);
  first->late = [hedge] { hedge->first_is_late(); };
  first->done = [hedge] { hedge->first_ended(); };
}

Hedge::Hedge(Network& network, RpcRef first, std::size_t slot, std::vector<std::uint32_t> others,
             std::function<void()> done)
    : network_(network),
      first_(std::move(first)),
      slot_(slot),
      others_(std::move(others)),
      done_(std::move(done)) {}

Hedge::~Hedge() {
  if (bytes_ != 0) network_.hedges().give_back(bytes_);
}

void Hedge::first_is_late() {
  std::vector<std::pair<std::size_t, RpcRef>> seconds;
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::waiting || !build()) return;
    state_ = State::asked;
    seconds = seconds_;
  }
  for (auto& [slot, rpc] : seconds) network_.link(slot).submit({rpc});
}

/// One request to each of the other nodes. False: some item can be asked of nobody, or there is no
/// budget.
bool Hedge::build() {
  std::map<std::uint32_t, std::size_t> request_of;
  for (const std::uint32_t slot : others_) {
    if (slot == NOBODY || network_.link(slot).is_down()) return false;
    request_of.try_emplace(slot, request_of.size());
  }
  const std::uint64_t bytes = first_->body_bytes();
  if (!network_.hedges().take(bytes, request_of.size())) return false;
  bytes_ = bytes;
  memory_.reset(new (std::nothrow) std::byte[bytes]);
  if (memory_ == nullptr) return false;
  seconds_.resize(request_of.size());
  std::uint64_t at = 0;
  for (std::size_t item = 0; item < others_.size(); ++item) {
    auto& [slot, rpc] = seconds_[request_of[others_[item]]];
    if (rpc == nullptr) {
      slot = others_[item];
      rpc = std::make_shared<Rpc>(first_->op(), first_->operation, first_->deadline_ms);
      rpc->request.head = first_->request.head;
      rpc->done = [self = shared_from_this()] { self->second_ended(); };
    }
    places_.push_back({request_of[others_[item]], rpc->request.items.size()});
    const std::uint64_t length = first_->bodies[item].bytes;
    const Buffer room{memory_.get() + at, static_cast<std::size_t>(length)};
    BufferCursor cursor(std::span(&room, 1));
    // With a name of its own: this request may outlive the call.
    wire::Item copy = first_->request.items[item];
    rpc->add(std::move(copy), cursor, length);
    at += length;
  }
  left_ = seconds_.size();
  return true;
}

void Hedge::first_ended() {
  bool is_final = true;
  {
    const std::lock_guard lock(mutex_);
    const bool is_cancelled = first_->operation != nullptr && first_->operation->is_cancelled();
    const bool is_won = state_ == State::winning && first_->status != Status::ok && !is_cancelled;
    if (is_won) copy_over();
    const bool is_lost = first_->status == Status::unavailable;
    is_final = !(is_lost && state_ == State::asked && left_ != 0);
    state_ = is_final ? State::over : State::alone;
  }
  if (!is_final) return;
  drop_seconds();
  done_();
}

void Hedge::second_ended() {
  bool is_final = false;
  bool is_winner = false;
  {
    const std::lock_guard lock(mutex_);
    --left_;
    if (left_ != 0 || state_ == State::over) return;
    if (state_ == State::asked && is_whole()) {
      state_ = State::winning;
      is_winner = true;
    }
    if (state_ == State::alone) {
      if (is_whole()) copy_over();
      state_ = State::over;
      is_final = true;
    }
  }
  if (is_winner) network_.link(slot_).let_go(first_);
  if (is_final) done_();
}

/// Every item came, whole, and it is what was asked for.
bool Hedge::is_whole() const {
  for (std::size_t item = 0; item < places_.size(); ++item) {
    const Rpc& rpc = *seconds_[places_[item].request].second;
    const std::size_t there = places_[item].item;
    const std::uint64_t tag = first_->request.items[item].tag;
    if (rpc.item_status(there) != Status::ok) return false;
    if (rpc.op() == wire::Op::read && rpc.bodies[there].tag != tag) return false;
  }
  return true;
}

/// The first request has ended: nobody else writes to its memory.
void Hedge::copy_over() {
  first_->answers.resize(places_.size());  // it may never have been sent
  for (std::size_t item = 0; item < places_.size(); ++item) {
    const Rpc& rpc = *seconds_[places_[item].request].second;
    const Body& from = rpc.bodies[places_[item].item];
    Body& to = first_->bodies[item];
    BufferCursor source(std::span(rpc.memory).subspan(from.first));
    BufferCursor target(std::span(first_->memory).subspan(to.first));
    for (std::uint64_t left = from.moved; left != 0;) {
      const Buffer into = target.next(static_cast<std::size_t>(left));
      const Buffer out = source.next(into.bytes);
      std::memcpy(into.at, out.at, out.bytes);  // one run of ours holds all of the item
      left -= out.bytes;
    }
    to.moved = from.moved;
    to.tag = from.tag;
    to.is_corrupt = false;
    first_->answers[item] = rpc.answers[places_[item].item];
    first_->answers[item].item = static_cast<std::uint16_t>(item);
  }
  first_->status = Status::ok;
  network_.hedges().note_win();
}

void Hedge::drop_seconds() {
  std::vector<std::pair<std::size_t, RpcRef>> seconds;
  {
    const std::lock_guard lock(mutex_);
    if (left_ != 0) seconds = seconds_;
  }
  for (auto& [slot, rpc] : seconds) network_.link(slot).let_go(rpc);
}

}  // namespace gd2fs
