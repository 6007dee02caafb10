#include "channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace gd2fs {
namespace {

constexpr std::size_t RUNS_MAX = 1024;  // the kernel takes no more at once

msghdr message_of(std::span<const iovec> runs) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(runs.data());  // neither call changes it
  message.msg_iovlen = std::min(runs.size(), RUNS_MAX);
  return message;
}

}  // namespace

ssize_t Channel::receive(std::span<const iovec> into) {
  if (session_ != nullptr) return session_->receive(fd(), into);
  msghdr message = message_of(into);
  return recvmsg(fd(), &message, MSG_DONTWAIT);
}

ssize_t Channel::receive(void* into, std::size_t bytes_max) {
  if (session_ == nullptr) return recv(fd(), into, bytes_max, MSG_DONTWAIT);
  const iovec run{into, bytes_max};
  return session_->receive(fd(), std::span(&run, 1));
}

ssize_t Channel::discard(std::span<std::byte> scratch) {
  if (session_ != nullptr) return receive(scratch.data(), scratch.size());
  return recv(fd(), scratch.data(), scratch.size(), MSG_TRUNC | MSG_DONTWAIT);
}

ssize_t Channel::send(std::span<const iovec> from, bool is_more) {
  if (session_ != nullptr) return session_->send(fd(), from, is_more);
  const msghdr message = message_of(from);
  const bool is_cut = from.size() > RUNS_MAX;
  const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (is_more || is_cut ? MSG_MORE : 0);
  const ssize_t sent = sendmsg(fd(), &message, flags);
  is_full_ = sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  if (sent > 0) sent_bytes_ += static_cast<std::uint64_t>(sent);
  return sent;
}

std::uint64_t Channel::sent_bytes() const noexcept {
  return session_ == nullptr ? sent_bytes_ : session_->sent_bytes();
}

std::uint64_t Channel::unreached_bytes() const noexcept {
  const std::size_t kept = session_ == nullptr ? 0 : session_->unsent_bytes();
  return kept + tcp::unacknowledged_bytes(fd());
}

std::span<const std::byte> Channel::exporter() const noexcept {
  if (session_ == nullptr || !session_->is_open()) return {};
  return session_->binding();
}

tls::Fault Channel::fault() const { return session_ == nullptr ? tls::Fault{} : session_->fault(); }

void Channel::renew_keys(bool is_other_too) noexcept {
  if (session_ != nullptr) session_->renew_keys(is_other_too);
}

void Channel::end_sending() noexcept {
  if (session_ != nullptr) session_->say_end(fd());
  shutdown(fd(), SHUT_WR);
}

void Channel::close() noexcept {
  if (session_ != nullptr && socket_) session_->say_end(fd());
  socket_.close();
}

void Channel::abandon() noexcept { tcp::abandon(socket_); }

}  // namespace gd2fs
