#include "file_read.h"

#include <algorithm>

namespace gd2fs {

namespace {

constexpr std::size_t ROUNDS_MAX = 3;  // looks at the record

}  // namespace

FileRead::FileRead(CallContext context, ReadSpec spec, OnEnd on_end)
    : Call(std::move(context), std::move(on_end)),
      spec_(std::move(spec)),
      bytes_(total_bytes(spec_.into)) {}

std::string FileRead::what() const {
  return "read of " + std::to_string(bytes_) + " bytes at " + std::to_string(spec_.offset) +
         " of `" + spec_.path + "`";
}

void FileRead::ask_record(std::uint64_t from) {
  RpcRef rpc = new_rpc(wire::Op::meta);
  wire::Item item;
  item.name = spec_.path;
  item.offset = from;
  item.length = spec_.offset + bytes_ - from;
  rpc->add(std::move(item));
  send(home_of(spec_.path, 0), std::move(rpc), [self = self(), from] { self->take_record(from); });
}

void FileRead::take_record(std::uint64_t from) {
  const Status status = answer_status();
  if (status == Status::retry &&
      after(RETRY_MS, [self = self()] { self->ask_record(self->spec_.offset); }))
    return;
  if (status != Status::ok) return fail(status, what(), home_of(spec_.path, 0));
  const wire::ResponseItem& record = answer().answers.front();
  const wire::MetaBody& body = answer().metas.front();
  const bool is_first = from == spec_.offset;
  if (!is_first && (record.gen != facts_.gen || record.seq != facts_.seq)) return another_round();
  if (is_first) segments_.clear();
  facts_ = {body.size, record.gen, record.seq, record.detail, body.ttl_s};
  segments_.insert(segments_.end(), body.segments.begin(), body.segments.end());
  if (!are_segments_sound()) return finish(Status::miss);
  if (record.tier == 0 || body.segments.empty()) return fetch();
  const wire::Segment& last = segments_.back();
  ask_record(last.chunk * facts_.chunk_bytes + last.offset + last.length);
}

/// Sorted, apart from each other, each within its chunk: no sum below can wrap.
bool FileRead::are_segments_sound() const {
  if (facts_.chunk_bytes == 0 || facts_.size > FILE_BYTES_MAX) return false;
  std::uint64_t end = 0;
  for (const wire::Segment& segment : segments_) {
    if (segment.chunk > FILE_BYTES_MAX / facts_.chunk_bytes) return false;
    if (std::uint64_t{segment.offset} + segment.length > facts_.chunk_bytes) return false;
    const std::uint64_t at = segment.chunk * facts_.chunk_bytes + segment.offset;
    if (at < end || segment.length == 0) return false;
    end = at + segment.length;
  }
  return true;
}

void FileRead::fetch() {
  end_ = std::max(spec_.offset, std::min(spec_.offset + bytes_, facts_.size));
  // As if all came from home: nodes of one cluster are mostly reached alike.
  share_bytes_ = share_bytes(home_of(spec_.path, 0), end_ - spec_.offset);
  requests_.clear();
  parts_.clear();
  open_.clear();
  BufferCursor cursor(spec_.into);
  std::uint64_t at = spec_.offset;
  for (const wire::Segment& segment : segments_) add_segment(segment, cursor, at);
  cursor.fill_zero(static_cast<std::size_t>(end_ - at));
  scatter(std::move(requests_), [self = self()] { self->collect(); });
}

/// Adds what is wanted of a segment, and zeros for the hole before it. `at`: where `cursor` is.
void FileRead::add_segment(const wire::Segment& segment, BufferCursor& cursor, std::uint64_t& at) {
  const std::uint64_t begin = segment.chunk * facts_.chunk_bytes + segment.offset;
  const std::uint64_t stop = std::min(begin + segment.length, end_);
  if (stop <= at) return;
  const std::uint64_t from = std::max(begin, at);
  cursor.fill_zero(static_cast<std::size_t>(from - at));
  // Cut where the segment's own blocks end: blocks sent whole need no new sums.
  for (at = from; at < stop;) {
    const std::uint64_t cut = begin + ((at - begin) / share_bytes_ + 1) * share_bytes_;
    const Part part{at, std::min(cut, stop) - at, segment.tag};
    add_part(segment, part, cursor);
    at += part.length;
  }
}

void FileRead::add_part(const wire::Segment& segment, const Part& part, BufferCursor& cursor) {
  const auto known = done_.find(part.at);
  if (known != done_.end() && known->second.length == part.length && known->second.tag == part.tag)
    return cursor.skip(static_cast<std::size_t>(part.length));
  const std::size_t node = home_of(spec_.path, segment.chunk);
  Open& open = open_.try_emplace(node, Open{Cutter(wire::Op::read, share_bytes_), 0}).first->second;
  if (open.cutter.begins(spec_.path.size(), part.length)) {
    open.request = requests_.size();
    requests_.push_back({node, new_rpc(wire::Op::read)});
    parts_.emplace_back();
  }
  wire::Item item;
  item.name = wire::Name::borrowed(spec_.path);
  item.flags = options().is_probe ? wire::ITEM_PROBE : std::uint16_t{0};
  item.chunk = segment.chunk;
  item.offset = part.at - segment.chunk * facts_.chunk_bytes;
  item.length = part.length;
  item.tag = part.tag;
  requests_[open.request].rpc->add(std::move(item), cursor, part.length);
  parts_[open.request].push_back(part);
}

void FileRead::collect() {
  bool is_missing = false;
  bool is_told_to_wait = false;
  for (std::size_t request = 0; request < parts_.size(); ++request) {
    const Rpc& rpc = *sent()[request].rpc;
    if (rpc.status != Status::ok) return fail(rpc.status, what(), sent()[request].node);
    for (std::size_t item = 0; item < parts_[request].size(); ++item) {
      const Part& part = parts_[request][item];
      const Status status = rpc.answers[item].status;
      if (status == Status::ok && rpc.bodies[item].tag == part.tag) {
        done_[part.at] = part;
      } else if (status == Status::retry) {
        is_told_to_wait = true;
      } else {
        is_missing = true;
      }
    }
  }
  if (is_missing) return another_round();
  if (is_told_to_wait) {
    if (!after(RETRY_MS, [self = self()] { self->fetch(); })) finish(Status::expired);
    return;
  }
  Outcome outcome = outcome_of(Status::ok);
  outcome.value = end_ - spec_.offset;
  outcome.file = facts_;
  finish(std::move(outcome));
}

/// A write may have come between: what the record says now is asked for, what is the same stays.
void FileRead::another_round() {
  if (++rounds_ == ROUNDS_MAX) return finish(Status::miss);
  ask_record(spec_.offset);
}

}  // namespace gd2fs
