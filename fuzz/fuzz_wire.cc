// Every decoder of the wire, on arbitrary bytes: no decoder may read outside its table, crash, or
// take memory that the input does not pay for. What decodes must encode to the same bytes again
// where the form is canonical.
#include <algorithm>
#include <cstdlib>

#include "record_parts.h"
#include "wire.h"

namespace {

using namespace gd2fs::wire;

void require(bool is_true) {
  if (!is_true) std::abort();
}

void decode_responses(View table, std::uint16_t items) {
  for (int form = 0; form < 4; ++form) {
    TableReader reader(table);
    const auto heads = decode_response(reader, items);
    if (!heads || heads->empty()) return;
    if (form == 0) decode_meta_body(reader);
    if (form == 1) decode_exists_body(reader, heads->front().length);
    if (form == 2) decode_list_body(reader, heads->front().length);
    if (form == 3) decode_ping_body(reader);
  }
}

void requests_round_trip(View table, std::uint16_t items) {
  const auto request = decode_request(table, items);
  if (!request || item_bytes(request->head.op) == 0) return;
  std::size_t names_bytes = 0;
  for (const Item& item : request->items) names_bytes += item.name.size();
  const auto op = request->head.op;
  const std::size_t sinks_bytes = request->sinks.size() * SINK_BYTES;
  if (request_table_bytes(op, request->items.size(), names_bytes) + sinks_bytes >
      gd2fs::TABLE_BYTES_MAX)
    return;
  Bytes frame;
  encode_request(frame, 1, 0, *request);
  const auto header = decode_header(frame);
  require(header && check_matches(View(frame).first(gd2fs::HEADER_BYTES),
                                  View(frame).subspan(gd2fs::HEADER_BYTES)));
  require(decode_request(View(frame).subspan(gd2fs::HEADER_BYTES), header->items).has_value());
}

void data_round_trips(View table, std::uint16_t items, std::size_t payload_bytes) {
  const auto body = decode_data(table, items, payload_bytes);
  if (!body) return;
  Bytes frame;
  encode_data(frame, 1, 0, *body, 0);
  require(std::ranges::equal(View(frame).subspan(gd2fs::HEADER_BYTES), table));
}

void leases_round_trip(View table, std::uint16_t items) {
  constexpr std::uint64_t ARENA_BYTES = 1 << 30;
  decode_arena(table, items);
  decode_release(table);
  const auto lease = decode_lease(table, items, ARENA_BYTES);
  if (!lease) return;
  std::uint64_t pieces = 0, runs = 0;
  for (const DataPiece& piece : lease->data.pieces) pieces += piece.length;
  for (const LeaseRun& run : lease->runs) {
    require(run.at <= ARENA_BYTES && run.length <= ARENA_BYTES - run.at);
    runs += run.length;
  }
  require(pieces == runs);
  Bytes frame;
  encode_lease(frame, 1, *lease, 0);
  require(std::ranges::equal(View(frame).subspan(gd2fs::HEADER_BYTES), table));
}

void transfers_round_trip(View table, std::uint16_t items) {
  const auto after_header = [](const Bytes& frame) {
    return View(frame).subspan(gd2fs::HEADER_BYTES);
  };
  decode_peer(table);
  if (const auto key = decode_key(table)) require(key->at + key->length >= key->at);
  if (const auto placed = decode_placed(table, items)) {
    Bytes frame;
    encode_placed(frame, 1, *placed);
    require(std::ranges::equal(after_header(frame), table));
  }
  const auto source = decode_source(table, items);
  if (!source) return;
  std::uint64_t pieces = 0, sinks = 0;
  for (const DataPiece& piece : source->data.pieces) pieces += piece.length;
  for (const Sink& sink : source->sinks) sinks += sink.length;
  require(pieces == sinks);
  Bytes frame;
  encode_source(frame, 1, *source, 0);
  require(std::ranges::equal(after_header(frame), table));
}

void records_round_trip(View table) {
  gd2fs::FullRecord full;
  TableReader reader(table);
  gd2fs::decode_part(reader, full);
  const auto part = gd2fs::decode_attempt(table, nullptr);
  if (!part || !part->is_last) return;
  Bytes body;
  require(!gd2fs::encode_attempt(body, part->attempt, 0).has_value());
  require(gd2fs::decode_attempt(body, nullptr).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* at, std::size_t bytes) {
  const View input = std::as_bytes(std::span(at, bytes));
  const auto header = decode_header(input);
  if (!header) return 0;
  const View table =
      input.subspan(gd2fs::HEADER_BYTES)
          .first(std::min<std::size_t>(header->table_bytes, bytes - gd2fs::HEADER_BYTES));
  check_matches(input.first(gd2fs::HEADER_BYTES), table);
  decode_hello(table);
  decode_challenge(table);
  decode_proof(table);
  decode_welcome(table);
  decode_goodbye(table);
  decode_map(table);
  decode_grant(table, header->items);
  decode_responses(table, header->items);
  requests_round_trip(table, header->items);
  data_round_trips(table, header->items, header->payload_bytes());
  leases_round_trip(table, header->items);
  transfers_round_trip(table, header->items);
  records_round_trip(table);
  return 0;
}
