#include "outgoing.h"

#include <algorithm>
#include <cerrno>

#include "transport/unix.h"

namespace gd2fs::serve {
namespace {

// Below these a copy is quicker than the handling of pages.
constexpr std::size_t SPLICE_BYTES_MIN = 256 * KiB;
constexpr std::size_t SPLICE_RUN_BYTES_MIN = 16 * KiB;    // on average
constexpr std::size_t LEASE_BYTES_MIN = 4 * BLOCK_BYTES;  // less room for holds: copies are sent

}  // namespace

std::size_t Outgoing::begin_payload(std::size_t payload_max, bool is_view) noexcept {
  const std::uint64_t room =
      is_view ? LEASE_BYTES_MAX : std::min<std::uint64_t>(holds.room(), LEASE_BYTES_MAX);
  is_view_ = is_view;
  payload.is_in_arena = may_lease && room >= LEASE_BYTES_MIN;
  return is_leasing() ? static_cast<std::size_t>(room) : payload_max;
}

bool Outgoing::is_worth_splicing() const noexcept {
  const std::size_t bytes = payload.bytes();
  return may_splice && !payload.has_kept() && bytes >= SPLICE_BYTES_MIN &&
         bytes >= payload.runs().size() * SPLICE_RUN_BYTES_MIN && holds.has_room(bytes);
}

bool Outgoing::is_by_reference() {
  if (is_worth_splicing()) pipe_ = pipes_.take();
  if (pipe_ == nullptr) {
    holds.count(payload.bytes());
  } else {
    holds.add(payload.bytes(), payload.pieces());
  }
  return pipe_ != nullptr;
}

std::vector<wire::LeaseRun> Outgoing::take_runs(const std::byte* arena) {
  std::vector<wire::LeaseRun> runs;
  for (const auto& span : payload.take_runs()) {
    const auto at = static_cast<std::uint64_t>(span.data() - arena);  // both are of the arena
    if (!runs.empty() && runs.back().at + runs.back().length == at) {
      runs.back().length += span.size();
    } else {
      runs.push_back({at, span.size()});
    }
  }
  if (!is_view_) holds.add(payload.bytes(), payload.pieces());
  return runs;
}

void Outgoing::seal() {
  const auto add = [this](std::span<std::byte> run) {
    if (!run.empty()) left_.push_back({run.data(), run.size()});
  };
  add(head);
  const std::size_t head_runs = left_.size();
  for (const auto& run : payload.runs()) add(run);
  splice_to_ = left_.size();
  add(tail);
  if (pipe_ == nullptr) splice_to_ = left_.size();
  splice_from_ = pipe_ == nullptr ? splice_to_ : head_runs;
}

bool Outgoing::is_over() const noexcept {
  return left_at_ == left_.size() && (pipe_ == nullptr || pipe_->filled() == 0);
}

Outgoing::Sent Outgoing::send(Channel& channel) {
  if (!channel.flush()) return errno == EAGAIN ? Sent::blocked : Sent::broken;
  while (!is_over()) {
    const bool is_in_splice = left_at_ >= splice_from_ && left_at_ < splice_to_;
    const bool is_in_pipe = pipe_ != nullptr && pipe_->filled() > 0;
    const ssize_t moved = is_in_splice || is_in_pipe ? splice_some(channel) : copy_some(channel);
    if (moved > 0 || (moved < 0 && errno == EINTR)) continue;
    return errno == EAGAIN || errno == EWOULDBLOCK ? Sent::blocked : Sent::broken;
  }
  return Sent::all;
}

ssize_t Outgoing::copy_some(Channel& channel) {
  const std::size_t end = left_at_ < splice_from_ ? splice_from_ : left_.size();
  const auto runs = std::span<const iovec>(left_).subspan(left_at_, end - left_at_);
  const ssize_t sent = descriptor < 0
                           ? channel.send(runs, end < left_.size())
                           : local::send_with(channel.fd(), runs.data(), runs.size(), descriptor);
  if (sent > 0) {
    descriptor = -1;
    advance(static_cast<std::size_t>(sent));
  }
  return sent;
}

/// Keeps the pipe filled before it moves on: what is in it counts as sent in `left_` already.
ssize_t Outgoing::splice_some(Channel& channel) {
  if (pipe_->filled() == 0) {
    const auto runs = std::span<const iovec>(left_).subspan(left_at_, splice_to_ - left_at_);
    const ssize_t taken = pipe_->fill(runs);
    if (taken <= 0) return taken;
    advance(static_cast<std::size_t>(taken));
  }
  return pipe_->drain(channel.fd(), left_at_ < left_.size());
}

void Outgoing::advance(std::size_t bytes) {
  while (bytes > 0) {
    iovec& first = left_[left_at_];
    const std::size_t taken = std::min(bytes, first.iov_len);
    first.iov_base = static_cast<std::byte*>(first.iov_base) + taken;
    first.iov_len -= taken;
    bytes -= taken;
    if (first.iov_len == 0) ++left_at_;
  }
}

void Outgoing::clear() {
  head.clear();
  tail.clear();
  ends.clear();
  payload.clear();
  left_.clear();
  left_at_ = splice_from_ = splice_to_ = 0;
  give_pipe();
}

void Outgoing::give_pipe() {
  if (pipe_ != nullptr) pipes_.give(std::move(pipe_));
  pipe_ = nullptr;
}

}  // namespace gd2fs::serve
