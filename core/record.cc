#include "record.h"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>

#include "assertion.h"
#include "limits.h"
#include "replica.h"
#include "rules.h"
#include "store.h"

namespace gd2fs {

namespace {

constexpr std::size_t SHARDS_MAX = 64;
constexpr std::size_t RECORDS_PER_SHARD_MIN = 1024;  // fewer: shards would fill too unevenly
constexpr std::size_t SPANS_PER_RECORD = 16;         // on average, over a full shard
constexpr std::size_t SPANS_PER_SHARD_MIN = 64 * KiB;
constexpr std::size_t MARKS_PER_SHARD_MIN = 4 * KiB;
constexpr std::size_t RECORDS_PER_STEP = 256;  // removed under one hold of a lock
constexpr std::size_t RECORDS_PER_WALK = 32;   // looked at, with all their owners

RecordAnswer refusal(Status status) {
  RecordAnswer answer;
  answer.status = status;
  return answer;
}

std::string prefix_of(std::string_view name_space) { return "/" + std::string(name_space) + "/"; }

/// The segments of `[offset, end)`, from the chunk that it begins in, one a chunk. True: there are
/// more of them.
bool show(const FileRecord& record, std::uint64_t offset, std::uint64_t end,
          std::size_t segments_max, std::vector<wire::Segment>& segments) {
  const std::uint64_t chunk_bytes = record.chunk_bytes;
  for (auto at = record.spans.first_after(offset); at != record.spans.end() && at->first < end;
       ++at) {
    std::uint64_t begin = std::max(at->first, offset / chunk_bytes * chunk_bytes);
    while (begin < std::min(at->second.end, end)) {
      if (segments.size() == segments_max) return true;
      const std::uint64_t chunk = begin / chunk_bytes;
      const std::uint64_t until = std::min(at->second.end, (chunk + 1) * chunk_bytes);
      segments.push_back({chunk, static_cast<std::uint32_t>(begin - chunk * chunk_bytes),
                          static_cast<std::uint32_t>(until - begin), at->second.tag,
                          at->second.seq});
      begin = until;
    }
  }
  return false;
}

bool has_all(const std::vector<Member>& members, const std::vector<Member>& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const Member& each) {
    return std::find(members.begin(), members.end(), each) != members.end();
  });
}

}  // namespace

struct Records::State {
  explicit State(std::size_t records_max)
      : shards_count(std::clamp<std::size_t>(records_max / RECORDS_PER_SHARD_MIN, 1, SHARDS_MAX)) {
    const std::size_t records = std::max<std::size_t>(records_max / shards_count, 1);
    for (std::size_t at = 0; at < shards_count; ++at) {
      shards.push_back(std::make_unique<RecordShard>(
          records, std::max(records * SPANS_PER_RECORD, SPANS_PER_SHARD_MIN),
          std::max(records, MARKS_PER_SHARD_MIN)));
    }
  }

  RecordShard& of(std::string_view path) {
    return *shards[std::hash<std::string_view>{}(path) % shards_count];
  }

  const std::size_t shards_count;
  std::vector<std::unique_ptr<RecordShard>> shards;
};

Records::Records(std::size_t records_max) : state_(std::make_unique<State>(records_max)) {}
Records::~Records() = default;

void Records::take_history(const MapHistoryRef& history, bool is_gap) {
  for (const auto& shard : state_->shards) {
    const std::lock_guard lock(shard->mutex);
    shard->take_history(history, is_gap);
  }
}

void Records::open() {
  for (const auto& shard : state_->shards) {
    const std::lock_guard lock(shard->mutex);
    shard->open();
  }
}

// ---- at once ---------------------------------------------------------------------------

