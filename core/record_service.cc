#include "record_service.h"

#include <algorithm>

#include "store.h"

namespace gd2fs::serve {
namespace {

constexpr std::int64_t WAIT_MS_MAX = 5'000;  // of a mutation, or a look
constexpr std::size_t PARTIALS_MAX = 64;
constexpr std::int64_t PARTIAL_MS = 5'000;

Status status_of(ReplicaAnswer answer) {
  switch (answer) {
    case ReplicaAnswer::accepted: return Status::ok;
    case ReplicaAnswer::send_full: return Status::miss;
    case ReplicaAnswer::other_epoch: return Status::stale_map;
    case ReplicaAnswer::not_yet: return Status::retry;
    case ReplicaAnswer::fenced: return Status::fenced;
    case ReplicaAnswer::old_attempt: return Status::conflict;
  }
  return Status::invalid;
}

std::optional<ReplicaAnswer> replica_answer_of(Status status) {
  for (const ReplicaAnswer answer :
       {ReplicaAnswer::accepted, ReplicaAnswer::send_full, ReplicaAnswer::other_epoch,
        ReplicaAnswer::not_yet, ReplicaAnswer::fenced, ReplicaAnswer::old_attempt}) {
    if (status_of(answer) == status) return answer;
  }
  return {};
}

wire::ResponseItem only(Status status) {
  wire::ResponseItem item;
  item.status = status;
  return item;
}

}  // namespace

RecordService::RecordService(Records& records, NodeLease& lease, Peers& peers, const Member& self,
                             const wire::Map& first)
    : records_(records),
      lease_(lease),
      peers_(peers),
      self_(self),
      history_(std::make_shared<const MapHistory>(self, first, boottime_ms())) {
  Effects effects;
  {
    const std::lock_guard lock(mutex_);
    keeper_.emplace(records_, lease_, history_, KeeperTimes{}, boottime_ms(), effects);
  }
  carry_out(effects);
}

/// One step of the keeper, and what follows from it.
template <class Step>
void RecordService::run(Step step) {
  Effects effects;
  {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return;
    step(*keeper_, boottime_ms(), effects);
  }
  carry_out(effects);
}

void RecordService::carry_out(Effects& effects) {
  std::vector<std::pair<OnEnd, RecordAnswer>> ends;
  std::int64_t next_ms = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const RecordKeeper::End& end : effects.ends) {
      const auto found = tickets_.find(end.ticket);
      if (found == tickets_.end()) continue;
      ends.emplace_back(std::move(found->second), end.answer);
      tickets_.erase(found);
    }
    next_ms = keeper_->next_ms();
  }
  for (const RecordKeeper::Question& question : effects.questions) ask(question);
  // In a log before anyone is told.
  const bool is_told = ends.empty() || records_.commit();
  for (auto& [on_end, answer] : ends) {
    if (!is_told) answer.status = Status::full;
    on_end(answer);
  }
  arm(next_ms);
}

void RecordService::arm(std::int64_t next_ms) {
  constexpr std::int64_t FAR_MS = 3'600'000;
  const std::int64_t now_ms = boottime_ms();
  if (next_ms > now_ms + FAR_MS) return;
  {
    const std::lock_guard lock(mutex_);
    if (is_closed_ || (tick_at_ms_ != 0 && tick_at_ms_ <= next_ms)) return;
    tick_at_ms_ = std::max(next_ms, now_ms + 1);
  }
  peers_.after(std::max<std::int64_t>(next_ms - now_ms, 1), [this] { tick(); });
}

void RecordService::tick() {
  {
    const std::lock_guard lock(mutex_);
    tick_at_ms_ = 0;
  }
  run([](RecordKeeper& keeper, std::int64_t now_ms, Effects& effects) {
    keeper.tick(now_ms, effects);
  });
}

void RecordService::take_map(const wire::Map& map, bool is_gap) {
  run([&](RecordKeeper& keeper, std::int64_t now_ms, Effects& effects) {
    keeper.take_map(map, is_gap, now_ms, effects);
    history_ = keeper.history();
  });
}

void RecordService::take_arrival(const NodeId& node, std::uint64_t boot) {
  run([&](RecordKeeper& keeper, std::int64_t now_ms, Effects& effects) {
    keeper.take_arrival(node, boot, now_ms, effects);
  });
}

MapHistoryRef RecordService::history() const {
  const std::lock_guard lock(mutex_);
  return history_;
}

Status RecordService::admit(std::uint64_t epoch) const {
  return gd2fs::admit(*history(), lease_, epoch, boottime_ms());
}

