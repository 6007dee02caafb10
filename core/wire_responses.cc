#include "wire.h"

#include <cassert>

namespace gd2fs::wire {

namespace {

constexpr std::size_t RESPONSE_ITEM_BYTES = 32;
constexpr std::size_t SEGMENT_BYTES = 32;

}  // namespace

namespace {

void encode_items(FrameWriter& frame, std::span<const ResponseItem> items) {
  Fields fields = frame.room(items.size() * RESPONSE_ITEM_BYTES);
  for (const ResponseItem& item : items) {
    fields.put(item.item).put(item.status).put(item.tier).put(item.detail);
    fields.put(item.length).put(item.gen).put(item.seq);
  }
}

void encode_meta_body(FrameWriter& frame, const MetaBody& body) {
  frame.u64(body.size);
  frame.u32(static_cast<std::uint32_t>(body.segments.size()));
  frame.u32(body.ttl_s);
  frame.u32(body.replicas);
  frame.u32(0);
  Fields fields = frame.room(body.segments.size() * SEGMENT_BYTES);
  for (const Segment& each : body.segments) {
    fields.put(each.chunk).put(each.offset).put(each.length).put(each.tag).put(each.seq);
  }
}

}  // namespace

void encode_response(Bytes& out, std::uint64_t request, std::span<const ResponseItem> items,
                     std::uint8_t flags) {
  FrameWriter frame(out, Kind::response, request, flags);
  encode_items(frame, items);
  frame.finish(static_cast<std::uint16_t>(items.size()), 0, 0);
}

void encode_meta_response(Bytes& out, std::uint64_t request, std::span<const ResponseItem> items,
                          std::span<const MetaBody> bodies) {
  assert(items.size() == bodies.size());
  FrameWriter frame(out, Kind::response, request, LAST);
  encode_items(frame, items);
  for (const MetaBody& body : bodies) encode_meta_body(frame, body);
  frame.finish(static_cast<std::uint16_t>(items.size()), 0, 0);
}

void encode_exists_response(Bytes& out, std::uint64_t request, const std::vector<bool>& present) {
  FrameWriter frame(out, Kind::response, request, LAST);
  const ResponseItem head{.length = present.size()};
  encode_items(frame, std::span(&head, 1));
  for (std::size_t at = 0; at < present.size(); at += 8) {
    std::uint32_t byte = 0;
    for (std::size_t bit = 0; bit < 8 && at + bit < present.size(); ++bit)
      byte |= static_cast<std::uint32_t>(present[at + bit]) << bit;
    frame.u8(static_cast<std::uint8_t>(byte));
  }
  frame.finish(1, 0, 0);
}

void encode_list_response(Bytes& out, std::uint64_t request, std::span<const ListEntry> entries,
                          bool more) {
  FrameWriter frame(out, Kind::response, request, LAST);
  const ResponseItem head{.detail = more ? 1u : 0u, .length = entries.size()};
  encode_items(frame, std::span(&head, 1));
  for (const ListEntry& entry : entries) {
    frame.u64(entry.bytes);
    frame.u16(static_cast<std::uint16_t>(entry.name.size()));
    frame.text(entry.name);
  }
  frame.finish(1, 0, 0);
}

void encode_pull_response(Bytes& out, std::uint64_t request, const ResponseItem& item, View part) {
  FrameWriter frame(out, Kind::response, request, LAST);
  encode_items(frame, std::span(&item, 1));
  frame.bytes(part);
  frame.finish(1, 0, 0);
}

void encode_text_response(Bytes& out, std::uint64_t request, const ResponseItem& item,
                          std::string_view text) {
  FrameWriter frame(out, Kind::response, request, LAST);
  encode_items(frame, std::span(&item, 1));
  frame.text(text.substr(0, TABLE_BYTES_MAX - RESPONSE_ITEM_BYTES));
  frame.finish(1, 0, 0);
}

void encode_ping_response(Bytes& out, std::uint64_t request, const NodeStatus& status) {
  FrameWriter frame(out, Kind::response, request, LAST);
  const ResponseItem head;
  encode_items(frame, std::span(&head, 1));
  frame.u64(status.boot);
  frame.u64(status.epoch);
  frame.u64(status.arena_bytes);
  frame.u64(status.arena_free_bytes);
  frame.u8(static_cast<std::uint8_t>(status.state));
  frame.u8(static_cast<std::uint8_t>(status.rung.size()));
  frame.u16(static_cast<std::uint16_t>(status.name.size()));
  frame.u16(static_cast<std::uint16_t>(status.zero_copy.size()));
  frame.text(status.rung);
  frame.text(status.name);
  frame.text(status.zero_copy);
  frame.u8(status.is_sealed ? 1 : 0);
  frame.u64(status.moves_left);
  frame.u64(status.moves_left_bytes);
  frame.u64(status.records_left);
  frame.u64(status.disk_bytes);
  frame.u64(status.disk_live_bytes);
  frame.u64(status.cold_bytes);
  frame.u16(static_cast<std::uint16_t>(status.disk_fault.size()));
  frame.text(status.disk_fault);
  frame.finish(1, 0, 0);
}

std::optional<std::vector<ResponseItem>> decode_response(TableReader& table, std::uint16_t items) {
  if (table.left() < items * RESPONSE_ITEM_BYTES) return {};
  std::vector<ResponseItem> out(items);
  for (ResponseItem& item : out) {
    item.item = table.u16();
    item.status = static_cast<Status>(table.u8());
    item.tier = table.u8();
    item.detail = table.u32();
    item.length = table.u64();
    item.gen = table.u64();
    item.seq = table.u64();
  }
  return out;
}

std::optional<MetaBody> decode_meta_body(TableReader& table) {
  MetaBody body;
  body.size = table.u64();
  const std::uint32_t segments = table.u32();
  body.ttl_s = table.u32();
  body.replicas = table.u32();
  table.u32();
  if (!table.ok() || segments > table.left() / SEGMENT_BYTES) return {};
  body.segments.resize(segments);
  for (Segment& segment : body.segments) {
    segment.chunk = table.u64();
    segment.offset = table.u32();
    segment.length = table.u32();
    segment.tag = table.u64();
    segment.seq = table.u64();
  }
  return body;
}

std::optional<std::vector<bool>> decode_exists_body(TableReader& table, std::uint64_t count) {
  if (count > ITEMS_MAX) return {};
  const View bits = table.bytes(static_cast<std::size_t>((count + 7) / 8));
  if (!table.ok()) return {};
  std::vector<bool> present(static_cast<std::size_t>(count));
  for (std::size_t at = 0; at < present.size(); ++at)
    present[at] = (std::to_integer<unsigned>(bits[at / 8]) >> (at % 8) & 1u) != 0;
  return present;
}

std::optional<std::vector<ListEntry>> decode_list_body(TableReader& table, std::uint64_t count) {
  if (count > TABLE_BYTES_MAX) return {};
  std::vector<ListEntry> entries;
  for (std::uint64_t index = 0; index < count; ++index) {
    ListEntry entry;
    entry.bytes = table.u64();
    entry.name = table.text(table.u16());
    if (!table.ok()) return {};
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::optional<NodeStatus> decode_ping_body(TableReader& table) {
  NodeStatus status;
  status.boot = table.u64();
  status.epoch = table.u64();
  status.arena_bytes = table.u64();
  status.arena_free_bytes = table.u64();
  status.state = static_cast<NodeState>(table.u8());
  const std::uint8_t rung_bytes = table.u8();
  const std::uint16_t name_bytes = table.u16();
  const std::uint16_t zero_copy_bytes = table.u16();
  status.rung = table.text(rung_bytes);
  status.name = table.text(name_bytes);
  status.zero_copy = table.text(zero_copy_bytes);
  status.is_sealed = table.u8() != 0;
  status.moves_left = table.u64();
  status.moves_left_bytes = table.u64();
  status.records_left = table.u64();
  if (!table.ok()) return {};
  if (table.left() == 0) return status;  // of before there was a disk
  status.disk_bytes = table.u64();
  status.disk_live_bytes = table.u64();
  status.cold_bytes = table.u64();
  status.disk_fault = table.text(table.u16());
  if (!table.ok()) return {};
  return status;
}

}  // namespace gd2fs::wire
