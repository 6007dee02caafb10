#include "tls_session.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace gd2fs::tls {
namespace {

constexpr std::size_t SHAKE_BYTES = 4 * KiB;  // received at once before the other side is known
// One batch is sealed, then sent, while it is in the processor's cache; likewise the other way. The
// more in one call, the fewer calls and wakings; but what the kernel does not take is kept.
constexpr std::size_t OUT_BATCH_BYTES = 64 * CONTENT_BYTES_MAX;
constexpr std::size_t IN_BATCH_BYTES = 64 * CONTENT_BYTES_MAX;
constexpr std::size_t BATCH_RECORDS_MAX = 80;  // when they are short
constexpr std::size_t OUT_BYTES = OUT_BATCH_BYTES + (BATCH_RECORDS_MAX + 1) * OVERHEAD_BYTES + 64;
constexpr std::size_t IN_BYTES = IN_BATCH_BYTES + 2 * (HEAD_BYTES + SEALED_BYTES_MAX);
// A piece of memory this long begins a record of its own, so that the other side can open it into
// a place of its own; shorter ones are gathered.
constexpr std::size_t OWN_RECORD_BYTES = 8 * KiB;
constexpr std::size_t NOTE_BYTES_MAX = 1 * KiB;  // a record so short is opened aside
constexpr std::size_t NOTES_MAX = 32;            // in a row
constexpr std::byte KEY_UPDATE{24}, NEW_SESSION_TICKET{4};
constexpr std::size_t KEY_UPDATE_BYTES = 5;
constexpr std::byte WARNING{1}, FATAL{2};
constexpr std::byte CLOSE_NOTIFY{0}, UNEXPECTED_MESSAGE{10}, BAD_RECORD_MAC{20},
    RECORD_OVERFLOW{22}, INTERNAL_ERROR{80};

/// Memory of this thread, for the time of one call.
std::span<std::byte> scratch() {
  thread_local const std::unique_ptr<std::byte[]> memory(
      new std::byte[std::max(IN_BYTES, OUT_BYTES)]);
  return {memory.get(), std::max(IN_BYTES, OUT_BYTES)};
}

std::size_t sealed_bytes_of(const std::byte* head) {
  return std::to_integer<std::size_t>(head[3]) << 8 | std::to_integer<std::size_t>(head[4]);
}

bool is_key_update(std::span<const std::byte> note) {
  constexpr std::array<std::byte, 4> HEAD = {KEY_UPDATE, std::byte{0}, std::byte{0}, std::byte{1}};
  return note.size() == KEY_UPDATE_BYTES && std::equal(HEAD.begin(), HEAD.end(), note.begin()) &&
         note[4] <= std::byte{1};
}

}  // namespace

/// What came from the kernel: bytes [begin, end) of `memory` are not opened yet.
struct Session::Incoming {
  std::span<std::byte> memory;
  std::size_t begin = 0, end = 0;

  std::size_t left() const { return end - begin; }
  const std::byte* at() const { return memory.data() + begin; }
  /// Before more is received: how many bytes, so that the record at the front is whole (or its
  /// head, while that is not there), and for about `wanted` bytes of content.
  std::size_t make_room(std::size_t wanted) {
    std::memmove(memory.data(), at(), left());  // within the memory
    end -= begin;
    begin = 0;
    const std::size_t record =
        left() < HEAD_BYTES ? HEAD_BYTES : HEAD_BYTES + sealed_bytes_of(at());
    const std::size_t sealed = wanted + (wanted / CONTENT_BYTES_MAX + 1) * OVERHEAD_BYTES;
    return std::min(std::max(record, sealed), memory.size()) - left();
  }
};

Session::Session(std::unique_ptr<Handshake> handshake, Side side) noexcept
    : side_(side), handshake_(std::move(handshake)) {}

Session::~Session() = default;

ssize_t Session::fail(Fault fault) {
  if (fault_.cause == Cause::nothing) fault_ = std::move(fault);
  errno = EPROTO;
  return -1;
}

/// What came is not what TLS wants. False. The other side is told when the stream is closed.
bool Session::refuse(std::byte alert, const char* what) {
  alert_ = alert;
  fail({Cause::handshake, what, "look at what lies between"});
  return false;
}