RecordAnswer Records::meta(std::string_view path, std::uint64_t offset, std::uint64_t length,
                           std::size_t segments_max, wire::MetaBody& body, bool& is_cut) {
  is_cut = false;
  body = {};
  RecordShard& shard = state_->of(path);
  const std::lock_guard lock(shard.mutex);
  RecordShard::Entry* const entry = shard.find_valid(path);
  if (entry == nullptr) return shard.absence(path);
  shard.touch(*entry);
  const FileRecord& record = entry->record;
  body.size = record.size;
  body.ttl_s = record.ttl_s;
  body.replicas = record.replicas;
  const std::uint64_t end =
      length > record.size - std::min(offset, record.size) ? record.size : offset + length;
  is_cut = show(record, offset, end, segments_max, body.segments);
  return answer_of(Status::ok, record);
}

std::optional<RecordAnswer> Records::change_at_once(std::string_view path,
                                                    const RecordChange& asked) {
  RecordShard& shard = state_->of(path);
  const std::lock_guard lock(shard.mutex);
  const MapHistory* const history = shard.history();
  if (!shard.is_open()) return {};
  if (history != nullptr && (history->replicas(path) > 1 || !history->is_home(path))) return {};
  RecordShard::Entry* const entry = shard.find_valid(path);
  if (entry == nullptr && shard.standing(path) == Standing::unknown) return {};
  const Decision decision = shard.decide(path, entry, asked);
  if (!decision.is_change) {
    if (entry != nullptr && decision.answer.status == Status::ok) shard.touch(*entry);
    return decision.answer;
  }
  RecordVersion version = entry == nullptr ? RecordVersion{} : entry->record.version;
  version.epoch = shard.epoch();
  version.boot = history == nullptr ? 0 : history->self().boot;
  ++version.attempt;  // nobody else has this record: it only has to differ
  return shard.apply(path, decision.change, version);
}

Status Records::is_listed(std::string_view path, std::uint64_t chunk, std::uint64_t tag,
                          std::uint64_t& seq) {
  RecordShard& shard = state_->of(path);
  const std::lock_guard lock(shard.mutex);
  const RecordShard::Entry* const entry = shard.find_valid(path);
  if (entry == nullptr)
    return shard.standing(path) == Standing::absent ? Status::miss : Status::retry;
  const FileRecord& record = entry->record;
  if (chunk > FILE_BYTES_MAX / record.chunk_bytes) return Status::miss;
  const std::uint64_t begin = chunk * record.chunk_bytes;
  const std::uint64_t end = begin + record.chunk_bytes;
  for (auto at = record.spans.first_after(begin); at != record.spans.end() && at->first < end;
       ++at) {
    if (at->second.tag != tag) continue;
    seq = at->second.seq;
    return Status::ok;
  }
  return Status::miss;
}

std::vector<wire::ListEntry> Records::list(std::string_view prefix, std::string_view after,
                                           std::size_t count_max, bool& more) const {
  std::map<std::string, std::uint64_t, std::less<>> paths;  // the smallest so far, and one more
  const std::int64_t now_ms = boottime_ms();
  for (const auto& shard : state_->shards) {
    const std::lock_guard lock(shard->mutex);
    auto& records = shard->records();
    auto at = after < prefix ? records.lower_bound(prefix) : records.upper_bound(after);
    for (; at != records.end() && at->first.starts_with(prefix); ++at) {
      if (paths.size() > count_max && at->first > paths.rbegin()->first) break;
      if (at->second.expires_ms != 0 && at->second.expires_ms <= now_ms) continue;
      if (!shard->is_valid(at->first, at->second)) continue;
      paths.emplace(at->first, at->second.record.size);
      if (paths.size() > count_max + 1) paths.erase(std::prev(paths.end()));
    }
  }
  more = paths.size() > count_max;
  if (more) paths.erase(std::prev(paths.end()));
  std::vector<wire::ListEntry> entries;
  for (const auto& [path, size] : paths) entries.push_back({path, size});
  return entries;
}

