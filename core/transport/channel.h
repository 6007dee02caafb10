// Channel: the bytes of one stream, as they are or under TLS. All that reads and writes a stream
// goes through here; how its bytes travel on the socket is nobody else's business.
//
// Never waits. Belongs to one thread at a time.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "tcp.h"
#include "tls_session.h"

namespace gd2fs {

class Channel {
 public:
  Channel() = default;
  explicit Channel(tcp::Descriptor socket, std::unique_ptr<tls::Session> session = nullptr) noexcept
      : socket_(std::move(socket)), session_(std::move(session)) {}

  int fd() const noexcept { return socket_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(socket_); }
  bool is_tls() const noexcept { return session_ != nullptr; }
  /// Before anything is received or sent.
  void begin_tls(std::unique_ptr<tls::Session> session) noexcept { session_ = std::move(session); }
  /// What is sent now goes out: the handshake, if there is one, is over.
  bool is_open() const noexcept { return session_ == nullptr || session_->is_open(); }

  /// As `recvmsg`: how many bytes came; 0: the other side has ended; < 0: errno, EAGAIN when there
  /// is nothing now, EPROTO: see `fault`. Carries a handshake on, as `send` does.
  ssize_t receive(std::span<const iovec> into);
  ssize_t receive(void* into, std::size_t bytes_max);
  /// Bytes that nobody wants: how many of them are gone now. As `receive`. TCP drops them without
  /// touching memory; the scratch is there for whatever else a stream may do.
  ssize_t discard(std::span<std::byte> scratch);
  /// Did a receive that got `received` of `wanted` bytes take all that had come?
  bool is_emptied(std::size_t received, std::size_t wanted) const noexcept {
    return received < wanted && session_ == nullptr;
  }
  /// Bytes have come that the system does not tell of again.
  bool has_buffered() const noexcept { return session_ != nullptr && session_->has_unread(); }
  /// Bytes have come that were not received yet.
  bool has_unread() const noexcept { return has_buffered() || tcp::has_bytes(fd()); }

  /// As `sendmsg`: how many bytes were taken; their memory is free again. `is_more`: others follow
  /// at once.
  ssize_t send(std::span<const iovec> from, bool is_more = false);
  /// Gives the system what `send` took and the system did not. False: errno, EAGAIN when it takes
  /// no more now.
  bool flush() { return session_ == nullptr || session_->flush(fd()); }
  bool has_unsent() const noexcept { return session_ != nullptr && session_->has_unsent(); }
  /// The system takes no more now: it tells when it does.
  bool is_full() const noexcept { return session_ == nullptr ? is_full_ : session_->has_unsent(); }
  /// What `send` took in all, as it travels.
  std::uint64_t sent_bytes() const noexcept;
  /// Of these, what the other side's system has not acknowledged yet.
  std::uint64_t unreached_bytes() const noexcept;

  /// The same on both sides of this stream, and on no other; empty without TLS.
  std::span<const std::byte> exporter() const noexcept;
  /// What is wrong with TLS here; a cause of `nothing` otherwise.
  tls::Fault fault() const;
  /// The other side speaks no TLS: it is told so in words that it understands.
  void speak_plainly() noexcept { session_ = nullptr; }
  /// See tls::Session.
  void renew_keys(bool is_other_too) noexcept;

  /// Nothing more is sent; the other side learns it.
  void end_sending() noexcept;
  void close() noexcept;
  /// The peer may never hear from this again: what is not sent yet is dropped.
  void abandon() noexcept;

 private:
  tcp::Descriptor socket_;
  std::unique_ptr<tls::Session> session_;  // nothing: bytes travel as they are
  bool is_full_ = false;
  std::uint64_t sent_bytes_ = 0;
};

}  // namespace gd2fs
