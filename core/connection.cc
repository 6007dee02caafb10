#include "connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "answer.h"
#include "greeting.h"
#include "janitor.h"
#include "memory_advice.h"
#include "mover.h"
#include "sync.h"
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
constexpr auto TURN = std::chrono::milliseconds(1);

std::int64_t deadline_after(std::uint32_t remaining_ms) {
  return remaining_ms == 0 ? 0 : boottime_ms() + remaining_ms;
}

bool is_over(std::int64_t deadline_ms, std::int64_t now_ms) {
  return deadline_ms != 0 && now_ms >= deadline_ms;
}

}  // namespace

Connection::Connection(Worker& worker, tcp::Descriptor socket, std::string host, std::uint64_t id)
    : worker_(worker),
      node_(worker.node()),
      socket_(std::move(socket)),
      peer_(local::peer_of(socket_.get())),
      host_(std::move(host)),
      id_(id),
      opened_ms_(boottime_ms()),
      heard_ms_(opened_ms_),
      receiver_(node_),
      sender_(node_) {
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
  if (phase_ != Phase::closed && can_write_ && sender_.has_work()) send(is_alone);
  if (phase_ == Phase::closed) return false;
  const bool is_working = !small_requests_.empty() || receiver_.is_reserving();
  const bool can_work = phase_ == Phase::open && is_working && !sender_.is_full();
  return is_reading_ || can_read_ || can_work || (can_write_ && sender_.has_work());
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
  msghdr message{};
  message.msg_iov = iovecs_.data();
  message.msg_iovlen = iovecs_.size();
  const ssize_t got = recvmsg(fd(), &message, MSG_DONTWAIT);
  if (received(got, wanted) != Io::some) return false;
  const std::size_t taken = std::min(static_cast<std::size_t>(got), payload);
  inlet_.filled(static_cast<std::size_t>(got) - taken);
  receiver_.received(taken, sender_.replies());
  return true;
}

/// How many of the next bytes of the socket are gone now. TCP drops them without touching memory;
/// the
/// scratch is there for whatever else a socket may do.
std::size_t Connection::throw_away(std::size_t bytes) {
  const std::span<std::byte> scratch = worker_.scratch();
  const std::size_t wanted = std::min(bytes, scratch.size());
  const ssize_t got = recv(fd(), scratch.data(), wanted, MSG_TRUNC | MSG_DONTWAIT);
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
    is_stranger ? refuse(reason) : fault(reason);
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
  const ssize_t got = recv(fd(), room.iov_base, room.iov_len, MSG_DONTWAIT);
  if (received(got, room.iov_len) != Io::some) return false;
  inlet_.filled(static_cast<std::size_t>(got));
  return true;
}