std::size_t Records::clear(std::string_view name_space) {
  const std::string prefix = prefix_of(name_space);
  std::size_t count = 0;
  for (const auto& shard : state_->shards) {
    for (bool is_done = false; !is_done;) {
      const std::lock_guard lock(shard->mutex);
      auto& records = shard->records();
      auto at = records.lower_bound(prefix);
      for (std::size_t step = 0; !is_done && step < RECORDS_PER_STEP; ++step) {
        is_done = at == records.end() || !at->first.starts_with(prefix);
        if (is_done) break;
        shard->forget(at++);
        ++count;
      }
    }
  }
  return count;
}

std::size_t Records::count() const {
  std::size_t count = 0;
  for (const auto& shard : state_->shards) {
    const std::lock_guard lock(shard->mutex);
    count += shard->records().size();
  }
  return count;
}

std::size_t Records::expire(std::int64_t boottime_ms, std::size_t count_max) {
  std::size_t count = 0;
  for (const auto& shard : state_->shards) {
    const std::lock_guard lock(shard->mutex);
    count += shard->expire(boottime_ms, count_max - count);
  }
  return count;
}

// ---- over a restart --------------------------------------------------------------------

RecordRecovery Records::restore(const RecordLog& log) {
  const std::uint64_t begun_ns = steady_ns();
  // Nothing is done before all of it is known to count.
  RecordRecovery recovery = read_log(log.path(), log.owner(), [](const LogEntry&) {});
  if (!recovery.fault.empty()) return recovery;
  recovery = read_log(log.path(), log.owner(), [this](const LogEntry& entry) {
    RecordShard& shard = state_->of(entry.path);
    const std::lock_guard lock(shard.mutex);
    shard.restore(entry);
  });
  recovery.expired = expire(boottime_ms(), RECORDS_MAX);
  recovery.records = count();
  recovery.took_ms = static_cast<double>(steady_ns() - begun_ns) / 1e6;
  return recovery;
}

Result<bool> Records::use_log(RecordLog& log) {
  for (const auto& shard : state_->shards) {
    const std::lock_guard lock(shard->mutex);
    shard->set_log(&log);
  }
  log_ = &log;
  return copy_log();
}

void Records::leave_log() {
  for (const auto& shard : state_->shards) {
    const std::lock_guard lock(shard->mutex);
    shard->set_log(nullptr);
  }
  log_ = nullptr;
}

Result<bool> Records::copy_log() {
  if (auto begun = log_->begin_copy(boottime_ms()); !begun) return begun.error();
  for (const auto& shard : state_->shards) {
    for (std::optional<std::string> after = ""; after;) {
      {
        const std::lock_guard lock(shard->mutex);
        after = shard->copy_to(*log_, *after, RECORDS_PER_STEP);
      }
      log_->commit();
    }
  }
  return log_->end_copy();
}

// ---- as home ---------------------------------------------------------------------------

Standing Records::standing(std::string_view path) {
  RecordShard& shard = state_->of(path);
  const std::lock_guard lock(shard.mutex);
  return shard.standing(path);
}

Records::Prepared Records::prepare(std::string_view path, const RecordChange& asked) {
  RecordShard& shard = state_->of(path);
  const std::lock_guard lock(shard.mutex);
  const RecordShard::Entry* const entry = shard.find_valid(path);
  Prepared prepared;
  prepared.decision = shard.decide(path, entry, asked);
  if (entry != nullptr) prepared.base = entry->record.version;
  return prepared;
}

FullRecordRef Records::full_after(std::string_view path, const RecordChange& change,
                                  const RecordVersion& version) {
  auto full = std::make_shared<FullRecord>();
  RecordShard& shard = state_->of(path);
  const std::lock_guard lock(shard.mutex);
  const RecordShard::Entry* const entry = shard.find_valid(path);
  if (!follows(entry == nullptr ? nullptr : &entry->record, change)) return nullptr;
  if (entry != nullptr) *full = shard.full(path, boottime_ms());
  full->is_there = change.kind != ChangeKind::unlink;
  if (full->is_there) apply(full->record, change);
  full->record.version = version;
  if (change.is_written()) full->expires_in_ms = std::int64_t{full->record.ttl_s} * 1000;
  return full;
}

