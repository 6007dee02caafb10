#include "requests.h"

#include <algorithm>
#include <chrono>

#include "answer.h"
#include "mover.h"
#include "name.h"
#include "planted.h"
#include "why.h"

namespace gd2fs::serve {
namespace {

using wire::Op;

constexpr auto TURN = std::chrono::milliseconds(1);
constexpr std::size_t RESPONSE_ITEM_BYTES = 32;
constexpr std::size_t META_BODY_BYTES = 24;
constexpr std::size_t SEGMENT_BYTES = 32;
constexpr std::size_t LIST_ENTRY_BYTES = 10;  // and the name
constexpr std::size_t LIST_ENTRIES_MAX = 8192;

bool is_page(const wire::Item& item) { return (item.flags & wire::ITEM_PAGE) != 0; }
bool is_namespace(const wire::Item& item) { return (item.flags & wire::ITEM_NAMESPACE) != 0; }
bool is_path(const wire::Item& item) { return !is_page(item) && is_valid_name(item.name, false); }

wire::ResponseItem from_record(const RecordAnswer& record) {
  return {.status = record.status,
          .detail = record.status == Status::retry ? record.detail : record.chunk_bytes,
          .length = record.size,
          .gen = record.gen,
          .seq = record.seq};
}

wire::ResponseItem only(Status status, std::uint64_t length = 0, std::uint64_t seq = 0) {
  return {.status = status, .length = length, .seq = seq};
}

/// CREATE, COMMIT, TRUNCATE and UNLINK as what they ask for. Nothing: they break a rule.
std::optional<RecordChange> change_of(Op op, const wire::Item& item) {
  RecordChange change;
  change.gen = item.gen;
  change.seen_seq = item.seen_seq;
  change.tag = item.tag;
  change.offset = item.offset;
  change.length = item.length;
  change.if_size = item.if_size;
  change.ttl_s = item.ttl_s;
  change.is_if_absent = (item.flags & wire::ITEM_IF_ABSENT) != 0;
  if (op == Op::create) {
    const bool is_respread = (item.flags & wire::ITEM_REPLICAS) != 0;
    change.kind = is_respread ? ChangeKind::respread : ChangeKind::create;
    change.gen = is_respread ? item.tag : 0;
    if (item.length > CHUNK_BYTES_MAX) return {};
    change.chunk_bytes = static_cast<std::uint32_t>(item.length);
    change.replicas = static_cast<std::uint8_t>(std::min<std::size_t>(item.sink, REPLICAS_MAX));
  } else if (op == Op::commit) {
    const bool is_replace = (item.flags & wire::ITEM_REPLACE) != 0;
    if (item.tag == 0) return {};
    change.kind = is_replace ? ChangeKind::replace : ChangeKind::commit;
    if (!is_replace) return change;
    if (item.if_size > CHUNK_BYTES_MAX) return {};
    change.chunk_bytes = static_cast<std::uint32_t>(item.if_size);
    change.replicas = static_cast<std::uint8_t>(std::min<std::size_t>(item.offset, REPLICAS_MAX));
    change.offset = 0;
  } else if (op == Op::truncate) {
    change.kind = ChangeKind::truncate;
    change.offset = 0;
  } else {
    change.kind = ChangeKind::unlink;
  }
  return change;
}

/// What comes without a time to live has its namespace's.
std::optional<RecordChange> change_of(const Node& node, Op op, const wire::Item& item) {
  auto change = change_of(op, item);
  const bool is_new =
      change && (change->kind == ChangeKind::create || change->kind == ChangeKind::replace);
  if (is_new && change->ttl_s == 0) change->ttl_s = node.store->ttl_of(item.name, false);
  return change;
}

bool is_change(Op op) {
  return op == Op::create || op == Op::commit || op == Op::truncate || op == Op::unlink;
}

/// Of records: answered under a lease, in the epoch of the asker's map.
bool is_of_records(Op op, std::span<const wire::Item> items) {
  if (op == Op::list) return !items.empty() && !is_page(items.front());
  return is_change(op) || op == Op::meta || op == Op::is_listed;
}

/// Keeps what fits one RESPONSE. True: something had to go.
bool cut_to_table(std::vector<wire::ListEntry>& entries) {
  std::size_t bytes = RESPONSE_ITEM_BYTES;
  for (std::size_t index = 0; index < entries.size(); ++index) {
    bytes += LIST_ENTRY_BYTES + entries[index].name.size();
    if (bytes > TABLE_BYTES_MAX) {
      entries.resize(index);
      return true;
    }
  }
  return false;
}

}  // namespace

bool SmallRequest::is_long() const {
  if (body_.head.op == Op::why) return true;
  if (body_.head.op != Op::drop) return body_.head.op == Op::list;
  for (const wire::Item& item : body_.items) {
    if (is_namespace(item)) return true;
  }
  return false;
}

SmallRequest::Turn SmallRequest::run(Node& node, wire::Bytes& out, bool is_patient) {
  const auto turn_ends = std::chrono::steady_clock::now() + TURN;
  if (is_refused(node, out)) return Turn::done;
  const bool has_steps = body_.head.op != Op::list && body_.head.op != Op::ping &&
                         body_.head.op != Op::drain && body_.head.op != Op::why;
  for (std::size_t steps = 1; has_steps && next_item_ < body_.items.size(); ++steps) {
    const bool is_look = !is_patient && steps % LOOKUPS_MAX == 0;
    if (is_look && std::chrono::steady_clock::now() > turn_ends) return Turn::more;
    if (body_.head.op == Op::exists && next_item_ % LOOKUPS_MAX == 0) {
      node.warm(std::span(body_.items).subspan(next_item_));
    }
    if (!step(node, body_.items[next_item_])) return Turn::waits;
    told_.reset();
    ++next_item_;
  }
  respond(node, out);
  return Turn::done;
}

/// Not of this epoch, or not under a lease: then it is answered as a whole. A change that was made
/// is told all the same.
bool SmallRequest::is_refused(Node& node, wire::Bytes& out) const {
  if (!is_of_records(body_.head.op, body_.items)) return false;
  const bool is_begun = !answers_.empty() && !told_;
  if (is_begun || (told_ && is_change(body_.head.op))) return false;
  const Status status = node.record_service.admit(body_.head.map_epoch);
  if (status == Status::ok) return false;
  end(out, status);
  if (status == Status::stale_map)
    wire::encode_map(out, 0, shown_map(asker_->rights, node.view()->map));
  return true;
}

void SmallRequest::wait(Node& node, RecordService::OnEnd on_end) const {
  const wire::Item& item = body_.items[next_item_];
  const std::string path(item.name);
  if (!is_change(body_.head.op))
    return node.record_service.look(path, deadline_ms_, std::move(on_end));
  node.record_service.mutate(path, *change_of(node, body_.head.op, item), deadline_ms_,
                             std::move(on_end));
}

void SmallRequest::end(wire::Bytes& out, Status status) const {
  answer_all(out, request_, body_.head.op, body_.items.size(), status);
}

/// False: the item waits for other nodes.
bool SmallRequest::step(Node& node, const wire::Item& item) {
  if (body_.head.op == Op::exists) {
    present_.push_back(is_present(node, item));
    return true;
  }
  if (body_.head.op == Op::meta) return meta(node, item);
  const auto answered = answer(node, item);
  if (!answered) return false;
  answers_.push_back(*answered);
  answers_.back().item = static_cast<std::uint16_t>(next_item_);
  return true;
}

void SmallRequest::respond(Node& node, wire::Bytes& out) {
  switch (body_.head.op) {
    case Op::exists:
      if (node.key_trace.is_on()) [[unlikely]]
        node.key_trace.note(Op::exists, [this](KeyTrace::Batch& batch) { note_keys(batch); });
      return wire::encode_exists_response(out, request_, present_);
    case Op::meta: wire::encode_meta_response(out, request_, answers_, bodies_); break;
    case Op::list: return list(node, out);
    case Op::ping:
      return wire::encode_ping_response(out, request_, shown_status(asker_->rights, node.status()));
    case Op::drain: return drain(node, out);
    case Op::why: return why(node, out);
    case Op::pull:
      if (answers_.size() == 1)
        return wire::encode_pull_response(out, request_, answers_.front(), part_);
      return end(out, Status::invalid);
    default: wire::encode_response(out, request_, answers_);
  }
  const bool is_stale = std::any_of(answers_.begin(), answers_.end(), [](const auto& each) {
    return each.status == Status::stale_map;
  });
  if (is_stale) wire::encode_map(out, 0, shown_map(asker_->rights, node.view()->map));
}

std::optional<wire::ResponseItem> SmallRequest::answer(Node& node, const wire::Item& item) {
  if (body_.head.op == Op::drop) return drop(node, item);
  if (body_.head.op == Op::epoch) return confirm(node, item);
  if (!is_path(item)) return only(Status::invalid);
  if (is_change(body_.head.op)) return change(node, item);
  const bool is_single = body_.items.size() == 1;
  switch (body_.head.op) {
    case Op::publish: return publish(node, item);
    case Op::forget:
      return only(node.store->forget(item.name, item.chunk, item.tag) ? Status::ok : Status::miss);
    case Op::is_listed: return is_listed(node, item);
    case Op::replicate:
      return is_single ? node.record_service.replicate(body_) : only(Status::invalid);
    case Op::pull:
      return is_single ? node.record_service.pull(item, body_.head.map_epoch, part_)
                       : only(Status::invalid);
    default: return only(Status::invalid);
  }
}

wire::ResponseItem SmallRequest::confirm(Node& node, const wire::Item& item) {
  if (!item.name.empty()) {
    node.peers.look_now(node_id(item.name));
    node.record_service.take_arrival(node_id(item.name), item.offset);
    node.mover->note_arrival(node_id(item.name), item.offset);
  }
  return node.record_service.confirm(item);
}

wire::ResponseItem SmallRequest::publish(Node& node, const wire::Item& item) {
  const Status status = node.store->publish(item.name, item.chunk, item.tag, item.offset);
  if (status != Status::ok && is_planted("acknowledge_before_publish")) return only(Status::ok);
  if (status != Status::ok) return only(status);
  const PieceRef piece = node.store->find_piece(item.name, item.chunk, item.tag, false);
  if (piece != nullptr) node.mover->note(*piece);
  return only(status);
}

std::optional<wire::ResponseItem> SmallRequest::change(Node& node, const wire::Item& item) {
  const auto asked = change_of(node, body_.head.op, item);
  if (!asked) return only(Status::invalid);
  std::optional<RecordAnswer> done = told_;
  if (!done) done = node.record_service.mutate_at_once(item.name, *asked);
  if (!done) return {};
  if (body_.head.op != Op::unlink) return from_record(*done);
  if (done->status == Status::ok) node.store->drop_file(item.name);
  return only(done->status, done->chunks);
}

std::optional<wire::ResponseItem> SmallRequest::is_listed(Node& node, const wire::Item& item) {
  std::uint64_t seq = 0;
  const Status status = node.records.is_listed(item.name, item.chunk, item.tag, seq);
  if (status != Status::retry) return only(status, 0, seq);
  if (!told_) return {};
  return only(Status::retry);
}

/// After a look that could not tell: why.
Status SmallRequest::take_look() {
  return told_->status == Status::ok ? Status::miss : told_->status;
}

wire::ResponseItem SmallRequest::drop(Node& node, const wire::Item& item) {
  if (is_namespace(item)) {
    if (!namespace_fault(item.name).empty()) return only(Status::invalid);
    const std::size_t count = node.records.clear(item.name) + node.store->clear(item.name);
    return only(node.records.commit() ? Status::ok : Status::full, count);
  }
  if (!is_valid_name(item.name, is_page(item))) return only(Status::invalid);
  const std::size_t dropped =
      is_page(item) ? node.store->drop_page(item.name) : node.store->drop_file(item.name);
  return only(dropped > 0 ? Status::ok : Status::miss, dropped);
}

bool SmallRequest::is_page_present(Node& node, const wire::Item& item) const {
  if (!is_valid_name(item.name, true)) return false;
  const PieceRef page = node.store->find_page(item.name, false);
  const bool is_found = page != nullptr && node.store->is_complete(*page);
  NamespaceTally& space = tally_->of(item.name, true);
  (is_found ? space.found : space.lacking).add();
  const std::uint64_t hash = page != nullptr ? page->name_hash() : node.store->hash_of(item.name);
  const std::uint64_t place = LiveCurves::place_of(hash);
  if (node.curves.follows(place)) [[unlikely]]
    node.curves.probed({space.number, place, node.has_quota(item.name, true)});
  return is_found;
}

bool SmallRequest::is_present(Node& node, const wire::Item& item) const {
  if (is_page(item)) return is_page_present(node, item);
  wire::MetaBody body;
  bool is_cut = false;
  return is_path(item) && node.lease.is_good(boottime_ms()) &&
         node.records.meta(item.name, 0, 0, 0, body, is_cut).status == Status::ok;
}

/// Of pages: whether there is a file says nothing of its bytes.
void SmallRequest::note_keys(KeyTrace::Batch& batch) const {
  for (std::size_t at = 0; at < present_.size(); ++at) {
    const wire::Item& item = body_.items[at];
    if (!is_page(item) || !is_valid_name(item.name, true)) continue;
    batch.add(item.name, true, 0, 0, 0,
              present_[at] ? KeyTrace::Outcome::hit : KeyTrace::Outcome::miss);
  }
}

/// One RESPONSE carries the segments of all items: the later ones get what room is left. False: it
/// waits.
bool SmallRequest::meta(Node& node, const wire::Item& item) {
  const std::size_t fixed_bytes = body_.items.size() * (RESPONSE_ITEM_BYTES + META_BODY_BYTES);
  const std::size_t segments_max = (TABLE_BYTES_MAX - fixed_bytes) / SEGMENT_BYTES - segments_;
  wire::MetaBody body;
  bool is_cut = false;
  wire::ResponseItem answer = only(Status::invalid);
  if (is_path(item)) {
    answer = from_record(
        node.records.meta(item.name, item.offset, item.length, segments_max, body, is_cut));
    if (answer.status == Status::retry && !told_) return false;
    if (answer.status == Status::retry) answer.status = take_look();
  }
  answer.item = static_cast<std::uint16_t>(next_item_);
  answer.tier = is_cut ? 1 : 0;
  segments_ += body.segments.size();
  answers_.push_back(answer);
  bodies_.push_back(std::move(body));
  return true;
}

/// A static list never changes.
void SmallRequest::drain(Node& node, wire::Bytes& out) {
  const bool can_leave = node.view()->map.provider != wire::Provider::fixed;
  if (can_leave) node.is_draining_wished.store(true);
  const wire::ResponseItem answer = only(can_leave ? Status::ok : Status::invalid);
  wire::encode_response(out, request_, std::span(&answer, 1));
}

void SmallRequest::why(Node& node, wire::Bytes& out) {
  const bool is_single = body_.items.size() == 1;
  if (!is_single || !is_valid_name(body_.items[0].name, is_page(body_.items[0])))
    return end(out, Status::invalid);
  const wire::Item& item = body_.items[0];
  wire::encode_text_response(out, request_, only(Status::ok),
                             why_text(node, item.name, is_page(item), asker_->rights));
}

void SmallRequest::list(Node& node, wire::Bytes& out) {
  if (body_.items.empty() || body_.items.size() > 2) return end(out, Status::invalid);
  const wire::Item& what = body_.items[0];
  std::string_view after;
  if (body_.items.size() == 2) after = body_.items[1].name;
  std::vector<wire::ListEntry> entries;
  bool is_more = false;
  if (is_page(what)) {
    const bool is_continued = !after.empty();
    const std::string start = page_name(what.name, {});
    if (!namespace_fault(what.name).empty()) return end(out, Status::invalid);
    if (is_continued && !after.starts_with(start)) return end(out, Status::invalid);
    if (is_continued) after.remove_prefix(start.size());
    entries = node.store->list_pages(what.name, after, LIST_ENTRIES_MAX, is_more);
  } else {
    entries = node.records.list(what.name, after, LIST_ENTRIES_MAX, is_more);
  }
  if (cut_to_table(entries)) is_more = true;
  wire::encode_list_response(out, request_, entries, is_more);
}

}  // namespace gd2fs::serve
