#include "connection.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>

#include "answer.h"
#include "janitor.h"
#include "worker.h"

namespace gd2fs::serve {
namespace {

using wire::Kind;
using wire::Op;

constexpr std::size_t TURN_BYTES_MAX = 1 * MiB;  // read in one turn
constexpr std::size_t RECEIVE_BYTES_MAX =
    256 * KiB;  // and at once: still in cache when it is hashed
constexpr std::size_t STRANGER_ROOM_BYTES = 1 * KiB;
constexpr std::size_t DATA_ROOM_BYTES = 4 * KiB;  // for the header and table behind a payload
constexpr std::size_t REQUEST_ROOM_BYTES = 64 * KiB;
constexpr std::size_t IOVECS_MAX = 1024;
constexpr std::size_t NEW_VIEWS_MAX = 4 * REQUESTS_MAX;
constexpr std::int64_t CLOSING_MS = 500;  // for a GOODBYE to be read

}  // namespace

Connection::Connection(Worker& worker, Channel channel, std::string host, std::uint64_t id)
    : worker_(worker),
      node_(worker.node()),
      channel_(std::move(channel)),
      peer_(local::peer_of(fd())),
      by_(peer_ ? Transport::unix_socket : Transport::tcp),
      host_(std::move(host)),
      id_(id),
      greeting_(std::make_unique<Greeting>(node_)),
      opened_ms_(boottime_ms()),
      heard_ms_(opened_ms_),
      receiver_(node_, worker.tally(), by_),
      sender_(node_, worker.tally(), by_),
      placer_(node_, worker.tally()) {
  node_.connections.fetch_add(1, std::memory_order_relaxed);
  sender_.wake = [post = poster()](std::uint64_t request, Status status, PieceRef piece) {
    post([request, status, piece = std::move(piece)](Connection& self) {
      self.loaded(request, status, piece);
    });
  };
}

Connection::~Connection() {
  close();
  node_.connections.fetch_sub(1, std::memory_order_relaxed);
}

void Connection::on_events(std::uint32_t events) {
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) can_read_ = true;
  if ((events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) can_write_ = true;
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) is_hung_up_ = true;
}

bool Connection::turn(bool is_alone) {
  if (can_read_ || is_reading_) is_reading_ = read();
  if (phase_ == Phase::open) work();
  const bool is_moving = phase_ == Phase::open && move_bytes();
  if (phase_ != Phase::closed && can_write_ && has_to_send()) send(is_alone);
  if (phase_ == Phase::closed) return false;
  const bool is_working = !small_requests_.empty() || receiver_.is_reserving();
  const bool can_work = phase_ == Phase::open && is_working && !sender_.is_full();
  return is_reading_ || can_read_ || can_work || is_moving || (can_write_ && has_to_send());
}

bool Connection::has_to_send() const noexcept {
  return sender_.has_work() || channel_.has_unsent();
}

// ---- in ------------------------------------------------------------------------------

/// True: the turn ended before the socket was empty.
bool Connection::read() {
  const std::uint64_t turn_ends = receiver_.bytes_received() + TURN_BYTES_MAX;
  for (std::size_t steps = 0; steps < REQUESTS_MAX; ++steps) {
    const bool is_going_on = receiver_.left() > 0 ? read_payload() : read_frames();
    if (!is_going_on || phase_ == Phase::closed) return false;
    if (receiver_.bytes_received() >= turn_ends) return true;
  }
  return true;
}

/// Receives payload into extents, and the next header with the end of it. False: nothing more to
/// read now.
bool Connection::read_payload() {
  iovecs_.clear();
  const std::size_t unwanted = receiver_.next(RECEIVE_BYTES_MAX, iovecs_);
  if (iovecs_.size() > IOVECS_MAX - 1) iovecs_.resize(IOVECS_MAX - 1);
  std::size_t payload = unwanted;
  for (const iovec& run : iovecs_) payload += run.iov_len;

  if (const std::size_t ready = std::min(inlet_.buffered(), payload); ready > 0) {
    if (unwanted > 0)
      inlet_.skip(ready);
    else
      inlet_.copy_out(iovecs_, ready);
    receiver_.received(ready, sender_.replies());
    return true;
  }
  if (!can_read_) return false;
  if (unwanted > 0) {
    const std::size_t got = throw_away(payload);
    if (got == 0) return false;
    receiver_.received(got, sender_.replies());
    return true;
  }
  std::size_t wanted = payload;
  if (payload == receiver_.left()) {
    iovecs_.push_back(inlet_.room(DATA_ROOM_BYTES));
    wanted += iovecs_.back().iov_len;
  }
  const ssize_t got = channel_.receive(iovecs_);
  if (received(got, wanted) != Io::some) return false;
  const std::size_t taken = std::min(static_cast<std::size_t>(got), payload);
  inlet_.filled(static_cast<std::size_t>(got) - taken);
  receiver_.received(taken, sender_.replies());
  return true;
}

