#include "raw_socket.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace gd2fs::bench {

namespace {

constexpr int CONNECT_MS = 2'000;

bool is_again() noexcept { return errno == EINTR; }

}  // namespace

Result<tcp::Address> raw_address(const std::string& text) {
  if (text.empty() || text.front() != '@') {
    auto target = tcp::parse_host_port(text);
    if (!target) return target.error();
    auto found = tcp::resolve(*target);
    if (!found) return found.error();
    return found->front();
  }
  tcp::Address address;
  // The family says which structure the storage holds; it starts with a zero: abstract.
  auto* local = reinterpret_cast<sockaddr_un*>(&address.storage);
  if (text.size() > sizeof local->sun_path) {
    return Error{"`" + text + "` is too long for a Unix address", "choose a shorter name"};
  }
  local->sun_family = AF_UNIX;
  std::memcpy(local->sun_path + 1, text.data() + 1, text.size() - 1);
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size());
  return address;
}

Result<tcp::Descriptor> raw_connect(const std::string& text) {
  auto address = raw_address(text);
  if (!address) return address.error();
  auto socket = tcp::connect_within(*address, nullptr, CONNECT_MS);
  if (!socket) return socket.error();
  if (!make_blocking(socket->get())) return Error{"cannot set up the socket to " + text, ""};
  return socket;
}

bool make_blocking(int fd) noexcept {
  const int flags = fcntl(fd, F_GETFL);
  const timeval limit{SILENCE_S, 0};
  return flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0 &&
         setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
         setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0;
}

bool send_all(int fd, const std::byte* from, std::size_t bytes) noexcept {
  while (bytes > 0) {
    const ssize_t sent = send(fd, from, std::min(bytes, SEND_PIECE_BYTES), MSG_NOSIGNAL);
    if (sent < 0 && is_again()) continue;
    if (sent <= 0) return false;
    from += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int fd, std::byte* into, std::size_t bytes) noexcept {
  while (bytes > 0) {
    const ssize_t received = recv(fd, into, std::min(bytes, RECEIVE_PIECE_BYTES), MSG_WAITALL);
    if (received < 0 && is_again()) continue;
    if (received <= 0) return false;
    into += received;
    bytes -= static_cast<std::size_t>(received);
  }
  return true;
}

Splicer::Splicer() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  out_ = tcp::Descriptor(ends[0]);
  in_ = tcp::Descriptor(ends[1]);
  fcntl(in_.get(), F_SETPIPE_SZ, static_cast<int>(SEND_PIECE_BYTES));
  const int got = fcntl(in_.get(), F_GETPIPE_SZ);  // what the system granted, if anything
  bytes_ = got > 0 ? static_cast<std::size_t>(got) : 0;
}

bool Splicer::send_all(int fd, const std::byte* from, std::size_t bytes) noexcept {
  while (bytes > 0) {
    // The kernel only reads through this pointer.
    const iovec piece{const_cast<std::byte*>(from), std::min(bytes, SEND_PIECE_BYTES)};
    const ssize_t lent = vmsplice(in_.get(), &piece, 1, 0);
    if (lent < 0 && is_again()) continue;
    if (lent <= 0 || !drain(fd, static_cast<std::size_t>(lent))) return false;
    from += lent;
    bytes -= static_cast<std::size_t>(lent);
  }
  return true;
}

bool Splicer::drain(int fd, std::size_t bytes) noexcept {
  while (bytes > 0) {
    const ssize_t moved = splice(out_.get(), nullptr, fd, nullptr, bytes, SPLICE_F_MOVE);
    if (moved < 0 && is_again()) continue;
    if (moved <= 0) return false;
    bytes -= static_cast<std::size_t>(moved);
  }
  return true;
}

}  // namespace gd2fs::bench
