#include "outgoing.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace gd2fs::serve {
namespace {

constexpr std::size_t IOVECS_MAX = 1024;  // the kernel takes no more at once

}  // namespace

void Outgoing::borrow(const PieceRef& piece, std::uint64_t offset, std::uint64_t length) {
  piece->runs(offset, length, payload_);
  if (holds_.empty() || holds_.back() != piece) holds_.push_back(piece);
  payload_bytes_ += length;
}

void Outgoing::keep(wire::Bytes bytes) {
  payload_bytes_ += bytes.size();
  payload_.emplace_back(aside_.emplace_back(std::move(bytes)));
}

void Outgoing::seal() {
  const auto add = [this](std::span<std::byte> run) {
    if (!run.empty()) left_.push_back({run.data(), run.size()});
  };
  add(head);
  for (const auto& run : payload_) add(run);
  add(tail);
}

Outgoing::Sent Outgoing::send(int fd) {
  while (left_at_ < left_.size()) {
    msghdr message{};
    message.msg_iov = &left_[left_at_];
    message.msg_iovlen = std::min(left_.size() - left_at_, IOVECS_MAX);
    const ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK ? Sent::blocked : Sent::broken;
    }
    advance(static_cast<std::size_t>(sent));
  }
  return Sent::all;
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
  ends = 0;
  payload_.clear();
  holds_.clear();
  aside_.clear();
  payload_bytes_ = 0;
  left_.clear();
  left_at_ = 0;
}

}  // namespace gd2fs::serve
