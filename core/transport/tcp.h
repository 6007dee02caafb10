// TCP: addresses, listening and connecting sockets, and their settings. No protocol here.
//
// All sockets are non-blocking and closed on exec. Nothing throws; only `resolve` may block (name
// service).
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "../error.h"
#include "../limits.h"

namespace gd2fs::tcp {

// Bytes that are not acknowledged, or not read, for this long: the path is gone. Who connects has
// other paths to try; who accepts must not cut off a reader that only pauses.
inline constexpr int CONNECTED_SILENCE_MS = 2'000;
inline constexpr int ACCEPTED_SILENCE_MS = 10'000;

/// Owns one file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { close(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept;
  void close() noexcept;

 private:
  int fd_ = -1;
};

struct HostPort {
  std::string host;  // a name, an IPv4 address, or an IPv6 address without brackets
  std::uint16_t port = PORT_DEFAULT;

  friend bool operator==(const HostPort& a, const HostPort& b) = default;
};

/// Reads `HOST:PORT`, `HOST`, `[IPV6]:PORT`, `[IPV6]` or a bare IPv6 address.
Result<HostPort> parse_host_port(const std::string& text);

/// A socket address.
struct Address {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  const sockaddr* get() const noexcept {
    return reinterpret_cast<const sockaddr*>(&storage);
  }  // sockaddr_storage aliases by contract
  sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const noexcept { return storage.ss_family; }
};

/// All addresses of a host, in the order to try them. Numeric ones never block.
Result<std::vector<Address>> resolve(const HostPort& target);
/// `127.0.0.1:7527` or `[::1]:7527`.
std::string address_text(const Address& address);
/// Without the port: what connections of one source share.
std::string host_text(const Address& address);
/// The socket's own address, with the real port after a bind to port 0.
Address local_address(int fd);

/// How sockets are set up, beside TCP_NODELAY and TCP_USER_TIMEOUT.
struct SocketSettings {
  // Empty: cubic, else reno, whatever the system's default is. With bbr loopback and a data
  // centre's network lose half their rate.
  std::string congestion;
  // Of each direction. The system may grant less. Larger ones fall out of the cache: 1 MiB beats 4.
  std::size_t buffer_bytes = 1 * MiB;
};
/// Nothing wrong: an empty message. Else what the kernel does not know, and what it does.
Error settings_fault(const SocketSettings& settings);

/// A listening socket; what it accepts has its settings. `is_awaited`: the address may be one that
/// this machine does not have yet.
Result<Descriptor> listen_at(const Address& address, const SocketSettings& settings = {},
                             bool is_awaited = false);
/// Has this machine the address, so that a socket can be bound to it? 0, or errno.
int bind_fault(const Address& address);
/// Accepts one connection (non-blocking). An empty descriptor when there is none, or it failed
/// (errno). It stays on the interface that it came in by, as `connect_start` does.
Descriptor accept_from(int listener, Address& peer);

/// Starts a connection; the socket becomes writable when it is there or has failed: then ask
/// `connect_fault`. `local`: the address to bind to first (its port is not used), or nothing. When
/// both lie in one subnet the socket stays on the interface of `local`, if the system allows it:
/// with two interfaces in one subnet Linux would send all over one of them.
Result<Descriptor> connect_start(const Address& remote, const Address* local = nullptr,
                                 const SocketSettings& settings = {});
/// 0 when the connection is up, else its errno.
int connect_fault(int fd);
/// The other side has closed or reset it; there may still be bytes to read.
bool has_hung_up(int fd) noexcept;
/// Waits for a connection; for threads that may block. Nothing is sent.
Result<Descriptor> connect_within(const Address& remote, const Address* local, int timeout_ms,
                                  const SocketSettings& settings = {});
/// Lets a connection go that the peer may never hear from again: what is not sent yet is dropped.
void abandon(Descriptor& socket) noexcept;

/// Every setting that the system refuses is left as it is.
void tune(int fd, const SocketSettings& settings = {},
          int silence_ms = CONNECTED_SILENCE_MS) noexcept;
/// There are bytes to read.
bool has_bytes(int fd) noexcept;
/// Bytes that were given to the system and that the peer's has not acknowledged yet.
std::size_t unacknowledged_bytes(int fd) noexcept;

}  // namespace gd2fs::tcp