/// What a receive came to. A short one has emptied the socket, unless the end of the stream is
/// behind it.
Connection::Io Connection::received(std::int64_t bytes, std::size_t wanted) {
  if (bytes > 0) {
    if (static_cast<std::size_t>(bytes) < wanted && !is_hung_up_) can_read_ = false;
    return Io::some;
  }
  if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    can_read_ = errno == EINTR;
    return Io::none;
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

void Connection::handle_hello(const Inlet::Frame& frame) {
  if (frame.header.kind != Kind::hello) return refuse("a stream begins with HELLO");
  const auto hello = wire::decode_hello(frame.table);
  if (!hello) return refuse(hello_syntax_fault(frame.table));
  if (const std::string reason = hello_fault(node_, *hello); !reason.empty()) return refuse(reason);
  is_node_ = hello->stream_class == wire::StreamClass::node;
  const bool is_splicing = node_.splice_fault.empty();
  if (is_splicing && (hello->capabilities & wire::SPLICE_HOLDS) != 0) sender_.allow_splice();
  wire::Challenge challenge = challenge_of(node_);
  challenge.capabilities |= grant_arena(hello->capabilities);
  wire::encode_challenge(sender_.replies().bytes, challenge);
  phase_ = Phase::proof;
}

/// What this stream may do with the arena.
std::uint64_t Connection::grant_arena(std::uint64_t wanted) {
  std::uint64_t rights = arena_rights(node_, peer_, wanted);
  is_leasing_ = (rights & wire::SHM) != 0;
  if (is_leasing_ && (rights & wire::VIEW) != 0)
    sender_.viewer = node_.views.viewer(peer_->pid, local::process_of(fd()));
  if (sender_.viewer == nullptr) rights &= ~wire::VIEW;
  return rights;
}

void Connection::handle_proof(const Inlet::Frame& frame) {
  if (frame.header.kind != Kind::proof) return refuse("CHALLENGE is answered with PROOF");
  const auto proof = wire::decode_proof(frame.table);
  if (!proof || *proof != wire::Proof{}) {
    return refuse("this node has no token, yet the PROOF is of one: connect without a token");
  }
  wire::encode_welcome(sender_.replies().bytes, wire::Welcome{});
  wire::encode_map(sender_.replies().bytes, 0, node_.view()->map);
  if (is_leasing_) sender_.lease_arena();
  phase_ = Phase::open;
  node_.strangers.leave(host_);
  host_.clear();
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

void Connection::handle_request(const Inlet::Frame& frame) {
  const std::uint64_t id = frame.header.request;
  if (id <= last_request_) {
    return fault("request " + std::to_string(id) + " came after " + std::to_string(last_request_) +
                 ": ids rise on a stream");
  }
  if (in_flight_ >= REQUESTS_MAX) {
    return fault("more than " + std::to_string(REQUESTS_MAX) + " requests in flight on a stream");
  }
  auto body = wire::decode_request(frame.table, frame.header.items);
  if (!body) return fault("request " + std::to_string(id) + " is malformed");
  last_request_ = id;
  ++in_flight_;
  Counters::add(node_.counters.requests);
  begin(id, frame.header.flags, std::move(*body));
}

void Connection::begin(std::uint64_t request, std::uint8_t flags, wire::Request body) {
  const Op op = body.head.op;
  const bool is_between_nodes = static_cast<std::uint8_t>(op) >= 64;
  const std::int64_t deadline_ms = deadline_after(body.head.deadline_ms);
  if (wire::item_bytes(op) == 0 || (is_between_nodes && !is_node_)) {
    answer_all(sender_.replies().bytes, request, Op{0}, 1, Status::invalid);
    ++sender_.replies().ends;
  } else if (op == Op::get || op == Op::read) {
    ReadJob job(request, std::move(body), deadline_ms);
    if (job.is_view() && sender_.viewer == nullptr) {
      job.end(sender_.replies().bytes, Status::denied);
      ++sender_.replies().ends;
      return;
    }
    if (job.is_view()) note_view(request, job.lease());
    sender_.add(std::move(job));
  } else if (op == Op::offer) {
    const bool is_eager = (flags & wire::EAGER) != 0;
    const bool is_moved = body.head.priority == wire::PRIORITY_MOVE;
    const bool is_judged = node_.judge.is_sitting() && !is_eager && !is_moved;
    if (is_judged) return submit(request, std::move(body), deadline_ms);
    receive(request, std::move(body), is_eager, deadline_ms);
  } else {
    small_requests_.emplace_back(request, std::move(body), deadline_ms);
  }
}

void Connection::receive(std::uint64_t request, wire::Request offer, bool is_eager,
                         std::int64_t deadline_ms, std::vector<bool> refused) {
  const std::string reason = receiver_.add(request, std::move(offer), is_eager, deadline_ms,
                                           sender_.replies(), std::move(refused));
  if (!reason.empty()) fault(reason);
}

/// An offer is as if it had not come until the site's rule has spoken, or has had its time.
void Connection::submit(std::uint64_t request, wire::Request offer, std::int64_t deadline_ms) {
  std::vector<Case> cases;
  for (const wire::Item& item : offer.items) {
    cases.push_back({std::string(std::string_view(item.name)), (item.flags & wire::ITEM_PAGE) != 0,
                     item.length, item.ttl_s, wire::class_of(item.flags)});
  }
  std::string tags;
  for (const std::byte each : offer.body) tags += static_cast<char>(each);
  parked_.push_back({request, offer.head.op, offer.items.size(), deadline_ms, nullptr,
                     std::make_shared<wire::Request>(std::move(offer)), boottime_ms() + JUDGE_MS});
  node_.judge.ask(std::move(tags), std::move(cases),
                  [post = poster(), request](std::vector<Verdict> verdicts) {
                    post([request, verdicts = std::move(verdicts)](Connection& self) {
                      self.judged(request, verdicts);
                    });
                  });
}

/// No verdicts: it goes on as it is.
void Connection::judged(std::uint64_t request, const std::vector<Verdict>& verdicts) {
  const auto found = std::find_if(parked_.begin(), parked_.end(), [&](const Parked& each) {
    return each.request == request && each.offer != nullptr;
  });
  if (found == parked_.end() || phase_ != Phase::open) return;
  wire::Request offer = std::move(*found->offer);
  const std::int64_t deadline_ms = found->deadline_ms;
  parked_.erase(found);
  std::vector<bool> refused(offer.items.size());
  const bool is_told = verdicts.size() == offer.items.size();
  if (!is_told) Counters::add(node_.counters.unjudged);
  for (std::size_t at = 0; is_told && at < offer.items.size(); ++at) {
    wire::Item& item = offer.items[at];
    const Verdict& verdict = verdicts[at];
    refused[at] = !verdict.is_admitted;
    if (verdict.ttl_s) item.ttl_s = *verdict.ttl_s;
    if (!verdict.eviction_class) continue;
    item.flags &= static_cast<std::uint16_t>((1u << wire::ITEM_CLASS_SHIFT) - 1);
    item.flags |= wire::class_flags(*verdict.eviction_class);
  }
  receive(request, std::move(offer), false, deadline_ms, std::move(refused));
  worker_.make_ready(*this);
}

// ---- work ----------------------------------------------------------------------------

void Connection::work() {
  if (sender_.is_full()) return;
  if (receiver_.is_reserving()) receiver_.reserve_some(sender_.replies());
  if (!small_requests_.empty()) work_small_requests();
}

void Connection::work_small_requests() {
  const auto turn_ends = std::chrono::steady_clock::now() + TURN;
  Replies& replies = sender_.replies();
  while (!small_requests_.empty() && !sender_.is_full()) {
    SmallRequest& first = small_requests_.front();
    if (is_over(first.deadline_ms(), boottime_ms())) {
      first.end(replies.bytes, Status::expired);
      ++replies.ends;
    } else if (first.is_long()) {
      park(std::move(first));
    } else if (first.is_advice() || first.is_sync()) {
      pass_on(std::move(first));
    } else if (first.op() == Op::drop && node_.store->has_tier()) {
      if (!drop(first)) return;
    } else if (first.is_question()) {
      put_on_desk(std::move(first));
    } else {
      const SmallRequest::Turn turn = first.run(node_, replies.bytes);
      if (turn == SmallRequest::Turn::more) return;
      if (turn == SmallRequest::Turn::done) ++replies.ends;
      if (turn == SmallRequest::Turn::waits) await(std::move(first));
    }
    small_requests_.pop_front();
    if (std::chrono::steady_clock::now() > turn_ends) return;
  }
}

Connection::Post Connection::poster() const {
  return [&worker = worker_, id = id_](std::function<void(Connection&)> task) {
    worker.post([&worker, id, task = std::move(task)] {
      if (Connection* connection = worker.find(id)) task(*connection);
    });
  };
}

Connection::Reply Connection::reply_later(const SmallRequest& request) {
  parked_.push_back(
      {request.request(), request.op(), request.items(), request.deadline_ms(), nullptr});
  return [post = poster(), number = request.request()](wire::Bytes response) {
    post([number, response = std::move(response)](Connection& self) {
      self.answered_elsewhere(number, response);
    });
  };
}

void Connection::park(SmallRequest request) {
  worker_.janitor().add([&node = node_, reply = reply_later(request), request]() mutable {
    wire::Bytes response;
    request.run(node, response, true);
    node.store->after_drops([reply, response = std::move(response)] { reply(response); });
  });
}

/// Answered once nothing of it can come back from disk. False: there is more to do.
bool Connection::drop(SmallRequest& request) {
  wire::Bytes response;
  if (request.run(node_, response) == SmallRequest::Turn::more) return false;
  node_.store->after_drops(
      [reply = reply_later(request), response = std::move(response)] { reply(response); });
  return true;
}

void Connection::pass_on(SmallRequest request) {
  const auto reply = [later = reply_later(request),
                      number = request.request()](const std::vector<wire::ResponseItem>& answers) {
    wire::Bytes response;
    wire::encode_response(response, number, answers);
    later(std::move(response));
  };
  if (request.is_sync()) return sync(*node_.store, request.take_body(), reply);
  if (!is_memory_advice(request.body()))
    return node_.mover->advise(request.take_body(), request.deadline_ms(), reply);
  const StopRef stop = parked_.back().stop.flag;
  start_memory_advice(node_, request.take_body(), request.deadline_ms(), stop, reply);
}

void Connection::put_on_desk(SmallRequest question) {
  const auto reply = [later = reply_later(question),
                      number = question.request()](const std::optional<std::string>& text) {
    wire::Bytes response;
    const wire::ResponseItem item{.status = text ? Status::ok : Status::denied};
    wire::encode_text_response(response, number, item, text.value_or(""));
    later(std::move(response));
  };
  wire::Request asked = question.take_body();
  if (asked.items.size() != 1) return reply({});
  node_.settings_desk.ask(std::string(std::string_view(asked.items.front().name)), reply);
}

void Connection::await(SmallRequest request) {
  const auto waiting = std::make_shared<SmallRequest>(std::move(request));
  parked_.push_back(
      {waiting->request(), waiting->op(), waiting->items(), waiting->deadline_ms(), waiting});
  waiting->wait(node_, [post = poster(), number = waiting->request()](const RecordAnswer& told) {
    post([number, told](Connection& self) { self.resume(number, told); });
  });
}

void Connection::resume(std::uint64_t request, const RecordAnswer& told) {
  const auto found = std::find_if(parked_.begin(), parked_.end(),
                                  [&](const Parked& each) { return each.request == request; });
  if (found == parked_.end() || phase_ != Phase::open || found->waiting == nullptr) return;
  found->waiting->resume(told);
  small_requests_.push_front(std::move(*found->waiting));
  parked_.erase(found);
  worker_.make_ready(*this);
}

void Connection::loaded(std::uint64_t request, Status status, const PieceRef& piece) {
  sender_.loaded(request, status, piece);
  worker_.make_ready(*this);
}

void Connection::answered_elsewhere(std::uint64_t request, const wire::Bytes& response) {
  const auto found = std::find_if(parked_.begin(), parked_.end(),
                                  [&](const Parked& each) { return each.request == request; });
  if (found == parked_.end() || phase_ != Phase::open) return;
  parked_.erase(found);
  Replies& replies = sender_.replies();
  replies.bytes.insert(replies.bytes.end(), response.begin(), response.end());
  ++replies.ends;
  worker_.make_ready(*this);
}

/// A reader that is behind on its answers learns it from the next request that is out of date.
void Connection::tell_map() {
  if (phase_ != Phase::open || sender_.is_full()) return;
  wire::encode_map(sender_.replies().bytes, 0, node_.view()->map);
}

/// Ends a request early, unless it has ended already.
void Connection::cancel(std::uint64_t request, Status status) {
  Replies& replies = sender_.replies();
  if (sender_.end(request, status) || receiver_.end(request, status, replies)) return;
  const auto is_it = [&](const auto& each) { return each == request; };
  const auto small = std::find_if(small_requests_.begin(), small_requests_.end(),
                                  [&](const SmallRequest& each) { return is_it(each.request()); });
  if (small != small_requests_.end()) {
    small->end(replies.bytes, status);
    ++replies.ends;
    small_requests_.erase(small);
    return;
  }
  const auto parked = std::find_if(parked_.begin(), parked_.end(),
                                   [&](const Parked& each) { return is_it(each.request); });
  if (parked != parked_.end()) {
    answer_all(replies.bytes, request, parked->op, parked->items, status);
    ++replies.ends;
    parked_.erase(parked);
  }
}

void Connection::expire(std::int64_t now_ms) {
  sender_.expire(now_ms);
  receiver_.tick(now_ms, sender_.replies());
  std::vector<std::uint64_t> late;
  for (const SmallRequest& each : small_requests_) {
    if (is_over(each.deadline_ms(), now_ms)) late.push_back(each.request());
  }
  for (const Parked& each : parked_) {
    if (is_over(each.deadline_ms, now_ms)) late.push_back(each.request);
  }
  for (const std::uint64_t request : late) cancel(request, Status::expired);
  std::vector<std::uint64_t> unjudged;
  for (const Parked& each : parked_) {
    if (each.offer != nullptr && now_ms > each.judged_by_ms) unjudged.push_back(each.request);
  }
  for (const std::uint64_t request : unjudged) judged(request, {});
}

void Connection::tick(std::int64_t now_ms) {
  const bool is_stranger = phase_ == Phase::hello || phase_ == Phase::proof;
  if (is_stranger && now_ms - opened_ms_ > HELLO_MS) {
    Counters::add(node_.counters.refused);
    goodbye("no HELLO and PROOF within " + std::to_string(HELLO_MS) + " ms", wire::MORE);
  }
  if (phase_ == Phase::open) {
    expire(now_ms);
    const std::int64_t waiting_ms = sender_.holds().waiting_since_ms(now_ms);
    if (waiting_ms != 0 && now_ms - waiting_ms > node_.options.hold_silence_ms) return cut_off();
    if (now_ms - heard_ms_ > IDLE_MS && in_flight_ == 0) goodbye("the stream was idle", wire::MORE);
  }
  if (phase_ == Phase::closing && now_ms > closing_ms_) close();
  if (sender_.has_work()) worker_.make_ready(*this);
}

// ---- out -----------------------------------------------------------------------------

void Connection::send(bool is_alone) {
  const std::size_t payload_max = is_alone ? PAYLOAD_BYTES_MAX : PAYLOAD_BYTES_SHARED;
  const Sender::Turn turn = sender_.turn(fd(), payload_max, receiver_.bytes_received());
  in_flight_ -= std::min<std::size_t>(in_flight_, turn.ends);
  if (turn.sent == Outgoing::Sent::blocked) can_write_ = false;
  if (turn.sent == Outgoing::Sent::broken) return close();
  if (phase_ == Phase::closing && !sender_.has_work()) shutdown(fd(), SHUT_WR);
}

/// A reader that takes nothing of what is held for it: no GOODBYE would reach it either.
void Connection::cut_off() {
  Counters::add(node_.counters.cut_off);
  close();
}

void Connection::fault(const std::string& reason) {
  Counters::add(node_.counters.protocol_faults);
  goodbye(reason);
}

void Connection::refuse(const std::string& reason) {
  Counters::add(node_.counters.refused);
  goodbye(reason);
}

/// Everything that the stream had is freed now; what remains is to be read by the other side, or
/// not.
void Connection::goodbye(const std::string& reason, std::uint8_t flags) {
  if (phase_ == Phase::closing || phase_ == Phase::closed) return;
  sender_.abandon();
  receiver_.clear();
  small_requests_.clear();
  parked_.clear();
  wire::encode_goodbye(sender_.replies().bytes, reason, flags);
  phase_ = Phase::closing;
  closing_ms_ = boottime_ms() + CLOSING_MS;
}

void Connection::close() {
  if (phase_ == Phase::closed) return;
  phase_ = Phase::closed;
  if (!host_.empty()) node_.strangers.leave(host_);
  host_.clear();
  receiver_.clear();
  sender_.abandon();
  sender_.holds().clear();
  drop_new_views();
  if (auto names = receiver_.take_staged(); !names.empty()) {
    worker_.janitor().writer_vanished(std::move(names));
  }
  socket_.close();
}

}  // namespace gd2fs::serve