// ---- handshake -----------------------------------------------------------------------

/// False: it goes on (EAGAIN), or has come to nothing.
bool Session::shake(int fd) {
  if (fault_.cause != Cause::nothing) return fail({}) == 0;
  std::array<std::byte, SHAKE_BYTES> memory;
  bool is_first = side_ == Side::client && sent_bytes_ == 0;  // the client begins
  while (!is_open()) {
    const ssize_t got = is_first ? 0 : recv(fd, memory.data(), memory.size(), MSG_DONTWAIT);
    if (got < 0) return is_refused(fd);
    if (got == 0 && !is_first) {
      if (side_ == Side::client)
        fail({Cause::handshake, "the connection was closed in the TLS handshake", ""});
      errno = EPROTO;
      return false;
    }
    is_first = false;
    Bytes out;
    const auto step = handshake_->take(std::span(memory).first(static_cast<std::size_t>(got)), out);
    if (!out.empty()) give(fd, out, false);
    if (step == Handshake::Step::failed) return fail(handshake_->fault()) == 0;
    if (step == Handshake::Step::done) begin();
  }
  return true;
}

/// Nothing could be received, and errno says why. Perhaps the other side waits for us. False.
bool Session::is_refused(int fd) {
  const int code = errno;
  const bool is_broken = has_unsent() && !flush(fd) && errno != EAGAIN;
  if (!is_broken) errno = code;
  return false;
}

void Session::begin() {
  Agreed agreed = handshake_->agreed(sealed_);
  handshake_ = nullptr;
  binding_ = agreed.binding;
  sealing_ = std::make_unique<Keys>(*agreed.suite, std::move(agreed.own), true);
  opening_ = std::make_unique<Keys>(*agreed.suite, std::move(agreed.other), false);
}

// ---- in ------------------------------------------------------------------------------

ssize_t Session::receive(int fd, std::span<const iovec> into) {
  if (!is_open() && !shake(fd)) return -1;
  if (has_unsent() && !flush(fd) && errno != EAGAIN) return -1;
  Runs room(into);
  std::size_t taken = take_left(room);
  Incoming in{scratch().first(IN_BYTES), 0, sealed_.size()};
  std::copy(sealed_.begin(), sealed_.end(), in.memory.begin());
  ssize_t got = 0;
  int code = 0;
  bool is_emptied = false;
  std::size_t received = 0;  // records may be long and hold little: others wait for this thread
  while (take_records(in, room, taken)) {
    if (taken > 0 && (is_emptied || received >= IN_BYTES)) break;
    const std::size_t asked = in.make_room(room.left());
    got = recv(fd, in.memory.data() + in.end, asked, MSG_DONTWAIT);
    code = errno;
    if (got <= 0) break;
    in.end += static_cast<std::size_t>(got);
    received += static_cast<std::size_t>(got);
    is_emptied = static_cast<std::size_t>(got) < asked;
  }
  Bytes(in.at(), in.at() + in.left()).swap(sealed_);
  if (taken > 0) return static_cast<ssize_t>(taken);
  if (fault_.cause != Cause::nothing) return fail({});
  errno = code;
  return has_ended_ ? 0 : got;
}

bool Session::has_unread() const noexcept {
  if (left_at_ < left_.size()) return true;
  return sealed_.size() >= HEAD_BYTES &&
         sealed_.size() >= HEAD_BYTES + sealed_bytes_of(sealed_.data());
}

/// What an earlier record had left.
std::size_t Session::take_left(Runs& room) {
  std::size_t taken = 0;
  while (left_at_ < left_.size() && room.left() > 0) {
    const auto run = room.front(left_.size() - left_at_);
    std::memcpy(run.data(), left_.data() + left_at_, run.size());  // within both
    room.skip(run.size());
    left_at_ += run.size();
    taken += run.size();
  }
  if (left_at_ == left_.size()) left_.clear(), left_at_ = 0;
  return taken;
}

