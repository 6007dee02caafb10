#include "tcp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace gd2fs::tcp {
namespace {

constexpr int SOCKET_BUFFER_BYTES = static_cast<int>(1 * MiB);
constexpr int BACKLOG = 1024;

Error errno_error(const std::string& what, int code, std::string hint = "") {
  return Error{what + ": " + std::strerror(code), std::move(hint)};
}

void set(int fd, int level, int name, int value) noexcept {
  static_cast<void>(setsockopt(fd, level, name, &value, sizeof value));
}

Error syntax_error(const std::string& text) {
  return Error{"`" + text + "` is not an address",
               "write `ADDR:PORT`, `NAME:PORT` or `[IPV6]:PORT`"};
}

bool parse_port(std::string_view text, std::uint16_t& port) {
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), port);
  return fault == std::errc{} && end == text.data() + text.size() && !text.empty();
}

Descriptor new_socket(const Address& address) {
  return Descriptor(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

Address without_port(Address address) {
  // The family says which of the two structures the storage holds.
  if (address.family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port = 0;
  } else {
    reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port = 0;
  }
  return address;
}

std::uint16_t port_of(const Address& address) {
  // As above: both port fields are in network order.
  if (address.family() == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = other.release();
  }
  return *this;
}

int Descriptor::release() noexcept {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

void Descriptor::close() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<HostPort> parse_host_port(const std::string& text) {
  HostPort parsed;
  std::string_view rest = text;
  std::string_view port;
  if (!rest.empty() && rest.front() == '[') {
    const auto end = rest.find(']');
    if (end == std::string_view::npos) return syntax_error(text);
    parsed.host = rest.substr(1, end - 1);
    port = rest.substr(end + 1);
    if (!port.empty() && port.front() != ':') return syntax_error(text);
  } else {
    const auto colon = rest.find(':');
    const bool is_bare_ipv6 =
        colon != std::string_view::npos && rest.find(':', colon + 1) != std::string_view::npos;
    parsed.host = is_bare_ipv6 ? rest : rest.substr(0, colon);
    if (!is_bare_ipv6 && colon != std::string_view::npos) port = rest.substr(colon);
  }
  if (parsed.host.empty()) return syntax_error(text);
  if (!port.empty() && !parse_port(port.substr(1), parsed.port)) return syntax_error(text);
  return parsed;
}

Result<std::vector<Address>> resolve(const HostPort& target) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(target.port);
  const int fault = getaddrinfo(target.host.c_str(), port.c_str(), &wanted, &found);
  if (fault != 0) {
    return Error{"cannot resolve `" + target.host + "`: " + gai_strerror(fault),
                 "check the name and the name service"};
  }
  std::vector<Address> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    Address address;
    // addrinfo's address is a plain structure of ai_addrlen bytes, never longer than
    // sockaddr_storage.
    std::memcpy(&address.storage, each->ai_addr, each->ai_addrlen);
    address.bytes = each->ai_addrlen;
    addresses.push_back(address);
  }
  freeaddrinfo(found);
  return addresses;
}

std::string host_text(const Address& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.family() == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(&address.storage);  // by its family
    inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof text);
  } else if (address.family() == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(&address.storage);  // by its family
    inet_ntop(AF_INET, &four->sin_addr, text, sizeof text);
  }
  return text;
}

std::string address_text(const Address& address) {
  const std::string host = host_text(address);
  const std::string port = std::to_string(port_of(address));
  return address.family() == AF_INET6 ? "[" + host + "]:" + port : host + ":" + port;
}

Address local_address(int fd) {
  Address address;
  address.bytes = sizeof address.storage;
  if (getsockname(fd, address.get(), &address.bytes) != 0) return Address{};
  return address;
}

Result<Descriptor> listen_at(const Address& address, bool is_port_shared) {
  Descriptor socket = new_socket(address);
  if (!socket) return errno_error("cannot open a socket for " + address_text(address), errno);
  set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (is_port_shared) set(socket.get(), SOL_SOCKET, SO_REUSEPORT, 1);
  if (address.family() == AF_INET6) set(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  // Accepted sockets inherit the buffers: their window is negotiated before accept returns.
  tune(socket.get(), ACCEPTED_SILENCE_MS);
  if (bind(socket.get(), address.get(), address.bytes) != 0 || listen(socket.get(), BACKLOG) != 0) {
    return errno_error("cannot listen on " + address_text(address), errno,
                       "choose another port, or one of this machine's addresses");
  }
  return socket;
}

Descriptor accept_from(int listener, Address& peer) {
  peer.bytes = sizeof peer.storage;
  Descriptor socket(accept4(listener, peer.get(), &peer.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket) tune(socket.get(), ACCEPTED_SILENCE_MS);
  return socket;
}

Result<Descriptor> connect_start(const Address& remote, const Address* local) {
  Descriptor socket = new_socket(remote);
  if (!socket) return errno_error("cannot open a socket for " + address_text(remote), errno);
  tune(socket.get());
  if (local != nullptr && local->family() == remote.family()) {
    const Address bound = without_port(*local);
    if (bind(socket.get(), bound.get(), bound.bytes) != 0) {
      return errno_error("cannot bind to " + host_text(bound), errno,
                         "name an address of this machine");
    }
  }
  if (connect(socket.get(), remote.get(), remote.bytes) != 0 && errno != EINPROGRESS) {
    return errno_error("cannot connect to " + address_text(remote), errno);
  }
  return socket;
}

int connect_fault(int fd) {
  int fault = 0;
  socklen_t bytes = sizeof fault;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &fault, &bytes) != 0) return errno;
  return fault;
}

bool has_hung_up(int fd) noexcept {
  pollfd state{fd, POLLRDHUP, 0};
  return poll(&state, 1, 0) == 1;
}

Result<Descriptor> connect_within(const Address& remote, const Address* local, int timeout_ms) {
  auto socket = connect_start(remote, local);
  if (!socket) return socket.error();
  pollfd waiting{socket->get(), POLLOUT, 0};
  const int ready = poll(&waiting, 1, timeout_ms);
  const int fault = ready == 1 ? connect_fault(socket->get()) : ETIMEDOUT;
  if (fault != 0) return errno_error("cannot connect to " + address_text(remote), fault);
  return socket;
}

void tune(int fd, int silence_ms) noexcept {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_SNDBUF, SOCKET_BUFFER_BYTES);
  set(fd, SOL_SOCKET, SO_RCVBUF, SOCKET_BUFFER_BYTES);
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, silence_ms);
  for (const char* name : {"cubic", "reno"}) {
    const auto bytes = static_cast<socklen_t>(std::strlen(name));
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, bytes) == 0) return;
  }
}

}  // namespace gd2fs::tcp
