#include "tcp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>

#include "interface.h"

namespace gd2fs::tcp {

using namespace std::string_view_literals;

namespace {

constexpr int BACKLOG = 1024;
constexpr int KEEP_IDLE_S = 5;  // after which a silent peer's kernel is asked whether it is there
constexpr int KEEP_EVERY_S = 1;
constexpr std::size_t BUFFER_BYTES_MIN = 64 * KiB;
constexpr std::size_t BUFFER_BYTES_MAX = 256 * MiB;
constexpr const char* CONGESTION_KNOWN = "/proc/sys/net/ipv4/tcp_available_congestion_control";

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

bool set_congestion(int fd, std::string_view name) noexcept {
  const auto bytes = static_cast<socklen_t>(name.size());
  return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), bytes) == 0;
}

std::string known_congestion() {
  std::ifstream known(CONGESTION_KNOWN);
  std::string names;
  std::getline(known, names);
  return names;
}

/// The interface by which an accepted connection came in; 0: not known.
unsigned arrival_of(int fd) noexcept {
  set(fd, IPPROTO_IP, IP_PKTINFO, 1);
  alignas(cmsghdr) char space[256];
  socklen_t bytes = sizeof space;
  const bool is_known = getsockopt(fd, IPPROTO_IP, IP_PKTOPTIONS, space, &bytes) == 0;
  set(fd, IPPROTO_IP, IP_PKTINFO, 0);
  if (!is_known) return 0;
  msghdr message{};
  message.msg_control = space;
  message.msg_controllen = bytes;
  for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr; at = CMSG_NXTHDR(&message, at)) {
    if (at->cmsg_level != IPPROTO_IP || at->cmsg_type != IP_PKTINFO) continue;
    in_pktinfo arrival;
    std::memcpy(&arrival, CMSG_DATA(at), sizeof arrival);  // what the kernel put there
    return static_cast<unsigned>(arrival.ipi_ifindex);
  }
  return 0;
}

/// Refused without CAP_NET_RAW before Linux 5.7: then the routes decide.
void keep_on(int fd, const std::string& interface) noexcept {
  static_cast<void>(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface.data(),
                               static_cast<socklen_t>(interface.size())));
}

/// On the interface that owns `local`, when `remote` is in its subnet. Elsewhere the routes decide:
/// the interface may have none that leads there. What this machine sends itself goes by loopback.
void keep_near(int fd, const Address& local, const Address& remote) {
  if (is_loopback(local)) return;
  const std::vector<Interface> all = interfaces();
  if (std::any_of(all.begin(), all.end(), [&](const auto& each) { return each.has(remote); }))
    return;
  for (const Interface& each : all)
    if (each.has(local) && each.reaches(remote)) keep_on(fd, each.name);
}

int bind_to(int fd, const Address& address) noexcept {
  return bind(fd, address.get(), address.bytes) == 0 ? 0 : errno;
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

Error settings_fault(const SocketSettings& settings) {
  if (settings.buffer_bytes < BUFFER_BYTES_MIN || settings.buffer_bytes > BUFFER_BYTES_MAX)
    return {"a socket buffer of " + std::to_string(settings.buffer_bytes) + " bytes",
            "choose 64KiB to 256MiB", Status::invalid};
  if (settings.congestion.empty()) return {};
  const Descriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!probe || set_congestion(probe.get(), settings.congestion)) return {};
  Error fault =
      errno_error("congestion control `" + settings.congestion + "` cannot be used", errno,
                  "this kernel has: " + known_congestion() + " (" + CONGESTION_KNOWN + ")");
  fault.status = Status::invalid;
  return fault;
}

Result<Descriptor> listen_at(const Address& address, const SocketSettings& settings,
                             bool is_awaited) {
  Descriptor socket = new_socket(address);
  if (!socket) return errno_error("cannot open a socket for " + address_text(address), errno);
  set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) set(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (is_awaited) set(socket.get(), IPPROTO_IP, IP_FREEBIND, 1);  // for IPv6 too
  // Accepted sockets inherit them; the buffers' window is negotiated before accept returns.
  tune(socket.get(), settings, ACCEPTED_SILENCE_MS);
  int fault = bind_to(socket.get(), address);
  if (fault == 0 && listen(socket.get(), BACKLOG) != 0) fault = errno;
  if (fault == 0) return socket;
  return errno_error("cannot listen on " + address_text(address), fault,
                     "choose another port, or one of this machine's addresses");
}

int bind_fault(const Address& address) {
  const Descriptor probe = new_socket(address);
  return probe ? bind_to(probe.get(), without_port(address)) : errno;
}

Descriptor accept_from(int listener, Address& peer) {
  peer.bytes = sizeof peer.storage;
  Descriptor socket(accept4(listener, peer.get(), &peer.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket && peer.family() == AF_UNIX) tune(socket.get());  // the one kind that inherits nothing
  if (!socket || peer.family() != AF_INET || is_loopback(peer)) return socket;
  const unsigned arrival = arrival_of(socket.get());
  if (arrival == 0) return socket;
  for (const Interface& each : interfaces())
    if (each.index == arrival && each.reaches(peer)) keep_on(socket.get(), each.name);
  return socket;
}

Result<Descriptor> connect_start(const Address& remote, const Address* local,
                                 const SocketSettings& settings) {
  Descriptor socket = new_socket(remote);
  if (!socket) return errno_error("cannot open a socket for " + address_text(remote), errno);
  tune(socket.get(), settings);
  if (local != nullptr && local->family() == remote.family()) {
    const Address bound = without_port(*local);
    keep_near(socket.get(), bound, remote);
    if (const int fault = bind_to(socket.get(), bound); fault != 0)
      return errno_error("cannot bind to " + host_text(bound), fault,
                         "name an address of this machine");
  }
  if (connect(socket.get(), remote.get(), remote.bytes) != 0 && errno != EINPROGRESS) {
    return errno_error("cannot connect to " + address_text(remote), errno);
  }
  return socket;
}

void abandon(Descriptor& socket) noexcept {
  const linger none{1, 0};
  static_cast<void>(setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none));
  socket.close();
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

Result<Descriptor> connect_within(const Address& remote, const Address* local, int timeout_ms,
                                  const SocketSettings& settings) {
  auto socket = connect_start(remote, local, settings);
  if (!socket) return socket.error();
  pollfd waiting{socket->get(), POLLOUT, 0};
  const int ready = poll(&waiting, 1, timeout_ms);
  const int fault = ready == 1 ? connect_fault(socket->get()) : ETIMEDOUT;
  if (fault != 0) return errno_error("cannot connect to " + address_text(remote), fault);
  return socket;
}

void tune(int fd, const SocketSettings& settings, int silence_ms) noexcept {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_SNDBUF, static_cast<int>(settings.buffer_bytes));
  set(fd, SOL_SOCKET, SO_RCVBUF, static_cast<int>(settings.buffer_bytes));
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, silence_ms);
  // A peer whose end got lost on its way, with the host or the cable, is found out all the same:
  // what was kept for it goes.
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_EVERY_S);
  for (const std::string_view name : {std::string_view(settings.congestion), "cubic"sv, "reno"sv})
    if (!name.empty() && set_congestion(fd, name)) return;
}

bool has_bytes(int fd) noexcept {
  int bytes = 0;
  return ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

std::size_t unacknowledged_bytes(int fd) noexcept {
  int bytes = 0;
  return ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

}  // namespace gd2fs::tcp
