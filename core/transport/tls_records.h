// TLS records: bytes of a stream sealed and opened, as RFC 8446 section 5 says, with the secrets of
// a handshake. OpenSSL's ciphers work here straight between the caller's memory and the socket's
// bytes: its own records would be copied twice on the way out and once on the way in.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "../limits.h"

struct evp_cipher_ctx_st;  // OpenSSL's EVP_CIPHER_CTX

namespace gd2fs::tls {

using Bytes = std::vector<std::byte>;
using Secret = std::vector<std::byte>;
/// Of one handshake alone, the same on both sides (RFC 9266, `tls-exporter`).
using ChannelBinding = std::array<std::byte, 32>;

inline constexpr std::size_t HEAD_BYTES = 5;                // of a record
inline constexpr std::size_t TAG_BYTES = 16;                // of every suite
inline constexpr std::size_t CONTENT_BYTES_MAX = 16 * KiB;  // of one record
inline constexpr std::size_t OVERHEAD_BYTES = HEAD_BYTES + 1 + TAG_BYTES;
inline constexpr std::size_t SEALED_BYTES_MAX = CONTENT_BYTES_MAX + 1 + TAG_BYTES;
// What AES-GCM may seal with one key is 2^24.5 records of this size (RFC 8446, 5.5).
inline constexpr std::uint64_t RECORDS_PER_KEY = 1 << 23;  // 128 GiB

enum class Content : std::uint8_t { alert = 21, handshake = 22, application = 23 };

struct Suite;
/// By its number; nullptr: not one of ours.
const Suite* find_suite(unsigned number);

/// A place in several pieces of memory.
class Runs {
 public:
  explicit Runs(std::span<const iovec> runs) noexcept;
  std::size_t left() const noexcept { return left_; }
  /// What lies together from here on, at most `bytes_max`.
  std::span<std::byte> front(std::size_t bytes_max) const noexcept;
  void skip(std::size_t bytes) noexcept;

 private:
  std::span<const iovec> runs_;
  std::size_t at_ = 0;  // in the first of runs_
  std::size_t left_ = 0;
};

/// The keys of one direction.
class Keys {
 public:
  Keys(const Suite& suite, Secret secret, bool is_sealing);
  ~Keys();
  Keys(Keys&&) = default;

  /// The next ones (KeyUpdate).
  void renew();
  /// Records since they were made or renewed.
  std::uint64_t count() const noexcept { return sequence_; }

  /// Writes one record of the next `bytes` of `from`, at most CONTENT_BYTES_MAX; its size. `out`
  /// has room for OVERHEAD_BYTES more than these.
  std::size_t seal(Runs& from, std::size_t bytes, Content content, std::byte* out);
  struct Opened {
    Content content{};
    std::size_t bytes = 0;
  };
  /// Opens the record of `sealed` bytes behind its head. Its content, and no byte more, goes to the
  /// front of `into`, which has room for `sealed` less OVERHEAD_BYTES and HEAD_BYTES more. Nothing:
  /// it is not what the other side sent, and what lies there now means nothing.
  std::optional<Opened> open(const std::byte* record, std::size_t sealed, Runs into);

 private:
  static Opened unpadded(Runs from, std::size_t bytes) noexcept;
  void set();
  bool begin(const std::byte* head);

  const Suite* suite_;
  bool is_sealing_;
  Secret secret_;
  std::array<std::byte, 12> iv_{};
  std::uint64_t sequence_ = 0;
  std::unique_ptr<evp_cipher_ctx_st, void (*)(evp_cipher_ctx_st*)> cipher_;
};

}  // namespace gd2fs::tls
