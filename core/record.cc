#include "record.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <set>

#include "assertion.h"
#include "limits.h"
#include "span_map.h"
#include "store.h"

namespace gd2fs {

namespace {

constexpr std::size_t SHARDS_MAX = 64;
constexpr std::size_t RECORDS_PER_SHARD_MIN = 1024;  // fewer: shards would fill too unevenly
constexpr std::size_t SPANS_PER_RECORD = 16;         // on average, over a full shard
constexpr std::size_t SPANS_PER_SHARD_MIN = 64 * KiB;
constexpr std::size_t RECORDS_PER_STEP = 256;  // removed under one hold of a lock

std::uint64_t random_gen() {
  std::uint64_t gen = 0;
  while (gen == 0) GD2FS_ASSERT(getrandom(&gen, sizeof gen, 0) == sizeof gen);
  return gen;
}

struct Record {
  std::uint64_t gen = 0;
  std::uint64_t seq = 0;
  std::uint64_t size = 0;
  std::uint64_t size_most = 0;  // it ever had
  std::uint64_t trunc_seq = 0;  // of the last truncation
  std::uint32_t chunk_bytes = 0;
  std::uint32_t ttl_s = 0;
  std::int64_t expires_ms = 0;  // CLOCK_BOOTTIME; 0: never
  SpanMap spans;
  std::list<const std::string*>::iterator use;
};

/// Where a new record's seq begins: past that of any file that had this name before, so that pieces
/// of then, which nobody told, never count as newer. A file changes less often than once a µs.
std::uint64_t first_seq() {
  using namespace std::chrono;
  const auto now = system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(duration_cast<microseconds>(now).count());
}

bool is_chunk_size(std::uint32_t bytes) {
  return bytes >= CHUNK_BYTES_MIN && bytes <= CHUNK_BYTES_MAX && bytes % BLOCK_BYTES == 0;
}

RecordAnswer answer(Status status, const Record& record) {
  return {status, record.gen, record.seq, record.size, record.chunk_bytes, 0};
}

RecordAnswer refusal(Status status) {
  RecordAnswer answer;
  answer.status = status;
  return answer;
}

// Would a chunk show more segments than it may? Only the first and the last of the write can: those
// between become one.
bool is_too_cut(const Record& record, std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t chunk = record.chunk_bytes;
  for (const std::uint64_t first : {begin / chunk * chunk, (end - 1) / chunk * chunk}) {
    const std::size_t count =
        record.spans.count_with(first, first + chunk, begin, end, SEGMENTS_PER_CHUNK_MAX);
    if (count > SEGMENTS_PER_CHUNK_MAX) return true;
  }
  return false;
}

std::string prefix_of(std::string_view name_space) { return "/" + std::string(name_space) + "/"; }

}  // namespace

struct Records::State {
  using ByPath = std::map<std::string, Record, std::less<>>;

  struct Shard {
    // Guards: everything below. Held for arithmetic only.
    mutable std::mutex mutex;
    ByPath records;
    std::list<const std::string*> uses;  // oldest first
    std::set<std::pair<std::int64_t, std::string_view>> expiring;
    std::size_t spans = 0;

    Record* find(std::string_view path);
    Record& make(std::string_view path);
    void touch(Record& record) { uses.splice(uses.end(), uses, record.use); }
    void erase(ByPath::iterator at);
    void set_expiry(const std::string& path, Record& record);
    void shrink(std::size_t records_max, std::size_t spans_max, const Record* kept);
  };

  explicit State(std::size_t records_max)
      : shards_count(std::clamp<std::size_t>(records_max / RECORDS_PER_SHARD_MIN, 1, SHARDS_MAX)),
        records_max(std::max<std::size_t>(records_max / shards_count, 1)),
        spans_max(std::max(this->records_max * SPANS_PER_RECORD, SPANS_PER_SHARD_MIN)) {}

  Shard& of(std::string_view path) {
    return shards[std::hash<std::string_view>{}(path) % shards_count];
  }

