#include <algorithm>
#include <cassert>
#include <limits>

#include "wire_pieces.h"

namespace gd2fs::wire {

namespace {

constexpr std::size_t REQUEST_HEAD_BYTES = 32;

bool has_sinks(Op op) { return op == Op::get || op == Op::read; }

/// What sinks have to be as long as; no sum wraps.
std::uint64_t wanted_bytes(std::span<const Item> items) {
  constexpr std::uint64_t MOST = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t sum = 0;
  for (const Item& item : items) sum += std::min(item.length, MOST - sum);
  return sum;
}

}  // namespace

Name::Name(std::string_view text) : own_(std::make_unique<char[]>(text.size())) {
  std::copy(text.begin(), text.end(), own_.get());
  text_ = {own_.get(), text.size()};
}

Name::Name(const Name& other) : text_(other.text_) {
  if (other.own_ != nullptr) *this = Name(other.text_);
}

Name Name::borrowed(std::string_view text) noexcept {
  Name name;
  name.text_ = text;
  return name;
}

std::size_t item_bytes(Op op) noexcept {
  switch (op) {
    case Op::exists:
    case Op::drop:
    case Op::list:
    case Op::unlink:
    case Op::ping:
    case Op::drain:
    case Op::why:
    case Op::configure:
    case Op::replicate: return 8;
    case Op::get:
    case Op::read:
    case Op::offer:
    case Op::meta:
    case Op::create:
    case Op::publish:
    case Op::forget:
    case Op::advise:
    case Op::sync:
    case Op::is_listed:
    case Op::pull:
    case Op::epoch: return 48;
    case Op::commit:
    case Op::truncate: return 64;
    default: return 0;
  }
}

std::size_t request_table_bytes(Op op, std::size_t items, std::size_t names_bytes) noexcept {
  return REQUEST_HEAD_BYTES + items * item_bytes(op) + names_bytes;
}

namespace {

void encode_item(Fields& fields, const Item& item, std::size_t width, std::uint32_t name_at) {
  fields.put(name_at).put(static_cast<std::uint16_t>(item.name.size())).put(item.flags);
  if (width == 48) {
    fields.put(item.chunk).put(item.offset).put(item.length).put(item.tag);
    fields.put(item.sink).put(item.ttl_s);
  } else if (width == 64) {
    fields.put(item.gen).put(item.seen_seq).put(item.tag).put(item.offset).put(item.length);
    fields.put(item.if_size).put(std::uint64_t{item.ttl_s});
  }
}

/// Reads the fixed part; the name is a part of `names`. False when it lies outside.
bool decode_item(TableReader& table, std::size_t width, std::string_view names, Item& item) {
  const std::uint32_t name_at = table.u32();
  const std::uint16_t name_bytes = table.u16();
  item.flags = table.u16();
  if (width == 48) {
    for (std::uint64_t* value : {&item.chunk, &item.offset, &item.length, &item.tag})
      *value = table.u64();
    item.sink = table.u32();
    item.ttl_s = table.u32();
  } else if (width == 64) {
    for (std::uint64_t* value :
         {&item.gen, &item.seen_seq, &item.tag, &item.offset, &item.length, &item.if_size})
      *value = table.u64();
    item.ttl_s = static_cast<std::uint32_t>(table.u64());
  }
  if (!table.ok() || name_bytes > NAME_BYTES_MAX || name_at > names.size() ||
      name_bytes > names.size() - name_at)
    return false;
  item.name = Name::borrowed(names.substr(name_at, name_bytes));
  return true;
}

}  // namespace

void encode_request(Bytes& out, std::uint64_t request, std::uint8_t flags, const Request& body) {
  std::size_t names_bytes = 0;
  for (const Item& item : body.items) names_bytes += item.name.size();
  const std::size_t width = item_bytes(body.head.op);
  assert(body.items.size() <= ITEMS_MAX);
  const std::size_t extra_bytes = body.body.size() + body.sinks.size() * SINK_BYTES;
  assert(request_table_bytes(body.head.op, body.items.size(), names_bytes) + extra_bytes <=
         TABLE_BYTES_MAX);
  assert(body.body.empty() || body.head.op == Op::replicate ||
         (body.head.op == Op::offer && body.body.size() <= TAGS_BYTES_MAX));
  assert(body.sinks.empty() || has_sinks(body.head.op));

  FrameWriter frame(out, Kind::request, request, flags);
  frame.u8(static_cast<std::uint8_t>(body.head.op));
  frame.u8(body.head.priority);
  frame.u16(static_cast<std::uint16_t>(width));
  frame.u32(body.head.deadline_ms);
  frame.u64(body.head.map_epoch);
  frame.u32(static_cast<std::uint32_t>(names_bytes));
  frame.u32(static_cast<std::uint32_t>(extra_bytes));
  frame.u64(body.head.trace);
  std::uint32_t name_at = 0;
  Fields fields = frame.room(body.items.size() * width);
  for (const Item& item : body.items) {
    encode_item(fields, item, width, name_at);
    name_at += static_cast<std::uint32_t>(item.name.size());
  }
  for (const Item& item : body.items) frame.text(item.name);
  frame.bytes(body.body);
  write_sinks(frame, body.sinks);
  frame.finish(static_cast<std::uint16_t>(body.items.size()), 0, 0);
}

std::optional<Request> decode_request(View bytes, std::uint16_t items) {
  TableReader table(bytes);
  Request out;
  out.head.op = static_cast<Op>(table.u8());
  out.head.priority = table.u8();
  const std::size_t width = table.u16();
  out.head.deadline_ms = table.u32();
  out.head.map_epoch = table.u64();
  const std::uint32_t names_bytes = table.u32();
  const std::uint32_t extra_bytes = table.u32();
  out.head.trace = table.u64();
  if (!table.ok()) return {};
  if (item_bytes(out.head.op) == 0) return out;
  const bool has_body = out.head.op == Op::replicate ||
                        (out.head.op == Op::offer && extra_bytes <= TAGS_BYTES_MAX) ||
                        has_sinks(out.head.op);
  if (width != item_bytes(out.head.op) || (extra_bytes != 0 && !has_body) || items > ITEMS_MAX ||
      table.left() != items * width + names_bytes + std::size_t{extra_bytes})
    return {};
  const View extra = bytes.last(extra_bytes);
  const View text = bytes.first(bytes.size() - extra_bytes).last(names_bytes);
  auto names = std::make_unique<char[]>(text.size());
  std::transform(text.begin(), text.end(), names.get(),
                 [](std::byte each) { return static_cast<char>(each); });
  const std::string_view all(names.get(), text.size());
  out.names = std::move(names);
  out.items.resize(items);
  for (Item& item : out.items)
    if (!decode_item(table, width, all, item)) return {};
  if (!has_sinks(out.head.op)) {
    out.body.assign(extra.begin(), extra.end());
  } else if (extra_bytes != 0) {
    auto sinks = read_sinks(TableReader(extra), wanted_bytes(out.items));
    if (!sinks) return {};
    out.sinks = std::move(*sinks);
  }
  return out;
}

}  // namespace gd2fs::wire
