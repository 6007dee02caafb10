#include "inbound.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "transport/unix.h"

namespace gd2fs {

namespace {

constexpr std::size_t READ_AHEAD_BYTES = 8 * KiB;  // a header and its table, with one call
constexpr std::size_t STAGING_BYTES = 64 * KiB;    // at first; grows to the largest table seen
constexpr std::size_t RECEIVE_BYTES = 256 * KiB;   // received, then summed while in the cache
constexpr std::size_t STEPS_MAX = 4096;            // then other streams have their turn
constexpr std::size_t RUNS_MAX = 256;              // of one receive

Inbound::Progress progress_of(ssize_t received) {
  if (received > 0) return Inbound::Progress::more;
  if (received == 0) return Inbound::Progress::closed;
  if (errno == EINTR) return Inbound::Progress::more;
  return errno == EAGAIN || errno == EWOULDBLOCK ? Inbound::Progress::drained
                                                 : Inbound::Progress::closed;
}

}  // namespace

Inbound::Inbound(Receiver& receiver, bool is_verifying)
    : receiver_(receiver), is_verifying_(is_verifying), staging_(STAGING_BYTES) {
  runs_.reserve(RUNS_MAX + 1);
}

Inbound::Progress Inbound::receive(Channel& channel, std::size_t bytes_max) {
  const std::uint64_t until = consumed_ + bytes_max;
  for (std::size_t steps = 0; steps < STEPS_MAX && consumed_ < until; ++steps) {
    const Progress progress = step(channel);
    if (progress != Progress::more) return progress;
  }
  return Progress::more;
}

Inbound::Progress Inbound::step(Channel& channel) {
  switch (part_) {
    case Part::header: return take_header(channel);
    case Part::table: return take_table(channel);
    case Part::payload: return take_payload(channel);
  }
  return Progress::broken;
}

/// Until `bytes` bytes are staged. `more`: they are.
Inbound::Progress Inbound::stage(Channel& channel, std::size_t bytes) {
  if (begin_ + bytes + READ_AHEAD_BYTES > staging_.size()) {
    std::memmove(staging_.data(), staging_.data() + begin_, end_ - begin_);  // within staging_
    end_ -= begin_;
    begin_ = 0;
    // At most HEADER_BYTES + TABLE_BYTES_MAX + READ_AHEAD_BYTES: the header was checked before.
    staging_.resize(std::max(staging_.size(), bytes + READ_AHEAD_BYTES));
  }
  while (end_ - begin_ < bytes) {
    const std::size_t room = begin_ + bytes + READ_AHEAD_BYTES - end_;
    const ssize_t received = receive_staged(channel, room);
    if (received > 0) end_ += static_cast<std::size_t>(received);
    if (const Progress progress = progress_of(received); progress != Progress::more)
      return progress;
  }
  return Progress::more;
}

ssize_t Inbound::receive_staged(Channel& channel, std::size_t room) {
  std::byte* const into = staging_.data() + end_;
  if (is_expecting_descriptor_) return local::receive_with(channel.fd(), into, room, descriptor_);
  return channel.receive(into, room);
}

void Inbound::count_leased(std::uint64_t bytes, std::uint64_t corrupt_blocks) noexcept {
  consumed_ += bytes;
  corrupt_blocks_ += corrupt_blocks;
  reference_end_ = consumed_;
}

Inbound::Progress Inbound::take_header(Channel& channel) {
  if (const Progress progress = stage(channel, HEADER_BYTES); progress != Progress::more)
    return progress;
  const auto header = wire::decode_header(staged().first(HEADER_BYTES));
  if (!header) return Progress::broken;
  header_ = *header;
  part_ = Part::table;
  return Progress::more;
}

Inbound::Progress Inbound::take_table(Channel& channel) {
  const std::size_t bytes = HEADER_BYTES + header_.table_bytes;
  if (const Progress progress = stage(channel, bytes); progress != Progress::more) return progress;
  const wire::View head = staged().first(HEADER_BYTES);
  const wire::View table = staged().subspan(HEADER_BYTES, header_.table_bytes);
  if (!wire::check_matches(head, table)) return Progress::broken;
  begin_ += bytes;
  part_ = Part::header;
  if (header_.kind != wire::Kind::data)
    return receiver_.take_frame(header_, table) ? Progress::more : Progress::broken;
  const std::size_t payload_bytes = header_.payload_bytes();
  const bool is_whole = wire::decode_data(table, header_.items, payload_bytes, pieces_);
  return is_whole ? begin_payload() : Progress::broken;
}

Inbound::Progress Inbound::begin_payload() {
  const bool is_by_reference = (header_.flags & wire::SPLICED) != 0;
  if (is_by_reference) reference_end_ = consumed_ + header_.payload_bytes();
  const std::optional<Rpc*> rpc = receiver_.receiver_of(header_.request);
  if (!rpc || (*rpc != nullptr && !(*rpc)->is_next(pieces_))) return Progress::broken;
  if (*rpc != nullptr && (*rpc)->is_direct) return Progress::broken;  // into memory of a GPU
  payload_left_ = header_.payload_bytes();
  if (payload_left_ == 0) return Progress::more;
  piece_ = 0;
  hash_ = 0;
  if (*rpc != nullptr) {
    begin_piece(**rpc);
    if (is_by_reference && !is_verifying_) (*rpc)->is_to_confirm = true;
  }
  part_ = Part::payload;
  return Progress::more;
}

void Inbound::begin_piece(const Rpc& rpc) {
  piece_done_ = 0;
  piece_hashed_ = 0;
  unhashed_ = rpc.bodies[pieces_.pieces[piece_].item].cursor;
}

Inbound::Progress Inbound::take_payload(Channel& channel) {
  const std::optional<Rpc*> rpc = receiver_.receiver_of(header_.request);
  if (!rpc) return Progress::broken;
  if (*rpc == nullptr) return discard(channel);
  const bool is_to_the_end = plan(**rpc);
  if (begin_ != end_) {
    advance(**rpc, take_staged());
    return Progress::more;
  }
  begin_ = end_ = 0;
  if (is_to_the_end) runs_.push_back({staging_.data(), READ_AHEAD_BYTES});
  const ssize_t received = channel.receive(runs_);
  if (received <= 0) return progress_of(received);
  const std::size_t bytes = std::min(static_cast<std::size_t>(received), runs_bytes_);
  end_ = static_cast<std::size_t>(received) - bytes;
  advance(**rpc, bytes);
  return Progress::more;
}

/// Fills `runs_` with the memory of the next bytes. True: they reach the end of the frame.
bool Inbound::plan(const Rpc& rpc) {
  runs_.clear();
  runs_bytes_ = 0;
  std::size_t done = piece_done_;
  BufferCursor cursor;
  const wire::DataPiece* before = nullptr;
  for (std::size_t at = piece_; at < pieces_.pieces.size(); ++at, done = 0) {
    const wire::DataPiece& piece = pieces_.pieces[at];
    if (before == nullptr || before->item != piece.item) cursor = rpc.bodies[piece.item].cursor;
    before = &piece;
    while (done < piece.length) {
      if (runs_.size() == RUNS_MAX || runs_bytes_ == RECEIVE_BYTES) return false;
      const Buffer run = cursor.next(std::min(piece.length - done, RECEIVE_BYTES - runs_bytes_));
      assert(run.bytes != 0);
      runs_.push_back({run.at, run.bytes});
      runs_bytes_ += run.bytes;
      done += run.bytes;
    }
  }
  return true;
}

/// Copies what was read ahead into `runs_`. How much it was.
std::size_t Inbound::take_staged() {
  std::size_t taken = 0;
  for (const iovec& run : runs_) {
    const std::size_t bytes = std::min(run.iov_len, end_ - begin_);
    std::memcpy(run.iov_base, staging_.data() + begin_, bytes);  // within run and staging_
    begin_ += bytes;
    taken += bytes;
  }
  return taken;
}

Inbound::Progress Inbound::discard(Channel& channel) {
  std::size_t bytes = std::min(end_ - begin_, payload_left_);
  begin_ += bytes;
  if (bytes == 0) {
    const std::size_t bytes_max = std::min(payload_left_, staging_.size());
    const ssize_t received = channel.discard(std::span(staging_).first(bytes_max));
    if (received <= 0) return progress_of(received);
    bytes = static_cast<std::size_t>(received);
  }
  payload_left_ -= bytes;
  consumed_ += bytes;
  if (payload_left_ == 0) part_ = Part::header;
  return Progress::more;
}

void Inbound::advance(Rpc& rpc, std::size_t bytes) {
  payload_left_ -= bytes;
  consumed_ += bytes;
  while (bytes != 0) {
    const wire::DataPiece& piece = pieces_.pieces[piece_];
    Body& body = rpc.bodies[piece.item];
    const std::size_t here = std::min<std::size_t>(bytes, piece.length - piece_done_);
    body.cursor.skip(here);
    body.moved += here;
    piece_done_ += here;
    bytes -= here;
    verify_ready_blocks(rpc);
    if (piece_done_ == piece.length && ++piece_ < pieces_.pieces.size()) begin_piece(rpc);
  }
  if (payload_left_ == 0) part_ = Part::header;
}

void Inbound::verify_ready_blocks(Rpc& rpc) {
  const wire::DataPiece& piece = pieces_.pieces[piece_];
  Body& body = rpc.bodies[piece.item];
  body.take_tag(piece.tag);
  if (piece.hashes == 0) {
    body.is_corrupt = body.is_corrupt || is_verifying_;
    return;
  }
  while (piece_hashed_ < piece.length) {
    const std::size_t block = std::min<std::size_t>(BLOCK_BYTES, piece.length - piece_hashed_);
    if (piece_done_ < piece_hashed_ + block) return;
    const std::uint64_t promised = pieces_.hashes[hash_++];
    piece_hashed_ += block;
    if (!is_verifying_) continue;
    if (unhashed_.hash(block) == promised) continue;
    body.is_corrupt = true;
    ++corrupt_blocks_;
  }
}

}  // namespace gd2fs