RecordAnswer Records::finish(std::string_view path, const RecordChange& change,
                             const RecordVersion& version) {
  RecordShard& shard = state_->of(path);
  const std::lock_guard lock(shard.mutex);
  RecordShard::Entry* const entry =
      is_kept(Rule::recheck) ? shard.find_valid(path) : shard.find(path);
  if (!follows(entry == nullptr ? nullptr : &entry->record, change))
    return refusal(Status::unknown);
  const RecordAnswer answer = shard.apply(path, change, version);
  if (RecordShard::Entry* const changed = shard.find(path)) changed->settled_epoch = shard.epoch();
  return answer;
}

void Records::learn(std::string_view path, const FullRecord& full) {
  RecordShard& shard = state_->of(path);
  const std::lock_guard lock(shard.mutex);
  if (shard.standing(path) == Standing::unknown) shard.put(path, full);
}

void Records::learn_absent(std::string_view path) {
  RecordShard& shard = state_->of(path);
  const std::lock_guard lock(shard.mutex);
  if (shard.standing(path) == Standing::unknown) shard.set_mark(path, Mark::absent, {});
}

void Records::give_up(std::string_view path) {
  RecordShard& shard = state_->of(path);
  const std::lock_guard lock(shard.mutex);
  if (shard.standing(path) == Standing::unknown) shard.set_mark(path, Mark::forgotten, {});
}

void Records::doubt(std::string_view path, const RecordVersion& version) {
  RecordShard& shard = state_->of(path);
  const std::lock_guard lock(shard.mutex);
  if (shard.find_valid(path) == nullptr) shard.set_mark(path, Mark::forgotten, version);
}

// ---- for other nodes -------------------------------------------------------------------

ReplicaAnswer Records::take(const Replication& attempt) {
  RecordShard& shard = state_->of(attempt.path);
  const std::lock_guard lock(shard.mutex);
  const RecordShard::Entry* const entry = shard.find(attempt.path);
  const RecordVersion last = shard.last_version(attempt.path, attempt.version.boot);
  const ReplicaAnswer answer =
      judge(attempt, entry == nullptr ? nullptr : &entry->record, last, shard.epoch());
  if (answer != ReplicaAnswer::accepted || attempt.version == last) return answer;
  if (attempt.full != nullptr) {
    shard.put(attempt.path, *attempt.full);
  } else {
    shard.apply(attempt.path, attempt.change, attempt.version);
  }
  return answer;
}

PullAnswer Records::pull(std::string_view path, std::uint64_t epoch) {
  RecordShard& shard = state_->of(path);
  const std::lock_guard lock(shard.mutex);
  const MapHistory* const history = shard.history();
  if (history == nullptr || history->epoch() != epoch) return {};
  const RecordShard::Entry* const entry = shard.find(path);
  if (entry == nullptr || !history->was_owner_since(path, entry->valid_epoch))
    return {PullAnswer::Kind::none, nullptr};
  return {PullAnswer::Kind::record, std::make_shared<FullRecord>(shard.full(path, boottime_ms()))};
}

// ---- after a change of the map ---------------------------------------------------------

