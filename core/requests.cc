#include "requests.h"

#include <chrono>

#include "answer.h"
#include "mover.h"
#include "name.h"
#include "planted.h"

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

RecordAnswer create(Node& node, const wire::Item& item) {
  const std::uint64_t chunk_bytes = item.length == 0 ? CHUNK_BYTES_DEFAULT : item.length;
  if (chunk_bytes < CHUNK_BYTES_MIN || chunk_bytes > CHUNK_BYTES_MAX ||
      chunk_bytes % BLOCK_BYTES != 0) {
    return {.status = Status::invalid};
  }
  return node.records.create(item.name, static_cast<std::uint32_t>(chunk_bytes), item.ttl_s,
                             (item.flags & wire::ITEM_IF_ABSENT) != 0);
}

RecordAnswer commit(Node& node, const wire::Item& item) {
  const bool is_replace = (item.flags & wire::ITEM_REPLACE) != 0;
  if (item.tag == 0) return {.status = Status::invalid};
  if (is_replace) {
    const std::uint64_t chunk_bytes = std::min<std::uint64_t>(item.if_size, CHUNK_BYTES_MAX + 1);
    return node.records.replace({.path = item.name,
                                 .tag = item.tag,
                                 .length = item.length,
                                 .chunk_bytes = static_cast<std::uint32_t>(chunk_bytes),
                                 .ttl_s = item.ttl_s});
  }
  if (item.length == 0) return {.status = Status::invalid};
  return node.records.commit({.path = item.name,
                              .gen = item.gen,
                              .seen_seq = item.seen_seq,
                              .tag = item.tag,
                              .offset = item.offset,
                              .length = item.length,
                              .if_size = item.if_size});
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
  if (body_.head.op != Op::drop) return body_.head.op == Op::list;
  for (const wire::Item& item : body_.items) {
    if (is_namespace(item)) return true;
  }
  return false;
}

bool SmallRequest::run(Node& node, wire::Bytes& out, bool is_patient) {
  const auto turn_ends = std::chrono::steady_clock::now() + TURN;
  const bool has_steps =
      body_.head.op != Op::list && body_.head.op != Op::ping && body_.head.op != Op::drain;
  for (std::size_t steps = 1; has_steps && next_item_ < body_.items.size(); ++steps) {
    const bool is_look = !is_patient && steps % LOOKUPS_MAX == 0;
    if (is_look && std::chrono::steady_clock::now() > turn_ends) return false;
    if (body_.head.op == Op::exists && next_item_ % LOOKUPS_MAX == 0) {
      node.warm(std::span(body_.items).subspan(next_item_));
    }
    step(node, body_.items[next_item_]);
    ++next_item_;
  }
  respond(node, out);
  return true;
}

void SmallRequest::end(wire::Bytes& out, Status status) const {
  answer_all(out, request_, body_.head.op, body_.items.size(), status);
}

void SmallRequest::step(Node& node, const wire::Item& item) {
  if (body_.head.op == Op::exists) {
    present_.push_back(is_present(node, item));
  } else if (body_.head.op == Op::meta) {
    meta(node, item);
  } else {
    answers_.push_back(answer(node, item));
    answers_.back().item = static_cast<std::uint16_t>(next_item_);
  }
}

void SmallRequest::respond(Node& node, wire::Bytes& out) {
  switch (body_.head.op) {
    case Op::exists: return wire::encode_exists_response(out, request_, present_);
    case Op::meta: return wire::encode_meta_response(out, request_, answers_, bodies_);
    case Op::list: return list(node, out);
    case Op::ping: return wire::encode_ping_response(out, request_, node.status());
    case Op::drain: return drain(node, out);
    default: return wire::encode_response(out, request_, answers_);
  }
}

wire::ResponseItem SmallRequest::answer(Node& node, const wire::Item& item) {
  if (body_.head.op == Op::drop) return drop(node, item);
  if (!is_path(item)) return only(Status::invalid);
  std::uint64_t seq = 0;
  switch (body_.head.op) {
    case Op::create: return from_record(create(node, item));
    case Op::commit: return from_record(commit(node, item));
    case Op::truncate: return from_record(node.records.truncate(item.name, item.gen, item.length));
    case Op::unlink: return unlink(node, item);
    case Op::publish: return publish(node, item);
    case Op::is_listed:
      return node.records.is_listed(item.name, item.chunk, item.tag, seq) ? only(Status::ok, 0, seq)
                                                                          : only(Status::miss);
    default: return only(Status::invalid);
  }
}

wire::ResponseItem SmallRequest::publish(Node& node, const wire::Item& item) {
  const Status status = node.store->publish(item.name, item.chunk, item.tag, item.offset);
  if (status != Status::ok && is_planted("acknowledge_before_publish")) return only(Status::ok);
  if (status != Status::ok) return only(status);
  const PieceRef piece = node.store->find_piece(item.name, item.chunk, item.tag, false);
  if (piece != nullptr) node.mover->note(*piece);
  return only(status);
}

wire::ResponseItem SmallRequest::unlink(Node& node, const wire::Item& item) {
  std::uint64_t chunks = 0;
  const RecordAnswer record = node.records.unlink(item.name, chunks);
  if (record.status == Status::ok) node.store->drop_file(item.name);
  return only(record.status, chunks);
}

wire::ResponseItem SmallRequest::drop(Node& node, const wire::Item& item) {
  if (is_namespace(item)) {
    if (!namespace_fault(item.name).empty()) return only(Status::invalid);
    return only(Status::ok, node.records.clear(item.name) + node.store->clear(item.name));
  }
  if (!is_valid_name(item.name, is_page(item))) return only(Status::invalid);
  const std::size_t dropped =
      is_page(item) ? node.store->drop_page(item.name) : node.store->drop_file(item.name);
  return only(dropped > 0 ? Status::ok : Status::miss, dropped);
}

bool SmallRequest::is_present(Node& node, const wire::Item& item) {
  if (is_page(item)) {
    return is_valid_name(item.name, true) && node.store->find_page(item.name, false) != nullptr;
  }
  wire::MetaBody body;
  bool is_cut = false;
  return is_path(item) && node.records.meta(item.name, 0, 0, 0, body, is_cut).status == Status::ok;
}

/// One RESPONSE carries the segments of all items: the later ones get what room is left.
void SmallRequest::meta(Node& node, const wire::Item& item) {
  const std::size_t fixed_bytes = body_.items.size() * (RESPONSE_ITEM_BYTES + META_BODY_BYTES);
  const std::size_t segments_max = (TABLE_BYTES_MAX - fixed_bytes) / SEGMENT_BYTES - segments_;
  wire::MetaBody body;
  bool is_cut = false;
  wire::ResponseItem answer = only(Status::invalid);
  if (is_path(item)) {
    answer = from_record(
        node.records.meta(item.name, item.offset, item.length, segments_max, body, is_cut));
  }
  answer.item = static_cast<std::uint16_t>(next_item_);
  answer.tier = is_cut ? 1 : 0;
  segments_ += body.segments.size();
  answers_.push_back(answer);
  bodies_.push_back(std::move(body));
}

/// A static list never changes.
void SmallRequest::drain(Node& node, wire::Bytes& out) {
  const bool can_leave = node.view()->map.provider != wire::Provider::fixed;
  if (can_leave) node.is_draining_wished.store(true);
  const wire::ResponseItem answer = only(can_leave ? Status::ok : Status::invalid);
  wire::encode_response(out, request_, std::span(&answer, 1));
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