/// Opens whole records as long as there is room. False: no more shall be received now.
bool Session::take_records(Incoming& in, Runs& room, std::size_t& taken) {
  while (room.left() > 0 && !has_ended_ && fault_.cause == Cause::nothing) {
    if (in.left() < HEAD_BYTES) return true;
    const std::size_t sealed = sealed_bytes_of(in.at());
    const bool is_record = in.at()[0] == static_cast<std::byte>(Content::application);
    if (!is_record || sealed <= TAG_BYTES || sealed > SEALED_BYTES_MAX)
      return refuse(is_record ? RECORD_OVERFLOW : UNEXPECTED_MESSAGE,
                    "what came is no record of TLS");
    // It is opened where its bytes are wanted, by whoever has room for all of it.
    const std::size_t content = sealed - 1 - TAG_BYTES;
    if (content > room.left() && taken > 0) return false;
    if (in.left() < HEAD_BYTES + sealed) return true;
    if (!take_record(in, sealed, room, taken)) return false;
  }
  return false;
}

bool Session::take_record(Incoming& in, std::size_t sealed, Runs& room, std::size_t& taken) {
  const std::byte* const record = in.at();
  in.begin += HEAD_BYTES + sealed;
  const std::size_t content = sealed - 1 - TAG_BYTES;
  if (content <= NOTE_BYTES_MAX || content > room.left())
    return take_aside(record, sealed, room, taken);
  const auto opened = opening_->open(record, sealed, room);
  if (!opened) return refuse(BAD_RECORD_MAC, "a record of TLS is not what was sent");
  if (opened->content != Content::application)
    return take_note(opened->content, room, opened->bytes);
  room.skip(opened->bytes);
  taken += opened->bytes;
  return is_patient(opened->bytes);
}

/// Opens a record into memory of our own first.
bool Session::take_aside(const std::byte* record, std::size_t sealed, Runs& room,
                         std::size_t& taken) {
  left_.resize(sealed - 1 - TAG_BYTES);
  left_at_ = 0;
  const iovec aside{left_.data(), left_.size()};
  const Runs into(std::span(&aside, 1));
  const auto opened = opening_->open(record, sealed, into);
  if (!opened) {
    left_.clear();
    return refuse(BAD_RECORD_MAC, "a record of TLS is not what was sent");
  }
  if (opened->content != Content::application) {
    const Bytes note = std::move(left_);  // `into` goes on to name its memory
    left_.clear();
    return take_note(opened->content, into, opened->bytes);
  }
  left_.resize(opened->bytes);
  taken += take_left(room);
  return is_patient(opened->bytes);
}

/// After a record with so many bytes for the reader. False: too many had none.
bool Session::is_patient(std::size_t bytes) {
  notes_ = bytes > 0 ? 0 : notes_ + 1;
  if (notes_ <= NOTES_MAX) return true;
  return refuse(UNEXPECTED_MESSAGE, "records of TLS come and say nothing");
}

/// What the other side says of the connection itself: the first `bytes` of `from`. None that counts
/// is longer than its beginning.
bool Session::take_note(Content content, Runs from, std::size_t bytes) {
  std::array<std::byte, KEY_UPDATE_BYTES> memory;
  const auto note = std::span(memory).first(std::min(bytes, memory.size()));
  for (std::byte& each : note) {
    each = from.front(1).front();
    from.skip(1);
  }
  if (content == Content::alert && bytes == 2) {
    has_ended_ = true;
    const auto alert = std::to_integer<unsigned>(note[1]);
    if (note[1] != CLOSE_NOTIFY) fail(alert_fault(side_, alert));
    return false;
  }
  const bool is_handshake = content == Content::handshake && bytes >= 4;
  if (is_handshake && note[0] == NEW_SESSION_TICKET && side_ == Side::client) return is_patient(0);
  if (is_handshake && is_key_update(note) && bytes == KEY_UPDATE_BYTES) {
    opening_->renew();
    if (note[4] == std::byte{1}) is_renewing_ = true;
    return is_patient(0);
  }
  return refuse(UNEXPECTED_MESSAGE, "an unexpected message of TLS came");
}

// ---- out -----------------------------------------------------------------------------

