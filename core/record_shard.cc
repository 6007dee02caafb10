#include "record_shard.h"

#include <algorithm>

#include "rules.h"
#include "store.h"

namespace gd2fs {

void RecordShard::take_history(MapHistoryRef history, bool is_gap) {
  history_ = std::move(history);
  is_open_ = false;
  absence_ = random_gen();
  if (!is_gap) return;
  records_.clear();
  uses_.clear();
  expiring_.clear();
  spans_ = 0;
}

RecordShard::Entry* RecordShard::find(std::string_view path) {
  const auto at = records_.find(path);
  if (at == records_.end()) return nullptr;
  if (at->second.expires_ms == 0 || at->second.expires_ms > boottime_ms()) return &at->second;
  erase(at, Mark::forgotten);
  return nullptr;
}

RecordShard::Entry* RecordShard::find_valid(std::string_view path) {
  Entry* const entry = find(path);
  return entry != nullptr && is_valid(path, *entry) ? entry : nullptr;
}

bool RecordShard::is_valid(std::string_view path, Entry& entry) const {
  if (history_ == nullptr || entry.valid_epoch == history_->epoch()) return true;
  if (!history_->is_owner_since(path, entry.valid_epoch)) return false;
  entry.valid_epoch = history_->epoch();
  return true;
}

/// May other nodes know of a record of this path?
bool RecordShard::is_shared(std::string_view path) const {
  return history_ != nullptr &&
         (history_->has_before() || !history_->is_static() || history_->replicas(path) > 1);
}

Standing RecordShard::standing(std::string_view path) {
  if (find_valid(path) != nullptr) return Standing::valid;
  if (!is_shared(path)) return Standing::absent;
  switch (marks_.find(path, epoch())) {
    case Mark::unlinked:
    case Mark::absent: return Standing::absent;
    case Mark::forgotten: return Standing::forgotten;
    case Mark::none: break;
  }
  return history_->whom_to_ask(path).empty() ? Standing::absent : Standing::unknown;
}

/// gone: no such file. miss: that is not known, and cannot be. retry: others are to be asked.
RecordAnswer RecordShard::absence(std::string_view path) {
  RecordAnswer answer;
  answer.gen = absence_;
  const Standing known = standing(path);
  if (known == Standing::forgotten) answer.status = Status::miss;
  if (known == Standing::unknown) answer.status = Status::retry;
  return answer;
}

Decision RecordShard::decide(std::string_view path, const Entry* entry, const RecordChange& asked) {
  const bool is_sure = standing(path) != Standing::forgotten;
  Decision decision = gd2fs::decide(entry == nullptr ? nullptr : &entry->record, asked,
                                    {is_sure, absence_, spans_max_});
  // Also an unlink of nothing ends what was based on that nothing before.
  if (asked.kind == ChangeKind::unlink && !decision.is_change) ++absence_;
  return decision;
}

RecordShard::Entry& RecordShard::make(std::string_view path) {
  const auto [at, is_new] = records_.try_emplace(std::string(path));
  if (is_new) at->second.use = uses_.insert(uses_.end(), &at->first);
  return at->second;
}

void RecordShard::changed(std::string_view path, Entry& entry, std::size_t spans_before) {
  spans_ += entry.record.spans.count() - spans_before;
  entry.valid_epoch = epoch();
  touch(entry);
  marks_.erase(path);
  shrink(&entry);
}

RecordAnswer RecordShard::apply(std::string_view path, const RecordChange& change,
                                const RecordVersion& version) {
  if (change.kind == ChangeKind::unlink) {
    RecordAnswer answer{.status = Status::ok};
    const auto at = records_.find(path);
    if (at != records_.end()) {
      answer = answer_of(Status::ok, at->second.record);
      answer.chunks = chunks_of(at->second.record);
      erase(at, Mark::none);
    }
    set_mark(path, Mark::unlinked, version);
    ++absence_;
    tell(path, change, version, 0);
    return answer;
  }
  Entry& entry = make(path);
  const std::size_t spans_before = entry.record.spans.count();
  gd2fs::apply(entry.record, change);
  entry.record.version = version;
  const std::int64_t ttl_ms = std::int64_t{entry.record.ttl_s} * 1000;
  if (change.is_written()) set_expiry(path, entry, ttl_ms == 0 ? 0 : boottime_ms() + ttl_ms);
  changed(path, entry, spans_before);
  tell(path, change, version, entry.expires_ms);
  return answer_of(Status::ok, entry.record);
}

void RecordShard::put(std::string_view path, const FullRecord& full) {
  if (!full.is_there) {
    if (const auto at = records_.find(path); at != records_.end()) erase(at, Mark::none);
    set_mark(path, Mark::unlinked, full.record.version);
    return tell(path, full, 0);
  }
  Entry& entry = make(path);
  const std::size_t spans_before = entry.record.spans.count();
  entry.record = full.record;
  set_expiry(path, entry, full.expires_in_ms == 0 ? 0 : boottime_ms() + full.expires_in_ms);
  changed(path, entry, spans_before);
  tell(path, full, entry.expires_ms);
}

void RecordShard::tell(std::string_view path, const RecordChange& change,
                       const RecordVersion& version, std::int64_t expires_ms) const {
  if (!is_told()) return;
  Replication told;
  told.version = version;
  told.change = change;
  log_->add(path, expires_ms, told);
}

void RecordShard::tell(std::string_view path, const FullRecord& full,
                       std::int64_t expires_ms) const {
  if (!is_told()) return;
  Replication told;
  told.version = full.record.version;
  told.full = std::make_shared<FullRecord>(full);
  log_->add(path, expires_ms, told);
}

void RecordShard::forget(ByPath::iterator at) {
  if (is_told()) log_->add_forgotten(at->first);
  erase(at, Mark::forgotten);
}

/// A change that is for another record comes from before a whole one that follows in the log.
void RecordShard::restore(const LogEntry& told) {
  const auto here = records_.find(told.path);
  if (told.kind == LogEntry::Kind::forgotten) {
    if (here != records_.end()) erase(here, Mark::forgotten);
    return;
  }
  if (told.attempt.full != nullptr) {
    put(told.path, *told.attempt.full);
  } else if (follows(here == records_.end() ? nullptr : &here->second.record,
                     told.attempt.change)) {
    apply(told.path, told.attempt.change, told.attempt.version);
  } else {
    return;
  }
  const auto now = records_.find(told.path);
  if (now != records_.end()) set_expiry(now->first, now->second, told.expires_ms);
}

std::optional<std::string> RecordShard::copy_to(RecordLog& log, std::string_view after,
                                                std::size_t count_max) const {
  auto at = records_.upper_bound(after);
  std::string last(after);
  for (std::size_t count = 0; at != records_.end() && count < count_max; ++at, ++count) {
    auto full = std::make_shared<FullRecord>();
    full->is_there = true;
    full->record = at->second.record;
    Replication whole;
    whole.version = full->record.version;
    whole.full = std::move(full);
    log.add_copy(at->first, at->second.expires_ms, whole);
    last = at->first;
  }
  if (at != records_.end()) return last;
  marks_.visit_unlinked(epoch(), [&](const std::string& path, const RecordVersion& version) {
    Replication gone;
    gone.version = version;
    gone.change.kind = ChangeKind::unlink;
    log.add_copy(path, 0, gone);
  });
  return {};
}

FullRecord RecordShard::full(std::string_view path, std::int64_t now_ms) {
  FullRecord full;
  const Entry* const entry = find(path);
  if (entry == nullptr) return full;
  full.is_there = true;
  full.record = entry->record;
  if (entry->expires_ms != 0)
    full.expires_in_ms = std::max<std::int64_t>(entry->expires_ms - now_ms, 1);
  return full;
}

void RecordShard::erase(ByPath::iterator at, Mark mark) {
  const std::string path = at->first;
  Entry& entry = at->second;
  const RecordVersion version = entry.record.version;
  // What does not count any more is not missed either: its present owners are asked.
  if (mark == Mark::forgotten && !is_valid(path, entry)) mark = Mark::none;
  if (entry.expires_ms != 0) expiring_.erase({entry.expires_ms, at->first});
  spans_ -= entry.record.spans.count();
  uses_.erase(entry.use);
  records_.erase(at);
  ++absence_;
  if (mark != Mark::none) set_mark(path, mark, version);
}

void RecordShard::set_mark(std::string_view path, Mark mark, const RecordVersion& version) {
  if (!is_shared(path)) return;
  if (mark == Mark::unlinked && !is_kept(Rule::tombstone)) return;
  marks_.set(path, epoch(), mark, version);
}

RecordVersion RecordShard::last_version(std::string_view path, std::uint64_t boot) {
  const RecordVersion marked = marks_.version(path, epoch(), boot);
  const Entry* const entry = find(path);
  return entry == nullptr ? marked : std::max(marked, entry->record.version);
}

void RecordShard::set_expiry(std::string_view path, Entry& entry, std::int64_t expires_ms) {
  const std::string& key = **entry.use;  // lives as long as the entry
  if (entry.expires_ms != 0) expiring_.erase({entry.expires_ms, path});
  entry.expires_ms = expires_ms;
  if (expires_ms != 0) expiring_.insert({expires_ms, key});
}

void RecordShard::shrink(const Entry* kept) {
  while (records_.size() > records_max_ || spans_ > spans_max_) {
    const auto oldest = records_.find(*uses_.front());
    if (&oldest->second == kept) return;
    forget(oldest);
  }
}

std::size_t RecordShard::expire(std::int64_t now_ms, std::size_t count_max) {
  std::size_t count = 0;
  while (count < count_max && !expiring_.empty() && expiring_.begin()->first <= now_ms) {
    erase(records_.find(expiring_.begin()->second), Mark::forgotten);
    ++count;
  }
  return count;
}

}  // namespace gd2fs
