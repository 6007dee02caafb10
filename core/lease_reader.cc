#include "lease_reader.h"

#include <algorithm>

#include "copy.h"

namespace gd2fs {

LeaseReader::LeaseReader(Rpc& rpc, const wire::Lease& lease, std::span<const std::byte> arena,
                         bool is_verifying)
    : rpc_(rpc),
      lease_(lease),
      arena_(arena),
      is_summed_after_(!rpc.is_view() && !rpc.is_bulk()),
      is_verifying_(is_summed_after_ || (rpc.is_view() ? rpc.is_verifying_view : is_verifying)) {}

void LeaseReader::take() {
  if (!is_summed_after_) rpc_.is_to_confirm = true;
  for (const wire::DataPiece& piece : lease_.data.pieces) take_piece(piece);
  copy_fence();
}

void LeaseReader::take_piece(const wire::DataPiece& piece) {
  Body& body = rpc_.bodies[piece.item];
  body.take_tag(piece.tag);
  bytes_ += piece.length;
  if (!is_verifying_ && piece.hashes != 0) {  // at one go: nothing stops at blocks
    hash_ += piece.hashes;
    find_block(piece.length);
    return move_block(body, piece.item);
  }
  for (std::size_t done = 0; done < piece.length;) {
    const std::size_t bytes = std::min<std::size_t>(BLOCK_BYTES, piece.length - done);
    find_block(bytes);
    if (piece.hashes == 0) {
      rpc_.is_to_confirm = true;
      body.is_corrupt = body.is_corrupt || is_verifying_;
      move_block(body, piece.item);
    } else if (!take_block(body, piece.item, bytes, lease_.data.hashes[hash_++])) {
      body.is_corrupt = true;
      ++corrupt_blocks_;
    }
    done += bytes;
  }
}

/// Invariant: the runs of the lease are together as long as its pieces, and lie in the arena.
void LeaseReader::find_block(std::size_t bytes) {
  block_.clear();
  while (bytes > 0) {
    const wire::LeaseRun& run = lease_.runs[run_];
    const auto here =
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes, run.length - run_done_));
    block_.push_back({arena_.data() + run.at + run_done_, here});
    bytes -= here;
    run_done_ += here;
    if (run_done_ < run.length) continue;
    ++run_;
    run_done_ = 0;
  }
}

/// False: its sum is another.
bool LeaseReader::take_block(Body& body, std::size_t item, std::size_t bytes,
                             std::uint64_t promised) {
  BufferCursor arrived = body.cursor;
  const bool is_right = is_summed_after_ || checksum(block_) == promised;
  move_block(body, item);
  return is_right && (!is_summed_after_ || arrived.hash(bytes) == promised);
}

/// Into the caller's memory; of a view, where it is.
void LeaseReader::move_block(Body& body, std::size_t item) {
  if (!rpc_.is_view()) return copy_block(body);
  for (const ChecksumRun& source : block_) {
    const std::span part(static_cast<const std::byte*>(source.at), source.bytes);
    body.moved += part.size();
    auto* const last = rpc_.seen.empty() ? nullptr : &rpc_.seen.back();
    if (last != nullptr && last->item == item &&
        last->bytes.data() + last->bytes.size() == part.data()) {
      last->bytes = {last->bytes.data(), last->bytes.size() + part.size()};
    } else {
      rpc_.seen.push_back({item, part});
    }
  }
}

void LeaseReader::copy_block(Body& body) const {
  for (const ChecksumRun& source : block_) {
    std::span from(static_cast<const std::byte*>(source.at), source.bytes);
    body.moved += from.size();
    while (!from.empty()) {
      const Buffer to = body.cursor.next(from.size());
      copy_bytes(to.at, from.first(to.bytes));
      from = from.subspan(to.bytes);
    }
  }
}

}  // namespace gd2fs