ssize_t Session::send(int fd, std::span<const iovec> from, bool is_more) {
  if (!is_open() && !shake(fd)) return -1;
  if (has_unsent() && !flush(fd)) return -1;
  if (fault_.cause != Cause::nothing) return fail({});
  std::size_t taken = 0;
  const std::size_t sealed = seal_batch(from, scratch().data(), taken);
  if (sealed == 0) {
    alert_ = INTERNAL_ERROR;
    return fail({Cause::handshake, "OpenSSL cannot seal a record", ""});
  }
  std::size_t all = 0;
  for (const iovec& run : from) all += run.iov_len;
  give(fd, scratch().first(sealed), is_more || taken < all);
  return static_cast<ssize_t>(taken);
}

/// How many bytes it wrote; 0: it failed.
std::size_t Session::seal_batch(std::span<const iovec> from, std::byte* out, std::size_t& taken) {
  std::size_t at = 0;
  if (is_renewing_ || sealing_->count() >= records_per_key_) {
    const std::byte note[] = {KEY_UPDATE, std::byte{0}, std::byte{0}, std::byte{1},
                              is_asking_ ? std::byte{1} : std::byte{0}};
    at = seal_note(Content::handshake, note, out);
    if (at == 0) return 0;
    sealing_->renew();
    is_renewing_ = is_asking_ = false;
  }
  Runs rest(from);
  for (std::size_t records = 0; records < BATCH_RECORDS_MAX && rest.left() > 0; ++records) {
    const std::size_t room = std::min(CONTENT_BYTES_MAX, OUT_BATCH_BYTES - taken);
    Runs ahead = rest;
    std::size_t bytes = 0;
    while (bytes < room && ahead.left() > 0) {
      const auto run = ahead.front(room - bytes);
      if (bytes > 0 && ahead.front(OWN_RECORD_BYTES).size() >= OWN_RECORD_BYTES) break;
      ahead.skip(run.size());
      bytes += run.size();
    }
    if (bytes == 0) break;
    const std::size_t sealed = sealing_->seal(rest, bytes, Content::application, out + at);
    if (sealed == 0) return 0;
    at += sealed;
    taken += bytes;
  }
  return at;
}

std::size_t Session::seal_note(Content content, std::span<const std::byte> note, std::byte* out) {
  const iovec run{const_cast<std::byte*>(note.data()), note.size()};  // it is only read
  Runs from(std::span(&run, 1));
  return sealing_->seal(from, note.size(), content, out);
}

/// To the kernel; what it does not take is kept. An error shows at the next call.
void Session::give(int fd, std::span<const std::byte> sealed, bool is_more) {
  sent_bytes_ += sealed.size();
  std::size_t sent = 0;
  if (!has_unsent()) {
    const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (is_more ? MSG_MORE : 0);
    const ssize_t answer = ::send(fd, sealed.data(), sealed.size(), flags);
    sent = static_cast<std::size_t>(std::max<ssize_t>(answer, 0));
  }
  unsent_.insert(unsent_.end(), sealed.begin() + static_cast<std::ptrdiff_t>(sent), sealed.end());
}

bool Session::flush(int fd) {
  while (has_unsent()) {
    const ssize_t sent =
        ::send(fd, unsent_.data() + unsent_at_, unsent_bytes(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    unsent_at_ += static_cast<std::size_t>(sent);
  }
  Bytes().swap(unsent_);
  unsent_at_ = 0;
  return true;
}

void Session::say_end(int fd) {
  const bool is_told = fault_.cause != Cause::nothing && alert_ == CLOSE_NOTIFY;  // it knows why
  if (!is_open() || has_unsent() || is_told) return;
  const std::byte note[] = {alert_ == CLOSE_NOTIFY ? WARNING : FATAL, alert_};
  std::array<std::byte, 2 + OVERHEAD_BYTES> out;
  const std::size_t sealed = seal_note(Content::alert, note, out.data());
  give(fd, std::span(out).first(sealed), false);
}

void Session::renew_keys(bool is_other_too) noexcept {
  is_renewing_ = true;
  is_asking_ = is_other_too;
}

}  // namespace gd2fs::tls
