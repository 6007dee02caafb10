#include "rpc.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

namespace gd2fs {

namespace {

constexpr std::uint64_t SMALL_BYTES_MAX = 64 * KiB;  // goes before bulk
constexpr std::uint16_t UNANSWERED = 0xffff;         // an item number that no answer has

bool has_single_answer(wire::Op op) {
  return op == wire::Op::exists || op == wire::Op::list || op == wire::Op::ping ||
         op == wire::Op::drain || op == wire::Op::why || op == wire::Op::configure;
}

}  // namespace

Rpc::Rpc(wire::Op op, std::shared_ptr<OperationState> for_operation, std::int64_t deadline)
    : deadline_ms(deadline), operation(std::move(for_operation)) {
  request.head.op = op;
}

void Rpc::reserve(std::size_t items) {
  request.items.reserve(items);
  const bool has_bodies = op() == wire::Op::get || is_upload();
  if (!has_bodies) return;
  memory.reserve(items);
  bodies.reserve(items);
}

void Rpc::add(wire::Item item, BufferCursor& memory_at, std::uint64_t bytes) {
  Body body;
  body.first = memory.size();
  body.bytes = bytes;
  body.is_summed = (item.flags & wire::ITEM_NO_VERIFY) == 0;
  memory_at.split(static_cast<std::size_t>(bytes), memory);
  bodies.push_back(body);
  request.items.push_back(std::move(item));
}

void Rpc::add_stored(wire::Item item, std::span<const std::span<std::byte>> runs,
                     std::span<const std::uint64_t> sums) {
  Body body;
  body.first = memory.size();
  body.bytes = item.length;
  body.sums = sums;
  for (const auto& run : runs) memory.push_back({run.data(), run.size()});
  bodies.push_back(body);
  request.items.push_back(std::move(item));
}

void Rpc::add_view(wire::Item item, bool is_verifying) {
  is_verifying_view = is_verifying;
  Body body;
  body.bytes = item.length;
  bodies.push_back(body);
  request.items.push_back(std::move(item));
}

bool Rpc::is_view() const noexcept {
  return !request.items.empty() && (request.items.front().flags & wire::ITEM_VIEW) != 0;
}

std::uint64_t Rpc::body_bytes() const noexcept {
  std::uint64_t total = 0;
  for (const Body& body : bodies) total += body.bytes;
  return total;
}

bool Rpc::is_bulk() const noexcept { return !is_view() && body_bytes() > SMALL_BYTES_MAX; }

bool Rpc::is_idempotent() const noexcept {
  switch (op()) {
    case wire::Op::commit:
    case wire::Op::create:
    case wire::Op::truncate:
    case wire::Op::unlink: return false;
    default: return true;
  }
}

void Rpc::rewind() {
  is_to_confirm = is_view();  // a view is the node's until it is confirmed
  seen.clear();
  leases.clear();
  arena = nullptr;
  registrations.clear();
  request.sinks.clear();
  lacks_transfers = false;
  placed.clear();
  for (std::size_t at = 0; at < bodies.size(); ++at) {
    Body& body = bodies[at];
    body.moved = 0;
    body.tag = is_upload() ? request.items[at].tag : 0;
    body.is_corrupt = false;
    body.cursor = BufferCursor(std::span<const Buffer>(memory).subspan(body.first));
  }
  const std::size_t count = has_single_answer(op()) ? 1 : request.items.size();
  answers.assign(count, wire::ResponseItem{.item = UNANSWERED});
  metas.assign(op() == wire::Op::meta ? count : 0, {});
  present.clear();
  entries.clear();
}

bool Rpc::is_next(const wire::DataTable& table) const {
  if (is_upload()) return false;
  const wire::DataPiece* before = nullptr;
  for (const wire::DataPiece& piece : table.pieces) {
    if (piece.item >= bodies.size()) return false;
    if (before != nullptr && piece.item < before->item) return false;
    const Body& body = bodies[piece.item];
    const bool is_same = before != nullptr && before->item == piece.item;
    const std::uint64_t at = is_same ? before->offset + before->length : body.moved;
    if (piece.offset != at || piece.length > body.bytes - at) return false;
    before = &piece;
  }
  return true;
}

void Rpc::name(Buffer part, std::vector<wire::Sink>& out) const {
  constexpr std::size_t SINK_LENGTH_MAX = std::numeric_limits<std::uint32_t>::max();
  const auto found =
      std::find_if(registrations.begin(), registrations.end(), [&](const auto& each) {
        return each->memory().covers({part.at, part.bytes});
      });
  assert(found != registrations.end());
  while (part.bytes > 0) {
    const std::size_t here = std::min(part.bytes, SINK_LENGTH_MAX);
    const auto at = reinterpret_cast<std::uintptr_t>(part.at);  // for the node, as a number
    out.push_back({(*found)->number(), static_cast<std::uint32_t>(here), at});
    part = {part.at + here, part.bytes - here};
  }
}

std::size_t Rpc::take_placed(const wire::DataTable& table, bool is_verifying) {
  std::size_t corrupt_blocks = 0;
  std::size_t hash = 0;
  if (is_direct) is_verifying = false;
  if (keeps_placed) placed.push_back(table);
  for (const wire::DataPiece& piece : table.pieces) {
    Body& body_of = bodies[piece.item];
    body_of.take_tag(piece.tag);
    body_of.moved += piece.length;
    if (piece.hashes == 0) body_of.is_corrupt = body_of.is_corrupt || is_verifying;
    if (!is_verifying || piece.hashes == 0) {
      body_of.cursor.skip(piece.length);
      hash += piece.hashes;
      continue;
    }
    for (std::size_t left = piece.length; left > 0;) {
      const std::size_t block = std::min<std::size_t>(left, BLOCK_BYTES);
      left -= block;
      if (body_of.cursor.hash(block) == table.hashes[hash++]) continue;
      body_of.is_corrupt = true;
      ++corrupt_blocks;
    }
  }
  return corrupt_blocks;
}

bool Rpc::absorb(const wire::Header& header, wire::View bytes) {
  wire::TableReader table(bytes);
  const auto items = wire::decode_response(table, header.items);
  if (!items) return false;
  for (const wire::ResponseItem& item : *items) {
    if (item.item >= answers.size()) return false;
    answers[item.item] = item;
  }
  if (op() == wire::Op::meta) {
    for (const wire::ResponseItem& item : *items) {
      if (table.left() == 0) return true;  // refused as a whole: no bodies
      auto meta = wire::decode_meta_body(table);
      if (!meta) return false;
      metas[item.item] = std::move(*meta);
    }
  }
  return items->empty() || absorb_extras(items->front(), table);
}

bool Rpc::absorb_grants(std::span<const wire::Grant> grants) {
  for (const wire::Grant& grant : grants) {
    if (grant.item >= answers.size()) return false;
    answers[grant.item] = {.item = grant.item, .status = grant.status, .detail = grant.retry_ms};
  }
  return true;
}

bool Rpc::absorb_extras(const wire::ResponseItem& head, wire::TableReader& table) {
  if (head.status != Status::ok) return true;
  if (op() == wire::Op::pull || op() == wire::Op::why || op() == wire::Op::configure) {
    const wire::View rest = table.bytes(table.left());
    body.assign(rest.begin(), rest.end());
  } else if (op() == wire::Op::exists) {
    auto bits = wire::decode_exists_body(table, head.length);
    if (!bits || bits->size() != request.items.size()) return false;
    present = std::move(*bits);
  } else if (op() == wire::Op::list) {
    auto list = wire::decode_list_body(table, head.length);
    if (!list) return false;
    entries = std::move(*list);
  } else if (op() == wire::Op::ping) {
    auto status_now = wire::decode_ping_body(table);
    if (!status_now) return false;
    node = std::move(*status_now);
  }
  return true;
}

bool Rpc::has_corrupt() const noexcept {
  return std::any_of(bodies.begin(), bodies.end(),
                     [](const Body& body) { return body.is_corrupt; });
}

void Rpc::settle() {
  Status rest = Status::unavailable;  // of items that nobody spoke about
  for (const wire::ResponseItem& answer : answers)
    if (answer.item != UNANSWERED && answer.status != Status::ok) rest = answer.status;
  for (wire::ResponseItem& answer : answers)
    if (answer.item == UNANSWERED) answer = {.item = 0, .status = rest};
  if (is_upload() || bodies.empty()) return;
  for (std::size_t at = 0; at < bodies.size(); ++at) {
    wire::ResponseItem& answer = answers[at];
    if (answer.status != Status::ok) continue;
    const wire::Item& item = request.items[at];
    std::uint64_t expected = bodies[at].bytes;
    if (op() == wire::Op::get)
      expected = answer.length <= item.offset ? 0 : std::min(expected, answer.length - item.offset);
    // A promise that was not kept is as bad as a wrong sum: these bytes do not count.
    if (bodies[at].is_corrupt || bodies[at].moved != expected) answer.status = Status::corrupt;
  }
}

void Rpc::set_tags(std::string_view tags) {
  const auto bytes = std::as_bytes(std::span(tags));
  request.body.assign(bytes.begin(), bytes.end());
}

void Rpc::enter(Pace& of_link, std::int64_t now) {
  if (pace != nullptr) return;  // again, after it was lost with a stream
  pace = &of_link;
  pace_bytes = body_bytes();
  submitted_us = now;
  pace->begin(pace_bytes);
}

std::function<void()> Rpc::take_late(std::int64_t now) {
  if (now < late_ms) return {};
  late_ms = NEVER_MS;
  was_late = true;
  return std::exchange(late, nullptr);
}

void Rpc::finish(Status with) {
  assert(done != nullptr);
  status = with;
  if (pace != nullptr) {
    pace->end(pace_bytes);
    const bool is_read = op() == wire::Op::get || op() == wire::Op::read;
    // One that was let go because it was late would have taken longer still.
    const bool is_told = with == Status::ok || (with == Status::cancelled && was_late);
    if (is_read && is_told) pace->answered(pace_bytes, now_us() - submitted_us);
    pace = nullptr;
  }
  late = nullptr;
  registrations.clear();
  // The callback holds the call, the call holds this: taken out, so that neither keeps the other.
  const std::function<void()> callback = std::move(done);
  done = nullptr;
  callback();
}

Status Rpc::item_status(std::size_t item) const noexcept {
  return status == Status::ok ? answers[item].status : status;
}

}  // namespace gd2fs
