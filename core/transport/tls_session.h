// TLS session: one stream under TLS, between its socket and the memory of who reads and writes it.
//
//   handshake -> open; from both to failed
//
// Many records go into one call of the kernel. Bytes that come are opened straight into the memory
// that they are wanted in; what the kernel does not take at once is kept here, one batch at most.
#pragma once

#include <memory>
#include <span>

#include "tls.h"
#include "tls_handshake.h"
#include "tls_records.h"

namespace gd2fs::tls {

class Session {
 public:
  Session(std::unique_ptr<Handshake> handshake, Side side) noexcept;
  ~Session();

  // As `recvmsg` and `sendmsg` that do not wait. While the handshake goes on, both carry it on and
  // fail with EAGAIN; EPROTO: see `fault`.
  ssize_t receive(int fd, std::span<const iovec> into);
  ssize_t send(int fd, std::span<const iovec> from, bool is_more);
  /// Gives the kernel what it has not taken yet. False: errno, EAGAIN when it takes no more now.
  bool flush(int fd);
  /// Tells the other side, if that is possible at once, that nothing follows, or what was wrong.
  void say_end(int fd);

  bool is_open() const noexcept { return opening_ != nullptr; }
  /// There are bytes that the kernel has not taken.
  bool has_unsent() const noexcept { return unsent_at_ < unsent_.size(); }
  std::size_t unsent_bytes() const noexcept { return unsent_.size() - unsent_at_; }
  /// Bytes have come that the kernel tells of no more.
  bool has_unread() const noexcept;
  std::uint64_t sent_bytes() const noexcept { return sent_bytes_; }
  const ChannelBinding& binding() const noexcept { return binding_; }
  const Fault& fault() const noexcept { return fault_; }

  /// Has the next batch sent with new keys, and those of the other side too when it shall.
  void renew_keys(bool is_other_too) noexcept;
  /// So many records, and a batch more, are sealed with one key. RECORDS_PER_KEY at first.
  void limit_keys(std::uint64_t records) noexcept { records_per_key_ = records; }

 private:
  struct Incoming;

  bool shake(int fd);
  bool is_refused(int fd);
  void begin();
  ssize_t fail(Fault fault);
  bool refuse(std::byte alert, const char* what);
  std::size_t take_left(Runs& room);
  bool take_records(Incoming& in, Runs& room, std::size_t& taken);
  bool take_record(Incoming& in, std::size_t sealed, Runs& room, std::size_t& taken);
  bool take_aside(const std::byte* record, std::size_t sealed, Runs& room, std::size_t& taken);
  bool take_note(Content content, Runs from, std::size_t bytes);
  bool is_patient(std::size_t bytes);
  std::size_t seal_batch(std::span<const iovec> from, std::byte* out, std::size_t& taken);
  std::size_t seal_note(Content content, std::span<const std::byte> note, std::byte* out);
  void give(int fd, std::span<const std::byte> sealed, bool is_more);

  const Side side_;
  std::unique_ptr<Handshake> handshake_;  // until it is done
  std::unique_ptr<Keys> sealing_, opening_;
  ChannelBinding binding_{};
  Fault fault_;
  std::byte alert_{};       // why this side ends the stream; 0: for no fault of the other one's
  bool has_ended_ = false;  // the other side has said so
  Bytes sealed_;            // came, and is not opened yet: not quite two records at most
  Bytes left_;              // of one opened record: what there was no room for
  std::size_t left_at_ = 0;
  Bytes unsent_;
  std::size_t unsent_at_ = 0;
  std::uint64_t sent_bytes_ = 0;
  std::size_t notes_ = 0;  // records in a row without content for the reader
  bool is_renewing_ = false, is_asking_ = false;
  std::uint64_t records_per_key_ = RECORDS_PER_KEY;
};

}  // namespace gd2fs::tls
