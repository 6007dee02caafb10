#include "file_record.h"

#include <sys/random.h>

#include <algorithm>
#include <chrono>

#include "assertion.h"
#include "limits.h"
#include "rules.h"

namespace gd2fs {
namespace {

/// Where a new record's seq begins: past that of any file that had this name before, so that pieces
/// of then, which nobody told, never count as newer. A file changes less often than once a µs.
std::uint64_t first_seq() {
  using namespace std::chrono;
  const auto now = system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(duration_cast<microseconds>(now).count());
}

/// Would a chunk show more segments than it may? Only the first and the last of the write can:
/// those between become one.
bool is_too_cut(const FileRecord& record, std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t chunk = record.chunk_bytes;
  for (const std::uint64_t first : {begin / chunk * chunk, (end - 1) / chunk * chunk}) {
    const std::size_t count =
        record.spans.count_with(first, first + chunk, begin, end, SEGMENTS_PER_CHUNK_MAX);
    if (count > SEGMENTS_PER_CHUNK_MAX) return true;
  }
  return false;
}

Decision final(RecordAnswer answer) { return {answer, false, {}}; }
Decision final(Status status) {
  RecordAnswer answer;
  answer.status = status;
  return final(answer);
}

RecordAnswer absent(std::uint64_t absence) {
  RecordAnswer answer;
  answer.status = Status::conflict;
  answer.gen = absence;
  return answer;
}

Decision to(const RecordChange& asked, std::uint64_t gen, std::uint64_t seq) {
  Decision decision;
  decision.is_change = true;
  decision.change = asked;
  decision.change.new_gen = gen;
  decision.change.new_seq = seq;
  return decision;
}

Decision decide_create(const FileRecord* record, RecordChange asked) {
  if (asked.chunk_bytes == 0) asked.chunk_bytes = CHUNK_BYTES_DEFAULT;
  if (!is_chunk_size(asked.chunk_bytes)) return final(Status::invalid);
  if (record == nullptr) return to(asked, random_gen(), first_seq());
  return final(answer_of(asked.is_if_absent ? Status::conflict : Status::ok, *record));
}

Status commit_fault(const FileRecord& record, const RecordChange& asked, std::size_t spans_max) {
  if (record.gen != asked.gen && is_kept(Rule::generation)) return Status::gone;
  const bool is_seen = asked.seen_seq <= record.seq || !is_kept(Rule::generation);
  if (asked.length == 0 || !is_seen) return Status::invalid;
  if (asked.offset > FILE_BYTES_MAX || asked.length > FILE_BYTES_MAX - asked.offset)
    return Status::full;
  const std::uint64_t end = asked.offset + asked.length;
  if (asked.if_size != ~std::uint64_t{0} && asked.if_size != record.size) return Status::conflict;
  // Any truncation since counts, wherever it cut: an old commit must never bring back what it took
  // away.
  const bool is_late = record.trunc_seq > asked.seen_seq ||
                       record.spans.has_later(asked.offset, end, asked.seen_seq);
  if (is_late && is_kept(Rule::overlap)) return Status::conflict;
  if (is_too_cut(record, asked.offset, end)) return Status::invalid;
  return record.spans.count() + 2 > spans_max ? Status::full : Status::ok;
}

Decision decide_commit(const FileRecord* record, const RecordChange& asked, std::size_t spans_max) {
  if (record == nullptr) return final(Status::gone);
  const Status fault = commit_fault(*record, asked, spans_max);
  if (fault != Status::ok) return final(answer_of(fault, *record));
  return to(asked, record->gen, record->seq + 1);
}

Decision decide_replace(const FileRecord* record, const RecordChange& asked,
                        std::uint64_t absence) {
  if (!is_chunk_size(asked.chunk_bytes)) return final(Status::invalid);
  if (asked.length > FILE_BYTES_MAX) return final(Status::full);
  // It overlaps everything: what its writer has not seen, it must not bury.
  const bool is_seen = asked.gen == 0 || (record == nullptr ? asked.gen == absence
                                                            : asked.gen == record->gen &&
                                                                  asked.seen_seq >= record->seq);
  if (!is_seen && is_kept(Rule::overlap))
    return final(record == nullptr ? absent(absence) : answer_of(Status::conflict, *record));
  return to(asked, random_gen(), 1 + (record == nullptr ? first_seq() : record->seq));
}

Decision decide_truncate(const FileRecord* record, const RecordChange& asked) {
  if (record == nullptr) return final(Status::gone);
  if (record->gen != asked.gen) return final(answer_of(Status::gone, *record));
  if (asked.length > record->size) return final(answer_of(Status::invalid, *record));
  return to(asked, record->gen, record->seq + 1);
}

Decision decide_respread(const FileRecord* record, const RecordChange& asked) {
  if (record == nullptr) return final(Status::gone);
  if (asked.gen != 0 && record->gen != asked.gen) return final(answer_of(Status::gone, *record));
  return to(asked, record->gen, record->seq + 1);
}

Decision decide_unlink(const FileRecord* record, const RecordChange& asked, bool is_sure) {
  if (record != nullptr) return to(asked, record->gen, record->seq);
  // Others may have one that this node does not know of: they are to forget it.
  return is_sure ? final(Status::gone) : to(asked, 0, 0);
}

void set_only(FileRecord& record, const RecordChange& change) {
  record.trunc_seq = record.seq;
  record.chunk_bytes = change.chunk_bytes;
  record.ttl_s = change.ttl_s;
  record.replicas = change.replicas;
  record.spans.cut(0, ~std::uint64_t{0});
  if (change.length > 0) record.spans.set(0, change.length, change.tag, record.seq);
  record.size = change.length;
}

}  // namespace

bool is_chunk_size(std::uint32_t bytes) {
  return bytes >= CHUNK_BYTES_MIN && bytes <= CHUNK_BYTES_MAX && bytes % BLOCK_BYTES == 0;
}

std::uint64_t random_gen() {
  std::uint64_t gen = 0;
  while (gen == 0) GD2FS_ASSERT(getrandom(&gen, sizeof gen, 0) == sizeof gen);
  return gen;
}

RecordAnswer answer_of(Status status, const FileRecord& record) {
  return {status, record.gen, record.seq, record.size, record.chunk_bytes, 0, 0};
}

Decision decide(const FileRecord* record, const RecordChange& asked, const Surroundings& around) {
  switch (asked.kind) {
    case ChangeKind::create: return decide_create(record, asked);
    case ChangeKind::commit: return decide_commit(record, asked, around.spans_max);
    case ChangeKind::replace: return decide_replace(record, asked, around.absence);
    case ChangeKind::truncate: return decide_truncate(record, asked);
    case ChangeKind::unlink: return decide_unlink(record, asked, around.is_sure);
    case ChangeKind::respread: return decide_respread(record, asked);
    case ChangeKind::refresh: break;
  }
  if (record == nullptr) return final(Status::gone);
  return to(asked, record->gen, record->seq);
}

bool follows(const FileRecord* record, const RecordChange& change) {
  if (change.is_whole()) return true;
  const std::uint64_t step = change.kind == ChangeKind::refresh ? 0 : 1;
  return record != nullptr && record->gen == change.new_gen && record->seq + step == change.new_seq;
}

void apply(FileRecord& record, const RecordChange& change) {
  record.gen = change.new_gen;
  record.seq = change.new_seq;
  const std::uint64_t end = change.offset + change.length;
  switch (change.kind) {
    case ChangeKind::create:
      record.chunk_bytes = change.chunk_bytes;
      record.ttl_s = change.ttl_s;
      record.replicas = change.replicas;
      record.trunc_seq = 0;
      record.size = 0;
      record.spans.cut(0, ~std::uint64_t{0});
      break;
    case ChangeKind::commit:
      record.spans.set(change.offset, end, change.tag, record.seq);
      record.size = std::max(record.size, end);
      break;
    case ChangeKind::replace: set_only(record, change); break;
    case ChangeKind::truncate:
      record.trunc_seq = record.seq;
      record.spans.cut(change.length, ~std::uint64_t{0});
      record.size = change.length;
      break;
    case ChangeKind::respread: record.replicas = change.replicas; break;
    case ChangeKind::unlink:
    case ChangeKind::refresh: break;
  }
  record.size_most = std::max(record.size_most, record.size);
}

std::uint64_t chunks_of(const FileRecord& record) {
  return (record.size_most + record.chunk_bytes - 1) / record.chunk_bytes;
}

}  // namespace gd2fs
