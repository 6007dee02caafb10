#include "ucx_endpoint.h"

#include <utility>

#include "ucx_worker.h"

namespace gd2fs::ucx {

namespace {

// UCX reads a key by what it says of itself. Zeros behind it end such a walk.
constexpr std::size_t KEY_PADDING_BYTES = 1024;

}  // namespace

Endpoint::~Endpoint() { end_all(); }

Result<RemoteKeyRef> Endpoint::unpack(std::span<const std::byte> packed) {
  const Calls& calls = worker_.calls();
  std::vector<std::byte> padded(packed.begin(), packed.end());
  padded.resize(packed.size() + KEY_PADDING_BYTES);
  abi::RemoteKey* handle = nullptr;
  if (const auto status = calls.ep_rkey_unpack(handle_, padded.data(), &handle); status != abi::OK)
    return worker_.context_->library().fault("a peer's memory cannot be reached", status);
  return RemoteKeyRef(new RemoteKey(calls, handle));
}

void Endpoint::transfer(Way way, std::span<const Move> moves, const MemoryRef& memory,
                        std::vector<RemoteKeyRef> keys, std::function<void(bool)> ended) {
  const Calls& calls = worker_.calls();
  Transfer& transfer =
      transfers_.emplace_back(Transfer{*this, memory, std::move(keys), std::move(ended)});
  transfer.self = std::prev(transfers_.end());
  abi::RequestParam param;
  param.fields = abi::REQUEST_CALLBACK | abi::REQUEST_USER_DATA;
  param.callback = &moved;
  param.user_data = &transfer;
  if (memory != nullptr) {
    param.fields |= abi::REQUEST_MEMORY;
    param.memory = memory->handle();
  }
  for (const Move& move : moves) {
    if (is_broken_) break;
    const auto there = move.there;
    abi::RemoteKey* const key = move.key->handle();
    note(way == Way::put
             ? calls.put_nbx(handle_, move.here.data(), move.here.size(), there, key, &param)
             : calls.get_nbx(handle_, move.here.data(), move.here.size(), there, key, &param),
         transfer);
  }
  param.fields &= ~abi::REQUEST_MEMORY;
  if (!is_broken_) note(calls.ep_flush_nbx(handle_, &param), transfer);
  step_done(transfer, is_broken_ ? abi::LAST_ERROR : abi::OK);
}

/// What a call came to that may go on: then `moved` is told.
void Endpoint::note(abi::Request request, Transfer& transfer) {
  if (request == nullptr) return;
  if (abi::is_error(request)) {
    transfer.has_failed = true;
    return break_off();
  }
  ++transfer.left;
}

void Endpoint::moved(void* request, abi::Status status, void* transfer) {
  auto& self = *static_cast<Transfer*>(transfer);  // the user data of `transfer`
  self.endpoint.worker_.calls().request_free(request);
  self.endpoint.step_done(self, status);
}

void Endpoint::step_done(Transfer& transfer, abi::Status status) {
  --transfer.left;
  if (status != abi::OK) {
    transfer.has_failed = true;
    break_off();
  }
  if (transfer.left > 0) return;
  if (transfer.has_failed) return worker_.look_at(*this);
  worker_.later([ended = std::move(transfer.ended)] { ended(true); });
  transfers_.erase(transfer.self);
  worker_.look_at(*this);
}

void Endpoint::broken(void* endpoint, abi::Endpoint*, abi::Status) {
  static_cast<Endpoint*>(endpoint)->break_off();  // the argument of `Worker::connect`
}

void Endpoint::break_off() {
  if (std::exchange(is_broken_, true) || on_broken_ == nullptr) return;
  worker_.later(std::exchange(on_broken_, nullptr));
}

void Endpoint::close(std::function<void()> when_closed) {
  on_broken_ = nullptr;
  is_broken_ = true;
  when_closed_ = std::move(when_closed);
  if (!worker_.context_->has_cards()) {  // it goes with its worker
    is_flushed_ = true;
    return worker_.look_at(*this);
  }
  abi::RequestParam param;
  param.fields = abi::REQUEST_CALLBACK | abi::REQUEST_USER_DATA | abi::REQUEST_FLAGS;
  param.flags = abi::CLOSE_BY_FORCE;
  param.callback = &closed;
  param.user_data = this;
  const abi::Request request = worker_.calls().ep_close_nbx(handle_, &param);
  if (request == nullptr || abi::is_error(request)) flush_worker();
}

void Endpoint::closed(void* request, abi::Status, void* endpoint) {
  auto& self = *static_cast<Endpoint*>(endpoint);  // the user data of `close`
  self.worker_.calls().request_free(request);
  // Not from within UCX: it is in the middle of taking the endpoint away.
  self.worker_.later([&self] { self.flush_worker(); });
}

/// A closed endpoint's last pieces are the worker's.
void Endpoint::flush_worker() {
  if (worker_.is_over_) return;
  abi::RequestParam param;
  param.fields = abi::REQUEST_CALLBACK | abi::REQUEST_USER_DATA;
  param.callback = &flushed;
  param.user_data = this;
  const abi::Request request = worker_.calls().worker_flush_nbx(worker_.handle_, &param);
  if (request != nullptr && !abi::is_error(request)) return;
  is_flushed_ = true;
  worker_.look_at(*this);
}

void Endpoint::flushed(void* request, abi::Status, void* endpoint) {
  auto& self = *static_cast<Endpoint*>(endpoint);  // the user data of `flush_worker`
  self.worker_.calls().request_free(request);
  self.is_flushed_ = true;
  self.worker_.look_at(self);
}

/// Only once nothing moves any more.
void Endpoint::end_all() {
  std::list<Transfer> over;
  over.swap(transfers_);
  for (Transfer& transfer : over) transfer.ended(false);
  if (when_closed_ != nullptr) std::exchange(when_closed_, nullptr)();
}

}  // namespace gd2fs::ucx