/// How many of the next bytes of the stream are gone now.
std::size_t Connection::throw_away(std::size_t bytes) {
  const std::size_t wanted = std::min(bytes, worker_.scratch().size());
  const ssize_t got = channel_.discard(worker_.scratch().first(wanted));
  return received(got, wanted) == Io::some ? static_cast<std::size_t>(got) : 0;
}

/// Handles the next buffered frame, or receives more. False: nothing more to read now.
bool Connection::read_frames() {
  if (phase_ == Phase::closing) {
    if (!can_read_) return false;
    return throw_away(TURN_BYTES_MAX) > 0;
  }
  const bool is_stranger = phase_ != Phase::open;
  std::string reason;
  const auto frame = inlet_.next(is_stranger ? HELLO_BYTES_MAX : FRAME_BYTES_MAX, reason);
  if (!reason.empty()) {
    if (is_stranger && inlet_.is_tls()) reason = "this node speaks no TLS: leave `--tls-ca` out";
    is_stranger ? refuse({Refusal::bad_hello, reason}) : fault(reason);
    return true;
  }
  if (frame) {
    handle(*frame);
    return true;
  }
  if (!can_read_) return false;
  const std::size_t wanted = is_stranger                ? STRANGER_ROOM_BYTES
                             : receiver_.is_expecting() ? DATA_ROOM_BYTES
                                                        : REQUEST_ROOM_BYTES;
  const iovec room = inlet_.room(wanted);
  const ssize_t got = channel_.receive(room.iov_base, room.iov_len);
  if (received(got, room.iov_len) != Io::some) return false;
  inlet_.filled(static_cast<std::size_t>(got));
  return true;
}

/// What a receive came to. A short one has emptied the socket, unless the end of the stream is
/// behind it.
Connection::Io Connection::received(std::int64_t bytes, std::size_t wanted) {
  if (bytes > 0) {
    const bool is_emptied = channel_.is_emptied(static_cast<std::size_t>(bytes), wanted);
    if (is_emptied && !is_hung_up_) can_read_ = false;
    return Io::some;
  }
  if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    can_read_ = errno == EINTR;
    return Io::none;
  }
  if (channel_.is_tls()) return tls_ended();
  close();
  return Io::ended;
}

/// Who speaks no TLS is told so in plain words; else there is no way to tell it anything.
Connection::Io Connection::tls_ended() {
  const tls::Cause cause = channel_.fault().cause;
  if (cause == tls::Cause::plaintext) {
    channel_.speak_plainly();
    refuse({Refusal::tls_required,
            "this node speaks TLS only: give its authority as `--tls-ca` or "
            "GD2FS_TLS_CA"});
    return Io::none;
  }
  const bool is_faulty = cause != tls::Cause::nothing;
  const bool is_stranger = phase_ == Phase::hello || phase_ == Phase::proof;
  if (is_faulty && phase_ == Phase::open) Counters::add(node_.counters.protocol_faults);
  if (is_faulty && is_stranger) {
    const bool is_trust = cause == tls::Cause::certificate;
    node_.counters.refuse(is_trust ? Refusal::tls_certificate : Refusal::tls_handshake);
    phase_ = Phase::closing;  // counted
  }
  close();
  return Io::ended;
}

// ---- frames --------------------------------------------------------------------------

void Connection::handle(const Inlet::Frame& frame) {
  heard_ms_ = boottime_ms();
  if (frame.header.kind == Kind::goodbye) return close();
  switch (phase_) {
    case Phase::hello: return handle_hello(frame);
    case Phase::proof: return handle_proof(frame);
    case Phase::open: return handle_open(frame);
    default: return;
  }
}