std::size_t RecordService::left_count() const {
  const std::lock_guard lock(mutex_);
  return keeper_->left_count();
}

void RecordService::close() {
  std::unordered_map<std::uint64_t, OnEnd> dropped;
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  dropped.swap(tickets_);
}

// ---- what clients ask ------------------------------------------------------------------

std::optional<RecordAnswer> RecordService::mutate_at_once(std::string_view path,
                                                          const RecordChange& asked) {
  auto answer = records_.change_at_once(path, asked);
  // Whoever was stopped in between cannot say what others have done since.
  if (answer && !lease_.is_good(boottime_ms())) answer->status = Status::unknown;
  if (answer && !records_.commit()) answer->status = Status::full;
  return answer;
}

void RecordService::mutate(const std::string& path, const RecordChange& asked,
                           std::int64_t deadline_ms, OnEnd on_end) {
  run([&](RecordKeeper& keeper, std::int64_t now_ms, Effects& effects) {
    keeper.mutate(ticket(std::move(on_end)), path, asked, deadline(deadline_ms), now_ms, effects);
  });
}

void RecordService::look(const std::string& path, std::int64_t deadline_ms, OnEnd on_end) {
  run([&](RecordKeeper& keeper, std::int64_t now_ms, Effects& effects) {
    keeper.look(ticket(std::move(on_end)), path, deadline(deadline_ms), now_ms, effects);
  });
}

std::uint64_t RecordService::ticket(OnEnd on_end) {
  tickets_.emplace(++last_ticket_, std::move(on_end));
  return last_ticket_;
}

std::int64_t RecordService::deadline(std::int64_t wanted_ms) const {
  const std::int64_t last_ms = boottime_ms() + WAIT_MS_MAX;
  return wanted_ms == 0 ? last_ms : std::min(wanted_ms, last_ms);
}

// ---- what other nodes ask --------------------------------------------------------------

/// An answer of this life must not count as one of an earlier life.
bool RecordService::is_meant(std::uint64_t boot) const { return boot == 0 || boot == self_.boot; }

wire::ResponseItem RecordService::confirm(const wire::Item& item) {
  if (!is_meant(item.tag)) return only(Status::gone);
  const std::lock_guard lock(mutex_);
  const EpochAnswer answer = keeper_->confirm(boottime_ms());
  wire::ResponseItem out = only(Status::ok);
  out.seq = answer.epoch;
  out.length = static_cast<std::uint64_t>(answer.wait_ms);
  return out;
}

wire::ResponseItem RecordService::pull(const wire::Item& item, std::uint64_t epoch,
                                       wire::Bytes& part) {
  if (!is_meant(item.tag)) return only(Status::gone);
  if (!lease_.is_good(boottime_ms())) return only(Status::fenced);
  const PullAnswer answer = records_.pull(item.name, epoch);
  if (answer.kind == PullAnswer::Kind::refused) return only(Status::retry);
  if (answer.kind == PullAnswer::Kind::none) return only(Status::miss);
  wire::ResponseItem out = only(Status::ok);
  out.seq = encode_part(part, *answer.full, item.offset) ? 1 : 0;
  return out;
}

wire::ResponseItem RecordService::replicate(const wire::Request& request) {
  const std::string path(request.items.front().name);
  std::shared_ptr<FullRecord> before;
  {
    const std::lock_guard lock(partials_mutex_);
    const std::int64_t now_ms = boottime_ms();
    std::erase_if(partials_, [&](const auto& each) { return now_ms >= each.second.until_ms; });
    if (const auto found = partials_.find(path); found != partials_.end()) {
      before = std::move(found->second.full);
      partials_.erase(found);
    }
  }
  auto part = decode_attempt(request.body, before);
  // A first part begins anew, whatever was left of another attempt.
  if (!part && before != nullptr) part = decode_attempt(request.body, nullptr);
  // A version of an epoch yet to come would be the last one of its path for ever.
  if (!part || part->attempt.version.epoch > request.head.map_epoch) return only(Status::invalid);
  if (!part->is_last) {
    const std::lock_guard lock(partials_mutex_);
    if (partials_.size() >= PARTIALS_MAX) return only(Status::full);
    partials_[path] = {part->attempt.version, part->full, boottime_ms() + PARTIAL_MS};
    return only(Status::have);
  }
  part->attempt.epoch = request.head.map_epoch;
  part->attempt.path = path;
  if (!lease_.is_good(boottime_ms())) return only(Status::fenced);
  const ReplicaAnswer answer = records_.take(part->attempt);
  return only(records_.commit() ? status_of(answer) : Status::full);
}

// ---- what this node asks others --------------------------------------------------------