  const std::size_t shards_count;
  const std::size_t records_max;  // per shard
  const std::size_t spans_max;    // per shard
  std::array<Shard, SHARDS_MAX> shards;
};

// Nothing when there is none, or its time is over.
Record* Records::State::Shard::find(std::string_view path) {
  const auto at = records.find(path);
  if (at == records.end()) return nullptr;
  if (at->second.expires_ms == 0 || at->second.expires_ms > boottime_ms()) return &at->second;
  erase(at);
  return nullptr;
}

Record& Records::State::Shard::make(std::string_view path) {
  const auto at = records.emplace(path, Record{}).first;
  at->second.use = uses.insert(uses.end(), &at->first);
  at->second.gen = random_gen();
  at->second.seq = first_seq();
  return at->second;
}

void Records::State::Shard::erase(ByPath::iterator at) {
  Record& record = at->second;
  if (record.expires_ms != 0) expiring.erase({record.expires_ms, at->first});
  spans -= record.spans.count();
  uses.erase(record.use);
  records.erase(at);
}

// A file lives as long as what was last written to it.
void Records::State::Shard::set_expiry(const std::string& path, Record& record) {
  if (record.expires_ms != 0) expiring.erase({record.expires_ms, path});
  record.expires_ms = 0;
  if (record.ttl_s == 0) return;
  record.expires_ms = boottime_ms() + std::int64_t{record.ttl_s} * 1000;
  expiring.insert({record.expires_ms, path});
}

void Records::State::Shard::shrink(std::size_t records_max, std::size_t spans_max,
                                   const Record* kept) {
  while (records.size() > records_max || spans > spans_max) {
    const auto oldest = records.find(*uses.front());
    if (&oldest->second == kept) return;
    erase(oldest);
  }
}

Records::Records(std::size_t records_max) : state_(std::make_unique<State>(records_max)) {}
Records::~Records() = default;

RecordAnswer Records::create(std::string_view path, std::uint32_t chunk_bytes, std::uint32_t ttl_s,
                             bool if_absent) {
  if (chunk_bytes == 0) chunk_bytes = CHUNK_BYTES_DEFAULT;
  if (!is_chunk_size(chunk_bytes)) return refusal(Status::invalid);
  State::Shard& shard = state_->of(path);
  const std::lock_guard lock(shard.mutex);
  if (Record* const record = shard.find(path)) {
    shard.touch(*record);
    return answer(if_absent ? Status::conflict : Status::ok, *record);
  }
  Record& record = shard.make(path);
  record.chunk_bytes = chunk_bytes;
  record.ttl_s = ttl_s;
  shard.set_expiry(**record.use, record);
  shard.shrink(state_->records_max, state_->spans_max, &record);
  return answer(Status::ok, record);
}

RecordAnswer Records::meta(std::string_view path, std::uint64_t offset, std::uint64_t length,
                           std::size_t segments_max, wire::MetaBody& body, bool& is_cut) {
  is_cut = false;
  body = {};
  State::Shard& shard = state_->of(path);
  const std::lock_guard lock(shard.mutex);
  Record* const record = shard.find(path);
  if (record == nullptr) return refusal(Status::gone);
  shard.touch(*record);
  body.size = record->size;
  body.ttl_s = record->ttl_s;
  const std::uint64_t end =
      length > record->size - std::min(offset, record->size) ? record->size : offset + length;
  const std::uint64_t chunk_bytes = record->chunk_bytes;
  for (auto at = record->spans.first_after(offset); at != record->spans.end() && at->first < end;
       ++at) {
    // From the chunk that the range begins in, one segment a chunk.
    std::uint64_t begin = std::max(at->first, offset / chunk_bytes * chunk_bytes);
    while (begin < std::min(at->second.end, end)) {
      if (body.segments.size() == segments_max) {
        is_cut = true;
        return answer(Status::ok, *record);
      }
      const std::uint64_t chunk = begin / chunk_bytes;
      const std::uint64_t until = std::min(at->second.end, (chunk + 1) * chunk_bytes);
      body.segments.push_back({chunk, static_cast<std::uint32_t>(begin - chunk * chunk_bytes),
                               static_cast<std::uint32_t>(until - begin), at->second.tag,
                               at->second.seq});
      begin = until;
    }
  }
  return answer(Status::ok, *record);
}

RecordAnswer Records::commit(const CommitSpec& spec) {
  State::Shard& shard = state_->of(spec.path);
  const std::lock_guard lock(shard.mutex);
  Record* const record = shard.find(spec.path);
  if (record == nullptr) return refusal(Status::gone);
  if (record->gen != spec.gen) return answer(Status::gone, *record);
  if (spec.length == 0 || spec.seen_seq > record->seq) return answer(Status::invalid, *record);
  if (spec.offset > FILE_BYTES_MAX || spec.length > FILE_BYTES_MAX - spec.offset)
    return answer(Status::full, *record);
  const std::uint64_t end = spec.offset + spec.length;
  if (spec.if_size != ~std::uint64_t{0} && spec.if_size != record->size)
    return answer(Status::conflict, *record);
  // Any truncation since counts, wherever it cut: an old commit must never bring back what it took
  // away.
  if (record->trunc_seq > spec.seen_seq ||
      record->spans.has_later(spec.offset, end, spec.seen_seq)) {
    return answer(Status::conflict, *record);
  }
  if (is_too_cut(*record, spec.offset, end)) return answer(Status::invalid, *record);
  if (record->spans.count() + 2 > state_->spans_max) return answer(Status::full, *record);
  shard.spans -= record->spans.count();
  record->seq += 1;
  record->spans.set(spec.offset, end, spec.tag, record->seq);
  shard.spans += record->spans.count();
  record->size = std::max(record->size, end);
  record->size_most = std::max(record->size_most, record->size);
  shard.touch(*record);
  shard.set_expiry(**record->use, *record);
  shard.shrink(state_->records_max, state_->spans_max, record);
  return answer(Status::ok, *record);
}

RecordAnswer Records::replace(const ReplaceSpec& spec) {
  if (!is_chunk_size(spec.chunk_bytes)) return refusal(Status::invalid);
  if (spec.length > FILE_BYTES_MAX) return refusal(Status::full);
  State::Shard& shard = state_->of(spec.path);
  const std::lock_guard lock(shard.mutex);
  Record* const old = shard.find(spec.path);
  Record& record = old == nullptr ? shard.make(spec.path) : *old;
  record.gen = random_gen();
  record.seq += 1;
  record.trunc_seq = record.seq;
  record.chunk_bytes = spec.chunk_bytes;
  record.ttl_s = spec.ttl_s;
  shard.spans -= record.spans.count();
  record.spans.cut(0, ~std::uint64_t{0});
  if (spec.length > 0) record.spans.set(0, spec.length, spec.tag, record.seq);
  shard.spans += record.spans.count();
  record.size = spec.length;
  record.size_most = std::max(record.size_most, record.size);
  shard.touch(record);
  shard.set_expiry(**record.use, record);
  shard.shrink(state_->records_max, state_->spans_max, &record);
  return answer(Status::ok, record);
}

RecordAnswer Records::truncate(std::string_view path, std::uint64_t gen, std::uint64_t size) {
  State::Shard& shard = state_->of(path);
  const std::lock_guard lock(shard.mutex);
  Record* const record = shard.find(path);
  if (record == nullptr) return refusal(Status::gone);
  if (record->gen != gen) return answer(Status::gone, *record);
  if (size > record->size) return answer(Status::invalid, *record);
  record->seq += 1;
  record->trunc_seq = record->seq;
  shard.spans -= record->spans.count();
  record->spans.cut(size, ~std::uint64_t{0});
  shard.spans += record->spans.count();
  record->size = size;
  shard.touch(*record);
  return answer(Status::ok, *record);
}

RecordAnswer Records::unlink(std::string_view path, std::uint64_t& chunks) {
  chunks = 0;
  State::Shard& shard = state_->of(path);
  const std::lock_guard lock(shard.mutex);
  Record* const record = shard.find(path);
  if (record == nullptr) return refusal(Status::gone);
  chunks = (record->size_most + record->chunk_bytes - 1) / record->chunk_bytes;
  const RecordAnswer last = answer(Status::ok, *record);
  shard.erase(shard.records.find(path));
  return last;
}

bool Records::is_listed(std::string_view path, std::uint64_t chunk, std::uint64_t tag,
                        std::uint64_t& seq) const {
  State::Shard& shard = state_->of(path);
  const std::lock_guard lock(shard.mutex);
  Record* const record = shard.find(path);
  if (record == nullptr || chunk > FILE_BYTES_MAX / record->chunk_bytes) return false;
  const std::uint64_t begin = chunk * record->chunk_bytes;
  const std::uint64_t end = begin + record->chunk_bytes;
  for (auto at = record->spans.first_after(begin); at != record->spans.end() && at->first < end;
       ++at) {
    if (at->second.tag != tag) continue;
    seq = at->second.seq;
    return true;
  }
  return false;
}

std::vector<wire::ListEntry> Records::list(std::string_view prefix, std::string_view after,
                                           std::size_t count_max, bool& more) const {
  std::map<std::string, std::uint64_t, std::less<>> paths;  // the smallest so far, and one more
  const std::int64_t now_ms = boottime_ms();
  for (std::size_t i = 0; i < state_->shards_count; ++i) {
    State::Shard& shard = state_->shards[i];
    const std::lock_guard lock(shard.mutex);
    auto at = after < prefix ? shard.records.lower_bound(prefix) : shard.records.upper_bound(after);
    for (; at != shard.records.end() && at->first.starts_with(prefix); ++at) {
      if (paths.size() > count_max && at->first > paths.rbegin()->first) break;
      if (at->second.expires_ms != 0 && at->second.expires_ms <= now_ms) continue;
      paths.emplace(at->first, at->second.size);
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
  for (std::size_t i = 0; i < state_->shards_count; ++i) {
    State::Shard& shard = state_->shards[i];
    for (bool is_done = false; !is_done;) {
      const std::lock_guard lock(shard.mutex);
      auto at = shard.records.lower_bound(prefix);
      for (std::size_t step = 0; !is_done && step < RECORDS_PER_STEP; ++step) {
        is_done = at == shard.records.end() || !at->first.starts_with(prefix);
        if (is_done) break;
        shard.erase(at++);
        ++count;
      }
    }
  }
  return count;
}

std::size_t Records::count() const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < state_->shards_count; ++i) {
    const std::lock_guard lock(state_->shards[i].mutex);
    count += state_->shards[i].records.size();
  }
  return count;
}

std::size_t Records::expire(std::int64_t boottime_ms, std::size_t count_max) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < state_->shards_count; ++i) {
    State::Shard& shard = state_->shards[i];
    const std::lock_guard lock(shard.mutex);
    while (count < count_max && !shard.expiring.empty() &&
           shard.expiring.begin()->first <= boottime_ms) {
      shard.erase(shard.records.find(shard.expiring.begin()->second));
      ++count;
    }
  }
  return count;
}

}  // namespace gd2fs
