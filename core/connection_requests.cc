// What a connection does with requests: begins them, works them off in turns, sets aside those that
// wait for others, and ends them early.
#include <algorithm>
#include <chrono>

#include "answer.h"
#include "connection.h"
#include "janitor.h"
#include "memory_advice.h"
#include "mover.h"
#include "sync.h"
#include "worker.h"

namespace gd2fs::serve {
namespace {

using wire::Op;

constexpr auto TURN = std::chrono::milliseconds(1);

std::int64_t deadline_after(std::uint32_t remaining_ms) {
  return remaining_ms == 0 ? 0 : boottime_ms() + remaining_ms;
}

bool is_over(std::int64_t deadline_ms, std::int64_t now_ms) {
  return deadline_ms != 0 && now_ms >= deadline_ms;
}

}  // namespace

void Connection::handle_request(const Inlet::Frame& frame) {
  const std::uint64_t id = frame.header.request;
  if (id <= last_request_) {
    return fault("request " + std::to_string(id) + " came after " + std::to_string(last_request_) +
                 ": ids rise on a stream");
  }
  if (in_flight_.size() >= REQUESTS_MAX) {
    return fault("more than " + std::to_string(REQUESTS_MAX) + " requests in flight on a stream");
  }
  auto body = wire::decode_request(frame.table, frame.header.items);
  if (!body) return fault("request " + std::to_string(id) + " is malformed");
  last_request_ = id;
  in_flight_.push_back({id, body->head.op, steady_ns(), body->head.trace});
  worker_.tally().requests.add();
  begin(id, frame.header.flags, std::move(*body));
}

void Connection::begin(std::uint64_t request, std::uint8_t flags, wire::Request body) {
  const Op op = body.head.op;
  const bool is_between_nodes = static_cast<std::uint8_t>(op) >= 64;
  const std::int64_t deadline_ms = deadline_after(body.head.deadline_ms);
  if (wire::item_bytes(op) == 0 || (is_between_nodes && !is_node_)) {
    answer_all(sender_.replies().bytes, request, Op{0}, 1, Status::invalid);
    sender_.replies().ends.push_back(request);
    return;
  }
  if (!is_allowed(token_->rights, body)) return deny(request, body);
  confine(token_->rights, body);
  if (op == Op::get || op == Op::read) {
    ReadJob job(request, std::move(body), deadline_ms, worker_.tally());
    if (!job.body().sinks.empty()) return place(std::move(job));
    if (job.is_view() && sender_.viewer == nullptr) {
      job.end(sender_.replies().bytes, Status::denied);
      sender_.replies().ends.push_back(request);
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
    small_requests_.emplace_back(request, std::move(body), deadline_ms, token_, worker_.tally());
  }
}

/// Nothing was looked up: the answer says nothing of what is here.
void Connection::deny(std::uint64_t request, const wire::Request& body) {
  Counters::add(node_.counters.denied);
  answer_all(sender_.replies().bytes, request, body.head.op, body.items.size(), Status::denied);
  sender_.replies().ends.push_back(request);
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
      replies.ends.push_back(first.request());
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
      if (turn == SmallRequest::Turn::done) replies.ends.push_back(first.request());
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
  placer_.loaded(request, status, piece);
  worker_.make_ready(*this);
}

void Connection::answered_elsewhere(std::uint64_t request, const wire::Bytes& response) {
  const auto found = std::find_if(parked_.begin(), parked_.end(),
                                  [&](const Parked& each) { return each.request == request; });
  if (found == parked_.end() || phase_ != Phase::open) return;
  parked_.erase(found);
  Replies& replies = sender_.replies();
  replies.bytes.insert(replies.bytes.end(), response.begin(), response.end());
  replies.ends.push_back(request);
  worker_.make_ready(*this);
}

/// A reader that is behind on its answers learns it from the next request that is out of date.
void Connection::tell_map() {
  if (phase_ != Phase::open || sender_.is_full()) return;
  wire::encode_map(sender_.replies().bytes, 0, shown_map(token_->rights, node_.view()->map));
}

/// Ends a request early, unless it has ended already.
void Connection::cancel(std::uint64_t request, Status status) {
  Replies& replies = sender_.replies();
  if (sender_.end(request, status) || receiver_.end(request, status, replies) ||
      placer_.end(request, status, replies))
    return;
  const auto is_it = [&](const auto& each) { return each == request; };
  const auto small = std::find_if(small_requests_.begin(), small_requests_.end(),
                                  [&](const SmallRequest& each) { return is_it(each.request()); });
  if (small != small_requests_.end()) {
    small->end(replies.bytes, status);
    replies.ends.push_back(request);
    small_requests_.erase(small);
    return;
  }
  const auto parked = std::find_if(parked_.begin(), parked_.end(),
                                   [&](const Parked& each) { return is_it(each.request); });
  if (parked != parked_.end()) {
    answer_all(replies.bytes, request, parked->op, parked->items, status);
    replies.ends.push_back(request);
    parked_.erase(parked);
  }
}

void Connection::expire(std::int64_t now_ms) {
  sender_.expire(now_ms);
  receiver_.tick(now_ms, sender_.replies());
  placer_.expire(now_ms, sender_.replies());
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

}  // namespace gd2fs::serve
