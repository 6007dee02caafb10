#include "file_read.h"

#include <algorithm>

namespace gd2fs {

namespace {

constexpr std::size_t ROUNDS_MAX = 3;  // looks at the record

}  // namespace

FileRead::FileRead(CallContext context, ReadSpec spec, OnEnd on_end)
    : RecordCall(std::move(context), spec.path, std::move(on_end)),
      spec_(std::move(spec)),
      bytes_(total_bytes(spec_.into)) {}

std::string FileRead::what() const {
  return "read of " + std::to_string(bytes_) + " bytes at " + std::to_string(spec_.offset) +
         " of `" + spec_.path + "`";
}

void FileRead::ask_record(std::uint64_t from) {
  wire::Item item = new_item();
  item.offset = from;
  item.length = spec_.offset + bytes_ - from;
  ask(wire::Op::meta, std::move(item), [self = self(), from] { self->take_record(from); });
}

void FileRead::take_record(std::uint64_t from) {
  const Status status = answer_status();
  if (status != Status::ok) return fail(status, what(), home());
  const wire::ResponseItem& record = answer().answers.front();
  const wire::MetaBody& body = answer().metas.front();
  const bool is_first = from == spec_.offset;
  if (!is_first && (record.gen != facts_.gen || record.seq != facts_.seq)) return another_round();
  if (is_first) segments_.clear();
  facts_ = {body.size, record.gen, record.seq, record.detail, body.ttl_s, body.replicas};
  segments_.insert(segments_.end(), body.segments.begin(), body.segments.end());
  if (!are_segments_sound()) return finish(Status::miss);
  tried_.clear();
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
  share_bytes_ = share_bytes(home(), end_ - spec_.offset);
  look_at_map();
  requests_.clear();
  parts_.clear();
  open_.clear();
  BufferCursor cursor(spec_.into);
  std::uint64_t at = spec_.offset;
  for (const wire::Segment& segment : segments_) add_segment(segment, cursor, at);
  fill_zero(cursor, end_ - at);
  if (is_unfilled_) return fail(Status::unavailable, what(), home());
  if (is_stuck_) return no_news();
  scatter(std::move(requests_), [self = self()] { self->collect(); });
}

/// Another map: who was asked by the last one is told apart by it no more.
void FileRead::look_at_map() {
  const RoutesRef routes = network().routes();
  if (routes != routes_) tried_.clear();
  routes_ = routes;
  replicas_ = replicas_of(*routes, facts_);
  reach_ = Reach(*routes, replicas_);
  choice_.emplace(routes, share_bytes_);
  is_stuck_ = is_told_to_wait_ = false;
}

/// Nobody is left who could have some part.
void FileRead::no_news() {
  if (lost_) return fail(Status::unavailable, what(), *lost_);
  another_round();
}

/// Adds what is wanted of a segment, and zeros for the hole before it. `at`: where `cursor` is.
void FileRead::add_segment(const wire::Segment& segment, BufferCursor& cursor, std::uint64_t& at) {
  const std::uint64_t begin = segment.chunk * facts_.chunk_bytes + segment.offset;
  const std::uint64_t stop = std::min(begin + segment.length, end_);
  if (stop <= at) return;
  const std::uint64_t from = std::max(begin, at);
  fill_zero(cursor, from - at);
  // Cut where the segment's own blocks end: blocks sent whole need no new sums.
  for (at = from; at < stop;) {
    const std::uint64_t cut = begin + ((at - begin) / share_bytes_ + 1) * share_bytes_;
    const Part part{at, std::min(cut, stop) - at, segment.tag};
    add_part(segment, part, cursor);
    at += part.length;
  }
}

void FileRead::fill_zero(BufferCursor& cursor, std::uint64_t bytes) {
  Bouncer* const bouncer = bytes == 0 ? nullptr : network().bouncer();
  if (bouncer == nullptr) return cursor.fill_zero(static_cast<std::size_t>(bytes));
  std::vector<Buffer> runs;
  cursor.split(static_cast<std::size_t>(bytes), runs);
  for (const Buffer& run : runs) is_unfilled_ = !bouncer->fill_zero(run).empty() || is_unfilled_;
}

bool FileRead::is_had(const Part& part) const {
  const auto known = done_.find(part.at);
  return known != done_.end() && known->second.length == part.length &&
         known->second.tag == part.tag;
}

void FileRead::add_part(const wire::Segment& segment, Part part, BufferCursor& cursor) {
  if (is_had(part) || is_stuck_) return cursor.skip(static_cast<std::size_t>(part.length));
  const auto tried = tried_.find(part.at);
  const RankMask asked = tried == tried_.end() ? 0 : tried->second.asked;
  const auto order = routes_->placement.holders(path_, segment.chunk, reach_.ranks);
  part.rank = choice_->next(order, replicas_, asked);
  const bool is_missed = tried != tried_.end() && tried->second.misses >= reach_.misses;
  if (is_missed || part.rank >= order.size()) {
    is_stuck_ = true;
    return cursor.skip(static_cast<std::size_t>(part.length));
  }
  choice_->assign(order[part.rank], part.length);
  Sent& request = request_to(order[part.rank], part);
  wire::Item item;
  item.name = wire::Name::borrowed(path_);
  item.flags = options().is_probe ? wire::ITEM_PROBE : std::uint16_t{0};
  item.chunk = segment.chunk;
  item.offset = part.at - segment.chunk * facts_.chunk_bytes;
  item.length = part.length;
  item.tag = part.tag;
  request.rpc->add(std::move(item), cursor, part.length);
  if (replicas_ == 1) return;
  const std::size_t other = choice_->next(order, replicas_, asked | rank_bit(part.rank));
  const bool is_there = other < order.size();
  request.others.push_back(is_there ? static_cast<std::uint32_t>(routes_->slots[order[other]])
                                    : Hedge::NOBODY);
}

/// The request that a part is added to next.
Call::Sent& FileRead::request_to(std::uint32_t owner, const Part& part) {
  const std::size_t node = routes_->slots[owner];
  Open& open = open_.try_emplace(node, Open{Cutter(wire::Op::read, share_bytes_), 0}).first->second;
  if (open.cutter.begins(path_.size(), part.length)) {
    open.request = requests_.size();
    requests_.push_back({node, new_rpc(wire::Op::read)});
    requests_.back().rpc->has_others = replicas_ > 1 && routes_->slots.size() > 1;
    parts_.emplace_back();
  }
  parts_[open.request].push_back(part);
  return requests_[open.request];
}

void FileRead::collect() {
  bool is_missing = false;
  for (std::size_t request = 0; request < parts_.size(); ++request) {
    const Sent& each = sent()[request];
    const Status status = each.rpc->status;
    if (status != Status::ok && status != Status::unavailable)
      return fail(status, what(), each.node);
    for (std::size_t item = 0; item < parts_[request].size(); ++item) {
      take_part(parts_[request][item], *each.rpc, item, each.node);
      is_missing = is_missing || !is_had(parts_[request][item]);
    }
  }
  if (is_missing) {
    if (!after(is_told_to_wait_ ? RETRY_MS : 0, [self = self()] { self->fetch(); }))
      finish(Status::expired);
    return;
  }
  Outcome outcome = outcome_of(Status::ok);
  outcome.value = end_ - spec_.offset;
  outcome.file = facts_;
  finish(std::move(outcome));
}

void FileRead::take_part(const Part& part, const Rpc& rpc, std::size_t item, std::size_t node) {
  const Status status = rpc.item_status(item);
  if (status == Status::ok && rpc.bodies[item].tag == part.tag) {
    done_[part.at] = part;
    return;
  }
  if (status == Status::retry) {
    is_told_to_wait_ = true;
    return;
  }
  Tried& tried = tried_[part.at];
  tried.asked |= rank_bit(part.rank);
  if (status == Status::unavailable) {
    lost_ = node;
  } else {
    ++tried.misses;
  }
}

/// A write may have come between: what the record says now is asked for, what is the same stays.
void FileRead::another_round() {
  if (++rounds_ == ROUNDS_MAX) return finish(Status::miss);
  ask_record(spec_.offset);
}

}  // namespace gd2fs
