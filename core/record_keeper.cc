#include "record_keeper.h"

#include <algorithm>
#include <limits>

#include "rules.h"

namespace gd2fs {
namespace {

constexpr std::uint64_t OWN_TICKET = 0;    // of changes that nobody outside asked for
constexpr std::size_t MOVING_MAX = 32;     // records that move at once
constexpr std::size_t RENEWAL_STEPS = 64;  // of a few records each, at a time
constexpr std::int64_t NEVER = std::numeric_limits<std::int64_t>::max();

}  // namespace

RecordKeeper::RecordKeeper(Records& records, NodeLease& lease, MapHistoryRef first,
                           KeeperTimes times, std::int64_t now_ms, Effects& effects)
    : records_(records), lease_(lease), history_(std::move(first)), times_(times) {
  records_.take_history(history_, false);
  barrier_.begin(*history_, now_ms);
  note_open(now_ms);
  walk_.is_done = true;  // it has nothing yet
  ask_members(now_ms, effects);
}

void RecordKeeper::take_map(const wire::Map& map, bool is_gap, std::int64_t now_ms,
                            Effects& effects) {
  if (map.epoch <= history_->epoch()) return;
  history_ = history_->with(map, is_gap, now_ms);
  records_.take_history(history_, is_gap);
  barrier_.begin(*history_, now_ms);
  is_open_ = false;
  end_all(effects);
  again_.clear();
  walk_ = {};
  walk_count_ = records_.count();
  moving_ = 0;
  has_left_ = false;
  renew_at_ms_ = now_ms;
  ask_members(now_ms, effects);
  tick(now_ms, effects);
}

/// What was on its way under the map before. What had reached a backup may be seen or not.
void RecordKeeper::end_all(Effects& effects) {
  if (!is_kept(Rule::recheck)) return;
  for (auto& [path, work] : works_) {
    for (const Mutation& mutation : work.mutations) {
      end(mutation.ticket(), mutation.has_begun() ? Status::unknown : Status::stale_map, effects);
    }
    for (const Look& look : work.looks) end(look.ticket, Status::stale_map, effects);
  }
  works_.clear();
}

void RecordKeeper::mutate(std::uint64_t ticket, const std::string& path, const RecordChange& asked,
                          std::int64_t deadline_ms, std::int64_t now_ms, Effects& effects) {
  if (!lease_.is_good(now_ms)) return end(ticket, Status::fenced, effects);
  if (!history_->is_home(path)) return end(ticket, Status::retry, effects);
  const auto at = works_.try_emplace(path).first;
  at->second.mutations.emplace_back(ticket, asked, deadline_ms);
  if (at->second.mutations.size() == 1) advance(at, now_ms, effects);
}

void RecordKeeper::look(std::uint64_t ticket, const std::string& path, std::int64_t deadline_ms,
                        std::int64_t now_ms, Effects& effects) {
  if (!lease_.is_good(now_ms)) return end(ticket, Status::fenced, effects);
  if (records_.standing(path) != Standing::unknown) return end(ticket, Status::ok, effects);
  if (!history_->is_home(path)) return end(ticket, Status::miss, effects);
  const auto at = works_.try_emplace(path).first;
  at->second.looks.push_back({ticket, deadline_ms});
  if (!at->second.pull) begin_pull(path, at->second, now_ms, effects);
  advance(at, now_ms, effects);
}

// ---- questions -------------------------------------------------------------------------

void RecordKeeper::ask(Asked asked, PeerQuestion what, std::int64_t deadline_ms, Effects& effects) {
  const std::uint64_t number = ++last_number_;
  effects.questions.push_back({number, asked.member, deadline_ms, std::move(what)});
  asked.epoch = history_->epoch();
  asked_.emplace(number, std::move(asked));
}

void RecordKeeper::ask_members(std::int64_t now_ms, Effects& effects) {
  confirm_at_ms_ = now_ms + times_.confirm_ms;
  for (const Member& member : barrier_.awaited(now_ms)) {
    Asked asked{
        .kind = Asked::Kind::epoch, .path = {}, .member = member, .epoch = 0, .version = {}};
    ask(std::move(asked), EpochQuestion{history_->epoch()}, confirm_at_ms_, effects);
  }
}

void RecordKeeper::answered(std::uint64_t number, const PeerAnswer& answer, std::int64_t now_ms,
                            Effects& effects) {
  const auto found = asked_.find(number);
  if (found == asked_.end()) return;
  const Asked asked = std::move(found->second);
  asked_.erase(found);
  const bool is_now = asked.epoch == history_->epoch();
  switch (asked.kind) {
    case Asked::Kind::epoch:
      if (const auto* said = std::get_if<EpochAnswer>(&answer))
        barrier_.confirmed(asked.member, said->epoch, said->wait_ms, now_ms);
      return advance_all(now_ms, effects);
    case Asked::Kind::pull: {
      const auto at = works_.find(asked.path);
      if (!is_now || at == works_.end() || !at->second.pull) return;
      const auto* said = std::get_if<PullAnswer>(&answer);
      at->second.pull->answered(said == nullptr ? PullAnswer{} : *said, true);
      return advance(at, now_ms, effects);
    }
    case Asked::Kind::replicate: return take_replica(asked, answer, now_ms, effects);
    case Asked::Kind::touch:
      if (!is_now) return;
      const auto* said = std::get_if<TouchAnswer>(&answer);
      const bool is_known = said != nullptr && said->is_known;
      if (is_known) records_.drop_moved(asked.path);
      moved(is_known);
      return settle(now_ms, effects);
  }
}

void RecordKeeper::end(std::uint64_t ticket, const RecordAnswer& answer, Effects& effects) {
  if (ticket != OWN_TICKET) return effects.ends.push_back({ticket, answer});
  moved(answer.status == Status::ok || answer.status == Status::gone);
}

void RecordKeeper::end(std::uint64_t ticket, Status status, Effects& effects) {
  RecordAnswer answer;
  answer.status = status;
  end(ticket, answer, effects);
}

// ---- time ------------------------------------------------------------------------------

void RecordKeeper::tick(std::int64_t now_ms, Effects& effects) {
  if (!is_open_ && now_ms >= confirm_at_ms_) ask_members(now_ms, effects);
  std::vector<Again> due;
  std::erase_if(again_, [&](const Again& each) {
    if (now_ms >= each.at_ms) due.push_back(each);
    return now_ms >= each.at_ms;
  });
  for (const Again& each : due) {
    if (Mutation* mutation = running(each.path, each.version))
      send(each.path, *mutation, each.member, false, now_ms, effects);
  }
  advance_all(now_ms, effects);
  renew(now_ms);
  settle(now_ms, effects);
}

std::int64_t RecordKeeper::next_ms() const {
  std::int64_t next = renew_at_ms_;
  if (!is_open_) next = confirm_at_ms_;
  for (const Again& each : again_) next = std::min(next, each.at_ms);
  if (!walk_.is_done || has_left_) next = std::min(next, walk_at_ms_);
  for (const auto& [path, work] : works_) {
    for (const Mutation& each : work.mutations) next = std::min(next, each.deadline_ms());
    for (const Look& each : work.looks) next = std::min(next, each.deadline_ms);
  }
  return next;
}

void RecordKeeper::note_open(std::int64_t now_ms) {
  if (is_open_ || !barrier_.is_open(now_ms)) return;
  is_open_ = true;
  records_.open();
}

void RecordKeeper::advance_all(std::int64_t now_ms, Effects& effects) {
  note_open(now_ms);
  for (auto at = works_.begin(); at != works_.end();) advance(at++, now_ms, effects);
}

/// Goes on with a path as far as it can now. `at` is gone when nothing is left to do.
void RecordKeeper::advance(Works::iterator at, std::int64_t now_ms, Effects& effects) {
  const std::string& path = at->first;
  Work& work = at->second;
  std::erase_if(work.looks, [&](const Look& look) {
    if (now_ms < look.deadline_ms) return false;
    end(look.ticket, Status::miss, effects);
    return true;
  });
  do {
    if (work.pull && !take_pull(path, work, now_ms, effects)) return;
    while (work_off(path, work, now_ms, effects)) {
    }
  } while (work.pull && work.pull->end() != Pull::End::none);
  if (work.mutations.empty() && work.looks.empty() && !work.pull) works_.erase(at);
}

// ---- pull ------------------------------------------------------------------------------

void RecordKeeper::begin_pull(const std::string& path, Work& work, std::int64_t now_ms,
                              Effects& effects) {
  work.pull.emplace(history_->whom_to_ask(path));
  for (const Member& member : work.pull->asked()) {
    if (history_->has_expired(member)) {
      work.pull->answered(PullAnswer{}, false);
      continue;
    }
    Asked asked{
        .kind = Asked::Kind::pull, .path = path, .member = member, .epoch = 0, .version = {}};
    ask(std::move(asked), PullQuestion{history_->epoch(), path}, now_ms + times_.pull_ms, effects);
  }
}

/// False: it is not over yet.
bool RecordKeeper::take_pull(const std::string& path, Work& work, std::int64_t now_ms,
                             Effects& effects) {
  const Pull::End how = work.pull->end();
  if (how == Pull::End::none) return false;
  if (how == Pull::End::record) {
    records_.learn(path, *work.pull->full());
    // Of the list's others that have begun anew, some may want it from here.
    if (!returned_.empty()) has_left_ = true;
  }
  if (how == Pull::End::absent) records_.learn_absent(path);
  const bool may_return = work.pull->may_be_known_later();
  work.pull.reset();
  const Status status = how == Pull::End::unknown ? Status::miss : Status::ok;
  for (const Look& look : work.looks) end(look.ticket, status, effects);
  work.looks.clear();
  if (how != Pull::End::unknown || work.mutations.empty()) return true;
  // Someone who may have the record is silent. It may be back, until its lease must be over.
  const bool is_over = !may_return || (!history_->is_static() &&
                                       now_ms >= history_->learned_ms() + history_->lease_ms());
  if (is_over || !is_kept(Rule::barrier)) {
    records_.give_up(path);
  } else {
    end(work.mutations.front().ticket(), Status::retry, effects);
    work.mutations.pop_front();
  }
  return true;
}

// ---- mutations -------------------------------------------------------------------------

/// One step of the first mutation. False: there is nothing to do now.
bool RecordKeeper::work_off(const std::string& path, Work& work, std::int64_t now_ms,
                            Effects& effects) {
  if (work.mutations.empty()) return false;
  Mutation& first = work.mutations.front();
  if (!first.has_begun()) {
    if (now_ms >= first.deadline_ms()) {
      end(first.ticket(), Status::retry, effects);
      work.mutations.pop_front();
      return true;
    }
    if (!may_begin(path, work, now_ms, effects)) return false;
    begin(path, first, now_ms, effects);
    if (!first.has_begun()) {
      work.mutations.pop_front();
      return true;
    }
  }
  if (first.end() == Mutation::End::none) return false;
  finish(path, first, now_ms, effects);
  work.mutations.pop_front();
  return true;
}

bool RecordKeeper::may_begin(const std::string& path, Work& work, std::int64_t now_ms,
                             Effects& effects) {
  if (!is_open_) return false;
  if (records_.standing(path) != Standing::unknown) return true;
  if (!work.pull) begin_pull(path, work, now_ms, effects);
  return false;
}

/// Decides what it comes to. A change goes to the backups; all else is answered here.
void RecordKeeper::begin(const std::string& path, Mutation& mutation, std::int64_t now_ms,
                         Effects& effects) {
  if (!lease_.is_good(now_ms)) return end(mutation.ticket(), Status::fenced, effects);
  const Records::Prepared prepared = records_.prepare(path, mutation.asked());
  if (!prepared.decision.is_change)
    return end(mutation.ticket(), prepared.decision.answer, effects);
  std::vector<Member> backups = history_->owners(path);
  std::erase_if(backups, [&](const Member& each) { return each.is_same(history_->self()); });
  if (!is_kept(Rule::backups)) backups.clear();
  mutation.begin(prepared.decision, prepared.base, next_version(prepared.base), std::move(backups));
  for (const Member& backup : mutation.backups())
    send(path, mutation, backup, false, now_ms, effects);
}

/// Without its rule: counted by what became of the record, so that a failed attempt's comes again.
RecordVersion RecordKeeper::next_version(const RecordVersion& base) {
  const RecordVersion first{history_->epoch(), history_->self().boot, 0};
  if (!is_kept(Rule::new_version))
    return {first.epoch, first.boot, std::max(base, first).attempt + 1};
  return {first.epoch, first.boot, ++last_attempt_};
}

void RecordKeeper::send(const std::string& path, Mutation& mutation, const Member& to, bool is_full,
                        std::int64_t now_ms, Effects& effects) {
  auto replication = std::make_shared<Replication>();
  replication->epoch = mutation.version().epoch;
  replication->path = path;
  replication->version = mutation.version();
  replication->base = mutation.base();
  replication->change = mutation.change();
  if (is_full) {
    replication->full = records_.full_after(path, mutation.change(), mutation.version());
    if (replication->full == nullptr) return mutation.refused();  // the record went meanwhile
  }
  Asked asked{.kind = Asked::Kind::replicate,
              .path = path,
              .member = to,
              .epoch = 0,
              .version = mutation.version()};
  ask(std::move(asked), ReplicationRef(std::move(replication)), now_ms + times_.replicate_ms,
      effects);
}

/// The mutation that made this attempt, if it still waits for its backups.
Mutation* RecordKeeper::running(const std::string& path, const RecordVersion& version) {
  const auto at = works_.find(path);
  if (at == works_.end() || at->second.mutations.empty()) return nullptr;
  Mutation& first = at->second.mutations.front();
  return first.has_begun() && first.version() == version ? &first : nullptr;
}

void RecordKeeper::take_replica(const Asked& asked, const PeerAnswer& answer, std::int64_t now_ms,
                                Effects& effects) {
  Mutation* const mutation = running(asked.path, asked.version);
  if (mutation == nullptr) return;
  const auto* said = std::get_if<ReplicaAnswer>(&answer);
  const auto* silence = std::get_if<NoAnswer>(&answer);
  if (silence != nullptr && !silence->is_sent) {
    mutation->unsent();
  } else if (said != nullptr && *said == ReplicaAnswer::accepted) {
    mutation->accepted();
  } else if (said != nullptr && *said == ReplicaAnswer::send_full) {
    send(asked.path, *mutation, asked.member, true, now_ms, effects);
  } else if (said != nullptr && *said == ReplicaAnswer::not_yet &&
             now_ms + times_.again_ms < mutation->deadline_ms()) {
    again_.push_back({now_ms + times_.again_ms, asked.path, asked.member, asked.version});
    return;
  } else {
    mutation->refused();
  }
  advance(works_.find(asked.path), now_ms, effects);
}

/// All backups have answered. Only what is on all owners, under a lease that still lives, is done.
void RecordKeeper::finish(const std::string& path, const Mutation& mutation, std::int64_t now_ms,
                          Effects& effects) {
  const bool is_done = mutation.end() == Mutation::End::accepted &&
                       (lease_.is_good(now_ms) || !is_kept(Rule::recheck));
  if (is_done)
    return end(mutation.ticket(), records_.finish(path, mutation.change(), mutation.version()),
               effects);
  if (mutation.end() == Mutation::End::untouched)
    return end(mutation.ticket(), Status::retry, effects);
  records_.doubt(path, mutation.version());
  end(mutation.ticket(), Status::unknown, effects);
}

// ---- what other nodes ask --------------------------------------------------------------

EpochAnswer RecordKeeper::confirm(std::int64_t now_ms) const {
  return {history_->epoch(), barrier_.wait_ms(now_ms)};
}

PullAnswer RecordKeeper::pull(std::string_view path, std::uint64_t epoch,
                              std::int64_t now_ms) const {
  if (!lease_.is_good(now_ms)) return {};
  return records_.pull(path, epoch);
}

ReplicaAnswer RecordKeeper::take(const Replication& attempt, std::int64_t now_ms) {
  if (!lease_.is_good(now_ms)) return ReplicaAnswer::fenced;
  return records_.take(attempt);
}

// ---- after a change of the map ---------------------------------------------------------

/// Maps may follow each other faster than records move, and only the last ones are kept. So this
/// goes on where it was when the next one comes, and once more after its end.
void RecordKeeper::renew(std::int64_t now_ms) {
  if (renew_at_ms_ > now_ms) return;
  if (renewal_.is_done) renewal_ = {};
  if (renewal_.shard == 0 && renewal_.after.empty()) renewal_epoch_ = history_->epoch();
  for (std::size_t step = 0; step < RENEWAL_STEPS && !renewal_.is_done; ++step)
    records_.renew(renewal_);
  const bool is_over = renewal_.is_done && renewal_epoch_ == history_->epoch();
  renew_at_ms_ = is_over ? NEVER : now_ms + 1;
}

void RecordKeeper::take_arrival(const NodeId& node, std::uint64_t boot, std::int64_t now_ms,
                                Effects& effects) {
  const auto members = history_->members();
  const bool is_listed = std::any_of(members.begin(), members.end(),
                                     [&](const Member& each) { return each.id == node; });
  if (!history_->is_static() || !is_listed || node == history_->self().id) return;
  const auto [known, is_new] = boots_.try_emplace(node, boot);
  if (!is_new && known->second == boot) return;
  known->second = boot;
  if (is_new) returned_.push_back(node);
  records_.unsettle();
  walk_ = {};
  walk_count_ = records_.count();
  settle(now_ms, effects);
}

/// Moves records in small steps: the new owners are told, those that cannot be are tried again.
void RecordKeeper::settle(std::int64_t now_ms, Effects& effects) {
  if (!lease_.is_good(now_ms)) return;
  if (walk_.is_done && has_left_ && moving_ == 0 && now_ms >= walk_at_ms_) {
    walk_ = {};
    walk_count_ = records_.count();
    has_left_ = false;
  }
  while (!walk_.is_done && moving_ < MOVING_MAX) {
    std::vector<Records::Moving> found;
    records_.walk(walk_, returned_, found);
    walk_at_ms_ = now_ms + times_.settle_ms;
    for (const Records::Moving& each : found) move(each, now_ms, effects);
    if (!found.empty()) return;
  }
}

void RecordKeeper::move(const Records::Moving& moving, std::int64_t now_ms, Effects& effects) {
  ++moving_;
  if (moving.move == Records::Move::refresh) {
    RecordChange change;
    change.kind = ChangeKind::refresh;
    return mutate(OWN_TICKET, moving.path, change, now_ms + times_.touch_ms, now_ms, effects);
  }
  const Member home = history_->owners(moving.path).front();
  Asked asked{
      .kind = Asked::Kind::touch, .path = moving.path, .member = home, .epoch = 0, .version = {}};
  ask(std::move(asked), TouchQuestion{history_->epoch(), moving.path}, now_ms + times_.touch_ms,
      effects);
}

void RecordKeeper::moved(bool is_done) {
  if (moving_ > 0) --moving_;
  if (!walk_.is_done) walk_at_ms_ = 0;
  has_left_ = has_left_ || !is_done;
}

std::size_t RecordKeeper::left_count() const {
  const std::size_t unseen =
      walk_.is_done ? 0 : walk_count_ - std::min(walk_count_, walk_.seen_count);
  return unseen + moving_ + (has_left_ ? 1 : 0);
}

}  // namespace gd2fs
