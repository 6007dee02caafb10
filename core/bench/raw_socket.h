// Raw socket: bytes over a connection with nothing around them, as fast as the system moves them.
//
// Blocking sockets with a limit of SILENCE_S; every function is false when the other end is gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "../limits.h"
#include "../transport/tcp.h"

namespace gd2fs::bench {

inline constexpr int SILENCE_S = 30;
inline constexpr std::size_t SEND_PIECE_BYTES = 1 * MiB;  // what one pipe holds
inline constexpr std::size_t RECEIVE_PIECE_BYTES = 512 * KiB;

enum class RawWork : std::uint32_t { send = 0, vmsplice = 1, receive = 2 };

/// What a client asks of a RawServer: to send `bytes` of its memory from `at` on, or to take them.
struct RawOrder {
  std::uint64_t bytes = 0;
  std::uint64_t at = 0;
  RawWork work = RawWork::send;
  std::uint32_t zero = 0;
};

/// `@NAME` is an abstract Unix address; all else is `HOST:PORT`.
Result<tcp::Address> raw_address(const std::string& text);
Result<tcp::Descriptor> raw_connect(const std::string& text);
/// Waits for answers at most SILENCE_S.
bool make_blocking(int fd) noexcept;

bool send_all(int fd, const std::byte* from, std::size_t bytes) noexcept;
bool receive_all(int fd, std::byte* into, std::size_t bytes) noexcept;

/// A pipe through which memory is lent to a socket without a copy.
class Splicer {
 public:
  Splicer();
  /// Whether a whole piece fits; otherwise `send` is faster.
  bool is_usable() const noexcept { return bytes_ >= SEND_PIECE_BYTES / 4; }
  bool send_all(int fd, const std::byte* from, std::size_t bytes) noexcept;

 private:
  bool drain(int fd, std::size_t bytes) noexcept;
  tcp::Descriptor out_, in_;
  std::size_t bytes_ = 0;
};

}  // namespace gd2fs::bench