void RecordService::ask(const RecordKeeper::Question& question) {
  if (const auto* what = std::get_if<EpochQuestion>(&question.what))
    return ask_epoch(question, what->epoch);
  if (const auto* what = std::get_if<TouchQuestion>(&question.what))
    return ask_touch(question, *what);
  if (const auto* what = std::get_if<PullQuestion>(&question.what))
    return ask_pull(question, *what, std::make_shared<FullRecord>());
  ask_replicate(question, std::get<ReplicationRef>(question.what), 0);
}

void RecordService::answered(std::uint64_t number, const PeerAnswer& answer) {
  run([&](RecordKeeper& keeper, std::int64_t now_ms, Effects& effects) {
    keeper.answered(number, answer, now_ms, effects);
  });
}

RpcRef RecordService::new_rpc(wire::Op op, const RecordKeeper::Question& question,
                              std::uint64_t epoch, std::string_view path) {
  // The client goes by another clock than leases do.
  const std::int64_t left_ms = std::max<std::int64_t>(question.deadline_ms - boottime_ms(), 1);
  auto rpc = std::make_shared<Rpc>(op, nullptr, now_ms() + left_ms);
  rpc->request.head.map_epoch = epoch;
  wire::Item item;
  item.name = wire::Name(path);
  item.tag = question.to.boot;
  rpc->add(std::move(item));
  return rpc;
}

void RecordService::send(const Member& to, RpcRef rpc, std::function<void(const Rpc&)> then) {
  Rpc* const sent = rpc.get();
  // The callback is part of the request, which it must not keep.
  rpc->done = [sent, then = std::move(then)] { then(*sent); };
  peers_.ask(to.id, std::move(rpc));
}

void RecordService::ask_epoch(const RecordKeeper::Question& question, std::uint64_t epoch) {
  RpcRef rpc = new_rpc(wire::Op::epoch, question, epoch, {});
  send(question.to, std::move(rpc), [this, number = question.number](const Rpc& rpc) {
    if (rpc.item_status(0) != Status::ok) return answered(number, NoAnswer{true});
    const wire::ResponseItem& item = rpc.answers.front();
    answered(number, EpochAnswer{item.seq, static_cast<std::int64_t>(item.length)});
  });
}

void RecordService::ask_touch(const RecordKeeper::Question& question, const TouchQuestion& what) {
  RpcRef rpc = new_rpc(wire::Op::meta, question, what.epoch, what.path);
  rpc->request.items.front().tag = 0;
  send(question.to, std::move(rpc), [this, number = question.number](const Rpc& rpc) {
    const Status status = rpc.item_status(0);
    answered(number, TouchAnswer{status == Status::ok || status == Status::gone});
  });
}

/// A record of many ranges comes in parts, of which each is asked for.
void RecordService::ask_pull(const RecordKeeper::Question& question, const PullQuestion& what,
                             std::shared_ptr<FullRecord> before) {
  RpcRef rpc = new_rpc(wire::Op::pull, question, what.epoch, what.path);
  rpc->request.items.front().offset = before->record.spans.count();
  send(question.to, std::move(rpc), [this, question, what, before](const Rpc& rpc) {
    const Status status = rpc.item_status(0);
    if (status == Status::miss)
      return answered(question.number, PullAnswer{PullAnswer::Kind::none, nullptr});
    if (status != Status::ok) return answered(question.number, NoAnswer{true});
    wire::TableReader table(rpc.body);
    const auto is_last = decode_part(table, *before);
    if (!is_last) return answered(question.number, NoAnswer{true});
    if (!*is_last) return ask_pull(question, what, before);
    answered(question.number, PullAnswer{PullAnswer::Kind::record, before});
  });
}

void RecordService::ask_replicate(const RecordKeeper::Question& question,
                                  const ReplicationRef& what, std::uint64_t first) {
  // Certain not to have been done there: nothing was ever sent.
  if (first == 0 && peers_.is_down(question.to.id))
    return peers_.after(0, [this, number = question.number] { answered(number, NoAnswer{false}); });
  RpcRef rpc = new_rpc(wire::Op::replicate, question, what->epoch, what->path);
  const auto next = encode_attempt(rpc->request.body, *what, first);
  send(question.to, std::move(rpc), [this, question, what, next](const Rpc& rpc) {
    const Status status = rpc.item_status(0);
    if (status == Status::have && next) return ask_replicate(question, what, *next);
    if (const auto answer = replica_answer_of(status)) return answered(question.number, *answer);
    answered(question.number, NoAnswer{true});
  });
}

}  // namespace gd2fs::serve
