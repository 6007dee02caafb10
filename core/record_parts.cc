#include "record_parts.h"

#include <algorithm>

namespace gd2fs {
namespace {

constexpr std::int64_t EXPIRES_MS_MAX = std::int64_t{0xffff'ffff} * 1000;  // of a whole `ttl_s`

template <class... Values>
void put(wire::Bytes& out, Values... values) {
  const std::size_t at = out.size();
  out.resize(at + (sizeof(Values) + ...));
  wire::Fields fields{std::span(out).subspan(at)};
  (fields.put(values), ...);
}

void put_version(wire::Bytes& out, const RecordVersion& version) {
  put(out, version.epoch, version.boot, version.attempt);
}

RecordVersion read_version(wire::TableReader& table) {
  RecordVersion version;
  version.epoch = table.u64();
  version.boot = table.u64();
  version.attempt = table.u64();
  return version;
}

void put_change(wire::Bytes& out, const RecordChange& change) {
  put(out, change.gen, change.seen_seq, change.tag, change.offset, change.length, change.if_size,
      change.new_gen, change.new_seq, change.chunk_bytes, change.ttl_s, change.replicas,
      static_cast<std::uint8_t>(change.is_if_absent));
}

/// What other nodes decided is done as it is; only what could not be done at all is refused.
bool is_sound(const RecordChange& change) {
  if (change.kind < ChangeKind::create || change.kind > ChangeKind::respread) return false;
  if (change.offset > FILE_BYTES_MAX || change.length > FILE_BYTES_MAX - change.offset)
    return false;
  if (change.replicas > REPLICAS_MAX) return false;
  const bool has_range = change.kind == ChangeKind::commit;
  const bool has_chunks = change.kind == ChangeKind::create || change.kind == ChangeKind::replace;
  return (!has_range || change.length > 0) && (!has_chunks || is_chunk_size(change.chunk_bytes));
}

bool read_change(wire::TableReader& table, RecordChange& change) {
  for (std::uint64_t* value : {&change.gen, &change.seen_seq, &change.tag, &change.offset,
                               &change.length, &change.if_size, &change.new_gen, &change.new_seq})
    *value = table.u64();
  change.chunk_bytes = table.u32();
  change.ttl_s = table.u32();
  change.replicas = table.u8();
  change.is_if_absent = table.u8() != 0;
  return table.ok() && table.left() == 0 && is_sound(change);
}

/// Whoever counts its chunks, or its copies, or adds to a clock, relies on it.
bool is_sound(const FullRecord& full) {
  const FileRecord& record = full.record;
  if (record.size > record.size_most || record.size_most > FILE_BYTES_MAX) return false;
  if (full.expires_in_ms < 0 || full.expires_in_ms > EXPIRES_MS_MAX) return false;
  if (!full.is_there) return true;
  return record.replicas <= REPLICAS_MAX && is_chunk_size(record.chunk_bytes);
}

void read_head(wire::TableReader& table, FullRecord& full) {
  full.is_there = table.u8() != 0;
  FileRecord& record = full.record;
  record.replicas = table.u8();
  record.version = read_version(table);
  for (std::uint64_t* value :
       {&record.gen, &record.seq, &record.size, &record.size_most, &record.trunc_seq})
    *value = table.u64();
  record.chunk_bytes = table.u32();
  record.ttl_s = table.u32();
  full.expires_in_ms = static_cast<std::int64_t>(table.u64());
}

/// The ranges of a part, in order behind those that are there.
bool read_ranges(wire::TableReader& table, FileRecord& record) {
  std::uint64_t known = 0;
  for (auto at = record.spans.first_after(0); at != record.spans.end(); ++at)
    known = at->second.end;
  while (table.left() > 0) {
    const std::uint64_t begin = table.u64();
    const std::uint64_t end = table.u64();
    const std::uint64_t tag = table.u64();
    const std::uint64_t seq = table.u64();
    if (!table.ok() || begin < known || end <= begin || end > record.size) return false;
    record.spans.set(begin, end, tag, seq);
    known = end;
  }
  return true;
}

}  // namespace

std::optional<std::uint64_t> encode_part(wire::Bytes& out, const FullRecord& full,
                                         std::uint64_t first) {
  const FileRecord& record = full.record;
  const std::uint64_t count = full.is_there ? record.spans.count() : 0;
  put(out, static_cast<std::uint8_t>(full.is_there), record.replicas);
  put_version(out, record.version);
  put(out, record.gen, record.seq, record.size, record.size_most, record.trunc_seq,
      record.chunk_bytes, record.ttl_s, full.expires_in_ms, count, first);
  if (count == 0) return {};
  auto at = record.spans.first_after(0);
  for (std::uint64_t skipped = 0; skipped < first && at != record.spans.end(); ++skipped) ++at;
  for (std::size_t put_count = 0; put_count < RANGES_PER_PART && at != record.spans.end(); ++at) {
    put(out, at->first, at->second.end, at->second.tag, at->second.seq);
    ++put_count;
  }
  if (at == record.spans.end()) return {};
  return first + RANGES_PER_PART;
}

std::optional<bool> decode_part(wire::TableReader& table, FullRecord& into) {
  FullRecord head;
  read_head(table, head);
  const std::uint64_t count = table.u64();
  const std::uint64_t first = table.u64();
  if (!table.ok() || !is_sound(head)) return {};
  const bool is_next = first == into.record.spans.count() &&
                       (first == 0 || into.record.version == head.record.version);
  if (!is_next) return {};
  head.record.spans = std::move(into.record.spans);
  into = std::move(head);
  if (!read_ranges(table, into.record) || into.record.spans.count() > count) return {};
  return into.record.spans.count() == count;
}

std::optional<std::uint64_t> encode_attempt(wire::Bytes& out, const Replication& attempt,
                                            std::uint64_t first) {
  put_version(out, attempt.version);
  put_version(out, attempt.base);
  const bool is_whole = attempt.full != nullptr;
  put(out, is_whole ? std::uint8_t{0} : static_cast<std::uint8_t>(attempt.change.kind));
  if (is_whole) return encode_part(out, *attempt.full, first);
  put_change(out, attempt.change);
  return {};
}

std::optional<AttemptPart> decode_attempt(wire::View body, std::shared_ptr<FullRecord> before) {
  wire::TableReader table(body);
  AttemptPart part;
  part.attempt.version = read_version(table);
  part.attempt.base = read_version(table);
  const std::uint8_t kind = table.u8();
  if (kind != 0) {
    part.attempt.change.kind = static_cast<ChangeKind>(kind);
    if (!read_change(table, part.attempt.change)) return {};
    return part;
  }
  part.full = before != nullptr ? std::move(before) : std::make_shared<FullRecord>();
  const auto is_last = decode_part(table, *part.full);
  if (!is_last || part.full->record.version != part.attempt.version) return {};
  part.is_last = *is_last;
  if (part.is_last) part.attempt.full = part.full;
  return part;
}

}  // namespace gd2fs
