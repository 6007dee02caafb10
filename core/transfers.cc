#include "transfers.h"

#include <algorithm>

#include "assertion.h"
#include "store.h"

namespace gd2fs::serve {

void TargetCursor::skip(std::uint64_t bytes) {
  while (bytes > 0) {
    GD2FS_ASSERT(!targets_.empty());
    const std::uint64_t here = std::min(bytes, targets_.front().length - done_);
    bytes -= here;
    done_ += here;
    if (done_ < targets_.front().length) return;
    targets_ = targets_.subspan(1);
    done_ = 0;
  }
}

void TargetCursor::pair(std::span<std::byte> run, std::vector<ucx::Move>& moves,
                        std::vector<ucx::RemoteKeyRef>& keys) {
  while (!run.empty()) {
    GD2FS_ASSERT(!targets_.empty());
    const Target& target = targets_.front();
    const auto here =
        static_cast<std::size_t>(std::min<std::uint64_t>(run.size(), target.length - done_));
    moves.push_back({run.first(here), target.at + done_, target.in->key.get()});
    if (keys.empty() || keys.back() != target.in->key) keys.push_back(target.in->key);
    run = run.subspan(here);
    skip(here);
  }
}

Result<std::unique_ptr<Transfers>> Transfers::open(const ucx::ContextRef& context,
                                                   ucx::MemoryRef memory) {
  auto worker = context->make_worker();
  if (!worker) return worker.error();
  return std::unique_ptr<Transfers>(new Transfers(std::move(*worker), std::move(memory)));
}

/// Whoever waits for transfers has their targets still: their keys go before the worker that they
/// lie in.
Transfers::~Transfers() {
  for (const auto& [number, each] : registered_) each->key = nullptr;
  for (const auto& each : forgotten_)
    if (const auto left = each.lock()) left->key = nullptr;
  if (endpoint_ != nullptr) worker_->close(std::move(endpoint_), [] {});
  worker_ = nullptr;
}

void Transfers::connect(std::span<const std::byte> address, std::function<void(std::string)> told) {
  GD2FS_ASSERT(endpoint_ == nullptr);
  auto connected = worker_->connect(address, [this] { is_broken_ = true; });
  if (!connected) {
    is_broken_ = true;
    return told(connected.error().message);
  }
  endpoint_ = std::move(*connected);
  // Nothing of either side is exposed before the way is open.
  endpoint_->transfer(ucx::Way::put, {}, nullptr, {}, [this, told = std::move(told)](bool is_open) {
    is_connected_ = is_open;
    told(is_open ? "" : "its worker cannot be reached");
  });
}

std::string Transfers::take(const wire::Key& key) {
  if (!is_connected_) return "a KEY came before its PEER was answered";
  if (key.packed.empty()) {
    forget(key.number);
    return {};
  }
  if (registered_.contains(key.number)) return "a KEY came twice";
  if (registered_.size() == KEYS_MAX)
    return "more than " + std::to_string(KEYS_MAX) + " registrations were named";
  auto unpacked = endpoint_->unpack(key.packed);
  if (!unpacked) return unpacked.error().message;
  registered_.emplace(key.number, std::make_shared<Registered>(
                                      Registered{key.at, key.length, std::move(*unpacked)}));
  return {};
}

void Transfers::forget(std::uint32_t number) {
  const auto found = registered_.find(number);
  if (found == registered_.end()) return;
  std::erase_if(forgotten_, [](const auto& each) { return each.expired(); });
  forgotten_.push_back(found->second);
  registered_.erase(found);
}

std::optional<std::vector<Target>> Transfers::find(std::span<const wire::Sink> sinks) const {
  std::vector<Target> targets;
  targets.reserve(sinks.size());
  std::shared_ptr<const Registered> in;
  std::uint32_t number = 0;
  for (const wire::Sink& sink : sinks) {
    if (in == nullptr || number != sink.key) {
      const auto found = registered_.find(sink.key);
      if (found == registered_.end()) return {};
      in = found->second;
      number = sink.key;
    }
    const bool is_inside = sink.at >= in->at && sink.length <= in->length &&
                           sink.at - in->at <= in->length - sink.length;
    if (!is_inside) return {};
    targets.push_back({sink.at, sink.length, in});
  }
  return targets;
}

void Transfers::start(ucx::Way way, std::span<const ucx::Move> moves,
                      std::vector<ucx::RemoteKeyRef> keys, std::function<void(bool)> ended) {
  std::uint64_t bytes = 0;
  for (const ucx::Move& move : moves) bytes += move.here.size();
  if (bytes_ == 0) moved_ms_ = boottime_ms();
  bytes_ += bytes;
  worker_->expect();
  endpoint_->transfer(way, moves, memory_, std::move(keys),
                      [this, bytes, ended = std::move(ended)](bool is_whole) {
                        bytes_ -= bytes;
                        moved_ms_ = boottime_ms();
                        if (!is_whole) is_broken_ = true;
                        ended(is_whole);
                      });
}

}  // namespace gd2fs::serve