namespace {

/// Who of the former owners tells the new home: the first that is still there.
bool is_teller(const MapHistory& history, const std::vector<Member>& before) {
  for (const Member& each : before) {
    if (each == history.self()) return true;
    if (history.has_now(each)) return false;
  }
  return false;
}

/// What has to happen to a record since the map has changed.
std::optional<Records::Move> move_of(const MapHistory& history, std::string_view path,
                                     RecordShard::Entry& entry, bool is_valid) {
  const std::vector<Member> owners = history.owners(path);
  const std::vector<Member> before = history.owners_before(path);
  if (owners.empty()) return {};
  if (!is_valid) {
    if (history.was_owner_since(path, entry.valid_epoch)) return Records::Move::touch;
    return {};
  }
  if (!owners.front().is_same(history.self())) {
    const bool is_known_there = has_all(before, {owners.front()});
    if (!is_known_there && is_teller(history, before)) return Records::Move::touch;
    return {};
  }
  if (entry.settled_epoch == history.epoch_before() && has_all(before, owners))
    entry.settled_epoch = history.epoch();
  if (entry.settled_epoch == history.epoch() || owners.size() == 1) return {};
  return Records::Move::refresh;
}

/// The same for a list: owners that have begun anew shall have it again. Its home brings it to its
/// backups; a home that has nothing is told of it by the first backup that still has it.
std::optional<Records::Move> move_back(const MapHistory& history, std::string_view path,
                                       RecordShard::Entry& entry,
                                       const std::vector<NodeId>& returned) {
  if (entry.settled_epoch == history.epoch()) return {};
  const auto has_returned = [&](const Member& each) {
    return std::find(returned.begin(), returned.end(), each.id) != returned.end();
  };
  const std::vector<Member> owners = history.owners(path);
  if (owners.size() > 1 && std::any_of(owners.begin(), owners.end(), has_returned)) {
    if (owners.front().is_same(history.self())) return Records::Move::refresh;
    const auto first = std::find_if_not(owners.begin(), owners.end(), has_returned);
    const bool is_teller = first != owners.end() && first->is_same(history.self());
    if (is_teller && has_returned(owners.front())) return Records::Move::touch;
  }
  entry.settled_epoch = history.epoch();
  return {};
}

}  // namespace

void Records::unsettle() {
  for (const auto& shard : state_->shards) {
    const std::lock_guard lock(shard->mutex);
    for (auto& [path, entry] : shard->records()) entry.settled_epoch = 0;
  }
}

void Records::walk(Walk& walk, const std::vector<NodeId>& returned, std::vector<Moving>& out) {
  if (walk.shard >= state_->shards_count) {
    walk.is_done = true;
    return;
  }
  RecordShard& shard = *state_->shards[walk.shard];
  const std::lock_guard lock(shard.mutex);
  const MapHistory* const history = shard.history();
  auto at = shard.records().upper_bound(walk.after);
  for (std::size_t step = 0; history != nullptr && step < RECORDS_PER_WALK; ++step) {
    if (at == shard.records().end()) break;
    const std::string& path = at->first;
    RecordShard::Entry& entry = at->second;
    ++walk.seen_count;
    walk.after = path;
    const bool is_valid = shard.is_valid(path, entry);
    const std::optional<Move> move = history->is_static() && is_valid
                                         ? move_back(*history, path, entry, returned)
                                         : move_of(*history, path, entry, is_valid);
    if (move) out.push_back({path, *move});
    // Nobody can use it any more.
    const bool is_over = !move && !is_valid && !history->was_owner_since(path, entry.valid_epoch);
    if (is_over) {
      shard.erase(at++, Mark::none);
      continue;
    }
    ++at;
  }
  if (history != nullptr && at != shard.records().end()) return;
  ++walk.shard;
  walk.after.clear();
  walk.is_done = walk.shard == state_->shards_count;
}

void Records::renew(Walk& walk) {
  if (walk.shard >= state_->shards_count) {
    walk.is_done = true;
    return;
  }
  RecordShard& shard = *state_->shards[walk.shard];
  const std::lock_guard lock(shard.mutex);
  auto at = shard.records().upper_bound(walk.after);
  for (std::size_t step = 0; step < RECORDS_PER_WALK && at != shard.records().end(); ++step, ++at) {
    shard.is_valid(at->first, at->second);
    walk.after = at->first;
  }
  if (at != shard.records().end()) return;
  ++walk.shard;
  walk.after.clear();
  walk.is_done = walk.shard == state_->shards_count;
}

void Records::drop_moved(std::string_view path) {
  RecordShard& shard = state_->of(path);
  const std::lock_guard lock(shard.mutex);
  const auto at = shard.records().find(path);
  if (at == shard.records().end()) return;
  if (!shard.is_valid(path, at->second)) return shard.erase(at, Mark::none);
  if (shard.history()->is_static()) at->second.settled_epoch = shard.epoch();
}

}  // namespace gd2fs
