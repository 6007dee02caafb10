#include "unix.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace gd2fs::local {
namespace {

constexpr std::string_view PREFIX = "gd2fs/";
constexpr int BACKLOG = 1024;
constexpr int SOCKET_BUFFER_BYTES = static_cast<int>(1 * MiB);

struct Address {
  sockaddr_un storage{};
  socklen_t bytes = 0;
  // sockaddr_un aliases sockaddr by contract.
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Address address_of(const std::string& name) {
  Address address;
  address.storage.sun_family = AF_UNIX;
  // Abstract: a zero byte, then the name; its length says where it ends.
  name.copy(address.storage.sun_path + 1, sizeof address.storage.sun_path - 1);
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

tcp::Descriptor new_socket() {
  return tcp::Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

void set_buffers(int fd) {
  for (const int name : {SO_SNDBUF, SO_RCVBUF}) {
    static_cast<void>(
        setsockopt(fd, SOL_SOCKET, name, &SOCKET_BUFFER_BYTES, sizeof SOCKET_BUFFER_BYTES));
  }
}

void add(XXH3_state_t& state, std::string_view text) {
  const auto bytes = static_cast<std::uint32_t>(text.size());
  XXH3_128bits_update(&state, &bytes, sizeof bytes);  // so that no two parts run into each other
  XXH3_128bits_update(&state, text.data(), text.size());
}

}  // namespace

std::string socket_name(std::string_view cluster, const std::array<std::byte, 16>& list_hash,
                        std::string_view map_entry) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  add(state, cluster);
  add(state, {reinterpret_cast<const char*>(list_hash.data()), list_hash.size()});  // bytes as text
  add(state, map_entry);
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));
  constexpr char DIGITS[] = "0123456789abcdef";
  std::string name(PREFIX);
  for (const unsigned char each : canonical.digest) {
    name += DIGITS[each >> 4];
    name += DIGITS[each & 15];
  }
  return name;
}

Result<tcp::Descriptor> listen_at(const std::string& name) {
  tcp::Descriptor socket = new_socket();
  const Address address = address_of(name);
  if (socket) set_buffers(socket.get());
  if (!socket || bind(socket.get(), address.get(), address.bytes) != 0 ||
      listen(socket.get(), BACKLOG) != 0) {
    return Error{"cannot listen on the Unix socket @" + name + ": " + std::strerror(errno),
                 errno == EADDRINUSE ? "end the other node of this name on this machine" : ""};
  }
  return socket;
}

tcp::Descriptor connect_to(const std::string& name) {
  tcp::Descriptor socket = new_socket();
  if (!socket) return {};
  set_buffers(socket.get());
  const Address address = address_of(name);
  if (connect(socket.get(), address.get(), address.bytes) == 0) return socket;
  return {};
}

std::optional<Peer> peer_of(int fd) {
  int domain = 0;
  socklen_t bytes = sizeof domain;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) != 0 || domain != AF_UNIX) return {};
  ucred credentials{};
  bytes = sizeof credentials;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) return {};
  return Peer{credentials.uid, credentials.pid};
}

tcp::Descriptor process_of(int fd) {
#ifndef SO_PEERPIDFD
  constexpr int SO_PEERPIDFD = 77;  // Linux 6.5: the very process, whatever became of its number
#endif
  int process = -1;
  socklen_t bytes = sizeof process;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &process, &bytes) == 0)
    return tcp::Descriptor(process);
  const auto peer = peer_of(fd);
  if (!peer || peer->pid <= 0) return {};  // of another process namespace: it has no number here
  tcp::Descriptor opened(static_cast<int>(syscall(SYS_pidfd_open, peer->pid, 0)));
  // While the socket is open at its end, the number has not been given to another process.
  pollfd watched{fd, 0, 0};
  return poll(&watched, 1, 0) == 0 ? std::move(opened) : tcp::Descriptor();
}

ssize_t send_with(int fd, const iovec* runs, std::size_t count, int descriptor) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(runs);  // sendmsg only reads them
  message.msg_iovlen = count;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);  // the control room is for one
  }
  return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t receive_with(int fd, void* into, std::size_t bytes, tcp::Descriptor& descriptor) {
  iovec run{into, bytes};
  msghdr message{};
  message.msg_iov = &run;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof control;  // for one: the kernel closes what is beyond it
  const ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0) return got;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    const bool is_rights = head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS;
    if (!is_rights || head->cmsg_len < CMSG_LEN(sizeof(int))) continue;
    int received = -1;
    std::memcpy(&received, CMSG_DATA(head), sizeof received);  // checked: it holds one
    descriptor = tcp::Descriptor(received);
  }
  return got;
}

}  // namespace gd2fs::local
