#include "holds.h"

#include <algorithm>

namespace gd2fs::serve {
namespace {

constexpr std::uint64_t STREAM_BYTES_MAX = 64 * MiB;
constexpr std::uint64_t STREAM_SHARE = 64;  // 1/64 of the arena
constexpr std::uint64_t NODE_SHARE = 16;

}  // namespace

HoldBudget::HoldBudget(std::uint64_t arena_bytes) noexcept
    : stream_bytes_max(std::min(STREAM_BYTES_MAX, arena_bytes / STREAM_SHARE)),
      node_bytes_max(arena_bytes / NODE_SHARE) {}

std::uint64_t Holds::room() const noexcept {
  const std::uint64_t all = budget_.held_bytes.load(std::memory_order_relaxed);
  const std::uint64_t of_node = budget_.node_bytes_max - std::min(budget_.node_bytes_max, all);
  const std::uint64_t of_stream =
      budget_.stream_bytes_max - std::min(budget_.stream_bytes_max, bytes_);
  return std::min(of_node, of_stream);
}

void Holds::add(std::uint64_t bytes, std::span<const PieceRef> pieces) {
  count(bytes);
  bytes_ += bytes;
  budget_.held_bytes.fetch_add(bytes, std::memory_order_relaxed);
  for (const PieceRef& piece : pieces) holds_.push_back({sent_bytes_, 0, piece});
  holds_.back().bytes = bytes;
}

bool Holds::release(std::uint64_t consumed, std::int64_t now_ms) {
  if (consumed > sent_bytes_) return false;
  if (consumed > consumed_) {
    consumed_ = consumed;
    progress_ms_ = now_ms;
  }
  std::uint64_t released = 0;
  while (!holds_.empty() && holds_.front().end <= consumed) {
    released += holds_.front().bytes;
    holds_.pop_front();
  }
  bytes_ -= released;
  budget_.held_bytes.fetch_sub(released, std::memory_order_relaxed);
  return true;
}

std::int64_t Holds::waiting_since_ms(std::int64_t now_ms) noexcept {
  if (holds_.empty()) {
    progress_ms_ = 0;
  } else if (progress_ms_ == 0) {
    progress_ms_ = now_ms;
  }
  return progress_ms_;
}

void Holds::clear() noexcept {
  holds_.clear();
  budget_.held_bytes.fetch_sub(bytes_, std::memory_order_relaxed);
  bytes_ = 0;
}

}  // namespace gd2fs::serve
