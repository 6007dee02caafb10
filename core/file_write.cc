#include "file_write.h"

#include <algorithm>
#include <utility>

#include "random.h"

namespace gd2fs {

namespace {

constexpr std::uint64_t REQUEST_BYTES = 4 * MiB;  // of one OFFER, unless a piece is larger
constexpr std::size_t BEGINS_MAX = 8;             // on another file of the same path
constexpr std::uint8_t CORRUPT_MAX = 1;
constexpr std::int64_t PUBLISH_MS = 1'000;  // a silent owner does not hold the call up
constexpr std::size_t PUBLISHES_MAX = 3;

/// Nothing was changed by a COMMIT that is answered so. `full` may be said of one that was made.
bool is_certain_refusal(Status status) {
  using enum Status;
  constexpr Status ALL[] = {conflict, gone, invalid, denied, retry, stale_map, fenced, unavailable};
  return std::find(std::begin(ALL), std::end(ALL), status) != std::end(ALL);
}

}  // namespace

FileWrite::FileWrite(CallContext context, WriteSpec spec, OnEnd on_end)
    : RecordCall(std::move(context), spec.path, std::move(on_end)),
      spec_(std::move(spec)),
      bytes_(total_bytes(spec_.from)),
      offset_(spec_.offset),
      gen_(options().if_gen) {}

std::string FileWrite::what() const {
  const std::string bytes = std::to_string(bytes_) + " bytes";
  const std::string path = "`" + path_ + "`";
  if (spec_.is_replace) return "put of " + bytes + " as " + path;
  if (spec_.is_append) return "append of " + bytes + " to " + path;
  return "write of " + bytes + " at " + std::to_string(offset_) + " to " + path;
}

void FileWrite::run() {
  if (spec_.is_replace) {
    facts_.chunk_bytes =
        options().chunk_bytes == 0 ? std::uint32_t{CHUNK_BYTES_DEFAULT} : options().chunk_bytes;
    facts_.ttl_s = options().ttl_s;
    facts_.replicas = options().replicas;
    return ask(wire::Op::meta, new_item(), [self = self()] { self->take_base(); });
  }
  if (spec_.snapshot) {
    facts_ = *spec_.snapshot;
    gen_ = facts_.gen;
    return begin_pieces();
  }
  ask_record(0, 0, &FileWrite::begin_pieces);
}

/// What a put is based on: what it has not seen it must never bury, however late its COMMIT
/// arrives. A generation stands for the absence of a file too. Where nobody can know it now, the
/// put takes the place of whatever there is.
void FileWrite::take_base() {
  const Status status = answer_status();
  if (status != Status::ok && status != Status::gone && status != Status::miss)
    return give_up(status, home());
  base_ = answer().answers.front();
  if (status == Status::miss) base_ = {};
  begin_pieces();
}

void FileWrite::ask_record(std::uint64_t offset, std::uint64_t length, void (FileWrite::*then)()) {
  wire::Item item = new_item();
  item.offset = offset;
  item.length = length;
  ask(wire::Op::meta, std::move(item), [self = self(), then] {
    if (self->take_facts()) (*self.*then)();
  });
}

/// False: there is no file to write to, or no word of it, and the call has ended.
bool FileWrite::take_facts() {
  const Status status = answer_status();
  const bool is_committed = seq_ != 0;
  if (status != Status::ok) {
    is_committed&& status == Status::gone ? written() : give_up(status, home());
    return false;
  }
  const wire::ResponseItem& record = answer().answers.front();
  const wire::MetaBody& body = answer().metas.front();
  if (is_committed && record.gen != gen_) {  // it was there, and gone again since
    written();
    return false;
  }
  facts_ = {body.size, record.gen, record.seq, record.detail, body.ttl_s, body.replicas};
  if (gen_ == 0) gen_ = facts_.gen;
  if (facts_.gen == gen_ && facts_.chunk_bytes != 0) return true;
  if (facts_.chunk_bytes != 0 && may_begin_anew()) {
    gen_ = facts_.gen;
    begin_pieces();
  } else {
    fail_write(Status::gone, home());  // unlinked and made anew since
  }
  return false;
}

/// Another file has this path since the call began, and nothing was written to either: the call may
/// as well have begun now, unless it is about that one file.
bool FileWrite::may_begin_anew() {
  const bool is_bound = options().if_gen != 0 || spec_.snapshot || spec_.is_replace;
  return !is_bound && seq_ == 0 && !is_unsure_ && begins_++ < BEGINS_MAX;
}

/// Certain not to be applied, unless a COMMIT has gone out.
void FileWrite::give_up(Status status, std::size_t node) {
  fail_write(is_unsure_ ? Status::unknown : status, node);
}

void FileWrite::fail_write(Status status, std::size_t node) {
  forget();
  fail(status, what(), node);
}

/// What owners have under this tag will not be committed.
void FileWrite::forget() {
  if (may_be_listed_) return;
  forget_staged(network(), path_, tag_, std::exchange(tried_, {}));
}

// ---- pieces --------------------------------------------------------------------------

void FileWrite::begin_pieces() {
  if (spec_.is_append) offset_ = facts_.size;
  if (offset_ > FILE_BYTES_MAX || bytes_ > FILE_BYTES_MAX - offset_)
    return fail_write(Status::full, home());
  forget();  // an earlier try has another tag
  tag_ = random_tag();
  if (bytes_ == 0) return spec_.is_replace ? commit() : nothing_to_write();
  pieces_.clear();
  staged_.clear();
  may_be_listed_ = false;
  routes_ = network().routes();
  replicas_ = replicas_of(*routes_, facts_);
  BufferCursor memory(spec_.from);
  for (std::uint64_t done = 0; done < bytes_;) {
    Piece piece;
    piece.chunk = (offset_ + done) / facts_.chunk_bytes;
    piece.offset = (offset_ + done) % facts_.chunk_bytes;
    piece.length = std::min(bytes_ - done, facts_.chunk_bytes - piece.offset);
    piece.memory = memory;
    memory.skip(static_cast<std::size_t>(piece.length));
    done += piece.length;
    pieces_.push_back(piece);
  }
  stage();
}

/// The file is there, and that was all to find out.
void FileWrite::nothing_to_write() {
  Outcome outcome = outcome_of(Status::ok);
  outcome.value = spec_.is_append ? offset_ : 0;
  outcome.file = facts_;
  finish(std::move(outcome));
}

void FileWrite::stage() {
  std::vector<Sent> requests;
  offered_.clear();
  const std::vector<Copy> copies = copies_to_make();
  if (refusal_.status != Status::ok) return give_up(refusal_.status, refusal_.node);
  add_offers(copies, requests);
  scatter(std::move(requests), [self = self()] { self->collect_staged(); });
}

bool FileWrite::is_staged(const Piece& piece) const {
  return piece.copies != 0 && piece.copies + piece.refused >= replicas_;
}

/// To as many owners as copies are missing, in order, past those that do not answer. Where no owner
/// is left, those that have it are enough; a piece that nobody has is the `refusal_`.
std::vector<FileWrite::Copy> FileWrite::copies_to_make() {
  std::vector<Copy> copies;
  const std::size_t count = std::min(routes_->slots.size(), RANKS_MAX);
  for (std::size_t at = 0; at < pieces_.size(); ++at) {
    Piece& piece = pieces_[at];
    std::size_t wanted = replicas_ - std::min(piece.copies + piece.refused, replicas_);
    std::vector<std::uint32_t> order;
    if (wanted > 0)
      order = routes_->placement.owners(path_, piece.chunk, std::min(replicas_, count));
    const bool is_short = piece.asked != 0 || routes_->is_any_down(order);
    const std::size_t before = copies.size();
    for (std::size_t rank = 0; rank < count && wanted > 0; ++rank) {
      if (rank == order.size()) order = routes_->placement.owners(path_, piece.chunk, count);
      if (rank >= order.size()) break;
      if ((piece.asked & rank_bit(rank)) != 0) continue;
      const std::size_t node = routes_->slots[order[rank]];
      if (routes_->links[order[rank]]->is_down()) {
        piece.asked |= rank_bit(rank);
        if (piece.refused == 0) lost_ = {Status::unavailable, node};
        continue;
      }
      copies.push_back({at, rank, node, is_short});
      --wanted;
    }
    if (copies.size() != before || wanted == 0) continue;
    if (piece.copies != 0) {
      piece.refused = replicas_ - piece.copies;
    } else {
      refusal_ = lost_;
    }
  }
  return copies;
}

void FileWrite::add_offers(std::span<const Copy> copies, std::vector<Sent>& requests) {
  std::map<std::size_t, Open> open_requests;
  for (const Copy& copy : copies) {
    Open& open =
        open_requests.try_emplace(copy.node, Open{Cutter(wire::Op::offer, REQUEST_BYTES), 0})
            .first->second;
    if (open.cutter.begins(path_.size(), pieces_[copy.piece].length)) {
      open.request = requests.size();
      requests.push_back({copy.node, new_rpc(wire::Op::offer)});
      requests.back().rpc->request.head.map_epoch = routes_->map.epoch;
      requests.back().rpc->has_others = routes_->slots.size() > 1;
      requests.back().rpc->set_tags(options().tags);
      offered_.emplace_back();
    }
    add_offer(copy, requests[open.request]);
    offered_[open.request].push_back(copy);
    tried_.insert({copy.node, pieces_[copy.piece].chunk});
  }
}

void FileWrite::add_offer(const Copy& copy, Sent& request) const {
  const Piece& piece = pieces_[copy.piece];
  wire::Item item;
  item.name = wire::Name::borrowed(path_);
  item.flags = network().options().is_verifying ? std::uint16_t{0} : wire::ITEM_NO_VERIFY;
  item.chunk = piece.chunk;
  item.offset = piece.offset;
  item.length = piece.length;
  item.tag = tag_;
  item.sink = facts_.replicas;
  item.ttl_s = facts_.ttl_s;
  item.flags |= wire::class_flags(options().eviction_class);
  if (copy.is_short) item.flags |= wire::ITEM_SHORT;
  BufferCursor memory = piece.memory;
  request.rpc->add(std::move(item), memory, piece.length);
}

void FileWrite::collect_staged() {
  Fault worst;
  bool has_progress = false;
  for (std::size_t request = 0; request < offered_.size(); ++request) {
    for (std::size_t item = 0; item < offered_[request].size(); ++item) {
      const Copy& copy = offered_[request][item];
      const RankMask before = pieces_[copy.piece].asked;
      const Fault fault = take_staged(copy, sent()[request].rpc->item_status(item));
      if (fault.status != Status::ok) worst = fault;
      has_progress = has_progress || pieces_[copy.piece].asked != before;
    }
  }
  if (worst.status != Status::ok) return give_up(worst.status, worst.node);
  const bool is_done = std::all_of(pieces_.begin(), pieces_.end(),
                                   [this](const Piece& piece) { return is_staged(piece); });
  if (is_done) return seq_ != 0 ? publish() : commit();
  if (!after(has_progress ? 0 : RETRY_MS, [self = self()] { self->stage(); }))
    give_up(Status::expired, home());
}

/// What ends the call, if anything does: a copy that is neither made nor refused is tried again.
FileWrite::Fault FileWrite::take_staged(const Copy& copy, Status status) {
  Piece& piece = pieces_[copy.piece];
  const RankMask bit = rank_bit(copy.rank);
  switch (status) {
    case Status::ok:
    case Status::have:
      piece.asked |= bit;
      ++piece.copies;
      staged_.push_back(copy);
      return {};
    case Status::retry: return {};
    case Status::unavailable:
      piece.asked |= bit;
      lost_ = {status, copy.node};
      return {};
    case Status::corrupt:
      if (piece.corrupt_count++ < CORRUPT_MAX) return {};
      return {status, copy.node};
    case Status::full:
      piece.asked |= bit;
      lost_ = {status, copy.node};
      if (++piece.refused < replicas_) return {};
      return piece.copies != 0 ? Fault{} : Fault{status, copy.node};
    default: return {status, copy.node};
  }
}

// ---- commit --------------------------------------------------------------------------

void FileWrite::commit() {
  wire::Item item = new_item();
  item.gen = facts_.gen;
  item.seen_seq = facts_.seq;
  item.tag = tag_;
  item.offset = offset_;
  item.length = bytes_;
  if (spec_.is_append) item.if_size = offset_;
  if (spec_.is_replace) {
    item.flags = wire::ITEM_REPLACE;
    item.if_size = facts_.chunk_bytes;
    item.ttl_s = facts_.ttl_s;
    item.offset = facts_.replicas;
    item.gen = base_.gen;
    item.seen_seq = base_.seq;
  }
  ++commits_;
  may_be_listed_ = true;
  ask(wire::Op::commit, std::move(item), [self = self()] { self->take_commit(); });
}

void FileWrite::take_commit() {
  const Status status = answer_status();
  may_be_listed_ = may_be_listed_ && !is_certain_refusal(status);
  switch (status) {
    case Status::ok:
      return take_committed(answer().answers.front().seq, answer().answers.front().gen);
    case Status::conflict: return conflicted();
    case Status::gone:
      if (answer().answers.front().gen == 0 || !may_begin_anew()) break;
      gen_ = 0;
      return ask_record(0, 0, &FileWrite::begin_pieces);
    case Status::unknown: return look_for_own_tag();
    case Status::expired:
    case Status::cancelled: return fail_write(Status::unknown, home());
    case Status::retry:
    case Status::stale_map:
    case Status::fenced: return fail_write(Status::expired, home());
    case Status::invalid:
      if (spec_.is_replace) return fail_write(status, home());
      merging_ = pieces_.front().chunk;
      return merge_next_chunk();
    default: break;
  }
  fail_write(status, home());
}

void FileWrite::take_committed(std::uint64_t seq, std::uint64_t gen) {
  seq_ = seq;
  gen_ = facts_.gen = gen;
  if (spec_.is_replace) facts_.size = bytes_;
  if (pieces_.empty()) return written();
  publish();
}

/// Certain: not applied. An append goes to the new end; a write is committed again as it is, and a
/// put on what is there now.
void FileWrite::conflicted() {
  if (spec_.is_append) return ask_record(0, 0, &FileWrite::begin_pieces);
  if (spec_.snapshot || commits_ >= COMMITS_MAX) return fail_write(Status::conflict, home());
  if (!spec_.is_replace) return ask_record(0, 0, &FileWrite::commit);
  base_ = answer().answers.front();
  commit();
}

/// The answer to the COMMIT is lost: it is never sent again, the record says what became of it.
void FileWrite::look_for_own_tag() {
  is_unsure_ = true;
  ask_record(offset_, bytes_, &FileWrite::take_look);
}

void FileWrite::take_look() {
  for (const wire::Segment& segment : answer().metas.front().segments)
    if (segment.tag == tag_) {
      is_unsure_ = false;
      return take_committed(segment.seq, facts_.gen);
    }
  fail_write(Status::unknown, home());
}

// ---- publish -------------------------------------------------------------------------

/// Tells the owners that the pieces are listed: older ones under them can go, and these stay. The
/// answer matters: an owner that lost its stream to this client, or waited too long for this call,
/// asked home before the commit and let its piece go. Then the call still has the bytes.
void FileWrite::publish() {
  std::map<std::size_t, Open> open_requests;
  std::vector<Sent> requests;
  offered_.clear();
  for (const Copy& copy : staged_) {
    Open& open =
        open_requests.try_emplace(copy.node, Open{Cutter(wire::Op::publish, 0), 0}).first->second;
    if (open.cutter.begins(path_.size(), 0)) {
      open.request = requests.size();
      RpcRef rpc = new_rpc(wire::Op::publish);
      rpc->deadline_ms = std::min(rpc->deadline_ms, now_ms() + PUBLISH_MS);
      requests.push_back({copy.node, std::move(rpc)});
      offered_.emplace_back();
    }
    wire::Item item = new_item();
    item.chunk = pieces_[copy.piece].chunk;
    item.tag = tag_;
    item.offset = seq_;
    requests[open.request].rpc->add(std::move(item));
    offered_[open.request].push_back(copy);
  }
  ++publishes_;
  scatter(std::move(requests), [self = self()] { self->take_published(); });
}

void FileWrite::take_published() {
  bool is_missing = false;
  staged_.clear();
  std::set<StagedCopy> untold;  // the call was cancelled, or is out of time
  for (std::size_t request = 0; request < offered_.size(); ++request)
    for (std::size_t item = 0; item < offered_[request].size(); ++item) {
      const Copy& copy = offered_[request][item];
      if (sent()[request].rpc->status != Status::ok)
        untold.insert({copy.node, pieces_[copy.piece].chunk});
      if (sent()[request].rpc->item_status(item) != Status::miss) continue;
      Piece& piece = pieces_[copy.piece];
      --piece.copies;
      piece.asked &= ~rank_bit(copy.rank);
      is_missing = true;
    }
  publish_staged(network(), path_, tag_, seq_, std::move(untold));
  if (!is_missing) return written();
  if (publishes_ == PUBLISHES_MAX) return fail_write(Status::full, home());
  is_unsure_ = true;
  ask_record(offset_, bytes_, &FileWrite::stage_missing);
}

/// Offers again what an owner let go and the record still lists: under the same tag nothing else
/// can be, so no new commit is needed.
void FileWrite::stage_missing() {
  const auto& segments = answer().metas.front().segments;
  bool is_missing = false;
  for (Piece& piece : pieces_) {
    const bool is_listed = std::any_of(segments.begin(), segments.end(), [&](const auto& segment) {
      return segment.chunk == piece.chunk && segment.tag == tag_;
    });
    if (!is_listed) piece.copies = replicas_;  // written over since: not wanted any more
    is_missing = is_missing || !is_staged(piece);
  }
  if (is_missing) return stage();
  written();
}

void FileWrite::written() {
  Outcome outcome = outcome_of(Status::ok);
  outcome.value = spec_.is_append ? offset_ : bytes_;
  outcome.file = facts_;
  outcome.file.seq = seq_;
  outcome.file.size = std::max(facts_.size, offset_ + bytes_);
  finish(std::move(outcome));
}

}  // namespace gd2fs