void Connection::handle_open(const Inlet::Frame& frame) {
  if (!sender_.holds().release(frame.header.consumed, heard_ms_)) {
    return fault("a frame says that more was read than was ever sent");
  }
  switch (frame.header.kind) {
    case Kind::request: return handle_request(frame);
    case Kind::data: return handle_data(frame);
    case Kind::ack: return handle_ack(frame.header);
    case Kind::release: return handle_release(frame);
    case Kind::peer: return handle_peer(frame);
    case Kind::key: return handle_key(frame);
    case Kind::source: return handle_source(frame);
    case Kind::cancel: return cancel(frame.header.request, Status::cancelled);
    case Kind::hello:
    case Kind::proof: return fault("a second greeting on an open stream");
    default: return handle_unasked(frame.header);
  }
}

/// Kinds that are answered, at most, and start nothing. Who asks must read the answers.
void Connection::handle_unasked(const wire::Header& header) {
  if (sender_.is_full()) return fault("answers are not read while more is asked for");
  answer_all(sender_.replies().bytes, header.request, Op{0}, 1, Status::invalid);
}

void Connection::handle_ack(const wire::Header& header) {
  if ((header.flags & wire::CONFIRM) == 0) return;
  if (sender_.is_full()) return fault("answers are not read while more is asked for");
  // Holds go only when the reader has their bytes, or with the stream: all were in place. Views of
  // this request are the reader's own from here on.
  std::erase_if(new_views_, [&](const auto& view) { return view.first == header.request; });
  wire::encode_ack(sender_.replies().bytes, Kind::acked, header.request, header.consumed);
}

void Connection::handle_release(const Inlet::Frame& frame) {
  const auto leases = wire::decode_release(frame.table);
  if (!leases || sender_.viewer == nullptr) return fault("a RELEASE is malformed, or of no view");
  node_.views.release(*sender_.viewer, *leases);
}

/// Requests that were given up, or came to nothing, are not confirmed: they are forgotten here.
void Connection::note_view(std::uint64_t request, std::uint64_t lease) {
  if (new_views_.size() >= NEW_VIEWS_MAX) {
    std::erase_if(new_views_, [&](const auto& view) {
      return view.first + REQUESTS_MAX < request && !node_.views.has(*sender_.viewer, view.second);
    });
  }
  if (new_views_.size() >= 2 * NEW_VIEWS_MAX) return fault("views are never confirmed");
  new_views_.emplace_back(request, lease);
}

void Connection::drop_new_views() {
  for (const auto& [request, lease] : new_views_) {
    node_.views.release(*sender_.viewer, std::span(&lease, 1));
  }
  new_views_.clear();
}

void Connection::handle_data(const Inlet::Frame& frame) {
  const wire::Header& header = frame.header;
  if (!wire::decode_data(frame.table, header.items, header.payload_bytes(), data_)) {
    return fault("the table of a DATA frame is malformed");
  }
  if (frame.header.request > last_request_) {
    return fault("DATA for request " + std::to_string(frame.header.request) +
                 ", which was never made");
  }
  const std::string reason = receiver_.begin_frame(frame.header, data_);
  if (!reason.empty()) fault(reason);
}

void Connection::tick(std::int64_t now_ms) {
  const bool is_stranger = phase_ == Phase::hello || phase_ == Phase::proof;
  if (is_stranger && now_ms - opened_ms_ > HELLO_MS) {
    node_.counters.refuse(Refusal::timeout);
    goodbye("no HELLO and PROOF within " + std::to_string(HELLO_MS) + " ms", wire::MORE);
  }
  if (phase_ == Phase::open) {
    expire(now_ms);
    const std::int64_t waiting_ms = sender_.holds().waiting_since_ms(now_ms);
    if (waiting_ms != 0 && now_ms - waiting_ms > node_.options.hold_silence_ms) return cut_off();
    if (is_deaf(now_ms)) return cut_off();
    const bool is_stuck = transfers_ != nullptr && transfers_->is_busy() &&
                          now_ms - transfers_->waiting_since_ms() > node_.options.hold_silence_ms;
    if (is_stuck) return cut_off();
    const bool is_idle = now_ms - heard_ms_ > IDLE_MS && in_flight_.empty();
    if (is_idle) goodbye("the stream was idle", wire::MORE);
  }
  if (phase_ == Phase::closing && now_ms > closing_ms_) close();
  // A bell that UCX has not rung costs no more than this.
  if (has_to_send() || transfers_ != nullptr) worker_.make_ready(*this);
}

