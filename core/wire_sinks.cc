// The frames of one-sided transfers: who is reached, by which keys, and what lies where.
#include "wire_pieces.h"

namespace gd2fs::wire {

void encode_peer(Bytes& out, View address) {
  FrameWriter frame(out, Kind::peer, 0);
  frame.bytes(address);
  frame.finish(0, 0, 0);
}

void encode_peer_answer(Bytes& out, std::string_view reason) {
  encode_peer(out, std::as_bytes(std::span(reason)));
}

std::optional<View> decode_peer(View table) {
  if (table.size() > PEER_BYTES_MAX) return {};
  return table;
}

void encode_key(Bytes& out, const Key& key) {
  FrameWriter frame(out, Kind::key, 0);
  frame.u32(key.number);
  frame.u32(0);
  frame.u64(key.at);
  frame.u64(key.length);
  frame.bytes(key.packed);
  frame.finish(0, 0, 0);
}

std::optional<Key> decode_key(View bytes) {
  TableReader table(bytes);
  Key key;
  key.number = table.u32();
  table.u32();
  key.at = table.u64();
  key.length = table.u64();
  if (!table.ok() || table.left() > KEY_PACKED_BYTES_MAX || key.at + key.length < key.at) return {};
  const View packed = table.bytes(table.left());
  key.packed.assign(packed.begin(), packed.end());
  return key;
}

void encode_placed(Bytes& out, std::uint64_t request, const DataTable& table) {
  FrameWriter frame(out, Kind::placed, request);
  write_pieces(frame, table);
  frame.finish(static_cast<std::uint16_t>(table.pieces.size()), 0, 0);
}

std::optional<DataTable> decode_placed(View bytes, std::uint16_t items) {
  TableReader table(bytes);
  DataTable out;
  if (items == 0 || !read_pieces(table, items, out) || table.left() != 0) return {};
  return out;
}

void encode_source(Bytes& out, std::uint64_t request, const Source& source,
                   std::uint64_t consumed) {
  FrameWriter frame(out, Kind::source, request);
  write_pieces(frame, source.data);
  write_sinks(frame, source.sinks);
  frame.finish(static_cast<std::uint16_t>(source.data.pieces.size()), 0, consumed);
}

std::optional<Source> decode_source(View bytes, std::uint16_t items) {
  TableReader table(bytes);
  Source source;
  if (items == 0) return {};
  const auto wanted = read_pieces(table, items, source.data);
  if (!wanted) return {};
  auto sinks = read_sinks(table, *wanted);
  if (!sinks) return {};
  source.sinks = std::move(*sinks);
  return source;
}

void write_sinks(FrameWriter& frame, std::span<const Sink> sinks) {
  Fields fields = frame.room(sinks.size() * SINK_BYTES);
  for (const Sink& sink : sinks) fields.put(sink.key).put(sink.length).put(sink.at);
}

std::optional<std::vector<Sink>> read_sinks(TableReader table, std::uint64_t bytes) {
  if (table.left() % SINK_BYTES != 0) return {};
  std::vector<Sink> sinks(table.left() / SINK_BYTES);
  for (Sink& sink : sinks) {
    sink.key = table.u32();
    sink.length = table.u32();
    sink.at = table.u64();
    if (sink.length == 0 || sink.length > bytes) return {};
    bytes -= sink.length;
  }
  if (bytes != 0) return {};
  return sinks;
}

}  // namespace gd2fs::wire