// ---- out -----------------------------------------------------------------------------

void Connection::send(bool is_alone) {
  const std::size_t payload_max = is_alone ? PAYLOAD_BYTES_MAX : PAYLOAD_BYTES_SHARED;
  // What is sealed already goes first, and alone when nothing follows.
  if (!channel_.flush()) {
    if (errno != EAGAIN) return close();
    can_write_ = false;
    return;
  }
  const Outgoing::Sent sent = sender_.turn(channel_, payload_max, receiver_.bytes_received());
  for (const std::uint64_t request : sender_.ended()) took(request);
  if (sent == Outgoing::Sent::blocked) can_write_ = false;
  if (sent == Outgoing::Sent::broken) return close();
  if (phase_ == Phase::closing && !has_to_send()) channel_.end_sending();
}

/// The kernel has the end of its answer.
void Connection::took(std::uint64_t request) {
  const auto flight = std::find_if(in_flight_.begin(), in_flight_.end(),
                                   [&](const Flight& each) { return each.request == request; });
  if (flight == in_flight_.end()) return;
  const Transport by = is_leasing_ ? Transport::shm : transfers_ != nullptr ? Transport::rdma : by_;
  const std::uint64_t took_ns = steady_ns() - flight->began_ns;
  worker_.tally().took(flight->op, by, took_ns);
  if (node_.slow.is_slow(took_ns))
    node_.slow.note({op_name(op_index(flight->op)), by, took_ns / 1000, flight->trace});
  in_flight_.erase(flight);
}

/// Does the reader take nothing of what waits for it? Of TCP the system notices by itself
/// (ACCEPTED_SILENCE_MS), of a Unix socket nobody else does.
bool Connection::is_deaf(std::int64_t now_ms) noexcept {
  const bool is_waiting = peer_ && !can_write_ && has_to_send();
  const std::size_t untaken = is_waiting ? tcp::unacknowledged_bytes(fd()) : 0;
  if (!is_waiting || untaken != untaken_bytes_) untaken_ms_ = now_ms;
  untaken_bytes_ = untaken;
  return now_ms - untaken_ms_ > node_.options.hold_silence_ms;
}

/// A reader that takes nothing of what is there for it: no GOODBYE would reach it either.
void Connection::cut_off() {
  Counters::add(node_.counters.cut_off);
  close();
}

void Connection::fault(const std::string& reason) {
  Counters::add(node_.counters.protocol_faults);
  goodbye(reason);
}

void Connection::refuse(const Refused& refused) {
  node_.counters.refuse(refused.reason);
  goodbye(refused.text);
}

/// Everything that the stream had is freed now; what remains is to be read by the other side, or
/// not.
void Connection::goodbye(const std::string& reason, std::uint8_t flags) {
  if (phase_ == Phase::closing || phase_ == Phase::closed) return;
  const bool is_deaf = !channel_.is_open();  // there is no way to tell it
  sender_.abandon();
  receiver_.clear();
  end_transfers();
  small_requests_.clear();
  parked_.clear();
  wire::encode_goodbye(sender_.replies().bytes, reason, flags);
  phase_ = Phase::closing;
  closing_ms_ = boottime_ms() + CLOSING_MS;
  if (is_deaf) close();
}

void Connection::close() {
  if (phase_ == Phase::closed) return;
  if (phase_ == Phase::hello || phase_ == Phase::proof) node_.counters.refuse(Refusal::left);
  phase_ = Phase::closed;
  if (!host_.empty()) node_.strangers.leave(host_, false);
  host_.clear();
  receiver_.clear();
  end_transfers();
  sender_.abandon();
  sender_.holds().clear();
  drop_new_views();
  if (auto names = receiver_.take_staged(); !names.empty()) {
    worker_.janitor().writer_vanished(std::move(names));
  }
  channel_.close();
}

}  // namespace gd2fs::serve
