// Lease reader: takes the bytes of a LEASE frame out of the mapped arena, into the caller's memory.
//
// Many bytes are summed block by block where they lie in the arena, then copied past the caches. So
// a sum alone does not prove what arrived: the node has to confirm afterwards that the bytes were
// in place all along. Few bytes are copied first and summed where they arrived, which proves it and
// takes less time than the question, also where nobody asked for sums.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checksum.h"
#include "rpc.h"

namespace gd2fs {

class LeaseReader {
 public:
  /// `lease` fits into `arena` (wire::decode_lease) and goes on in `rpc` (Rpc::is_next).
  LeaseReader(Rpc& rpc, const wire::Lease& lease, std::span<const std::byte> arena,
              bool is_verifying);

  /// Copies; of a view, notes where the bytes lie, and sums them there when its caller wants that.
  void take();
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t corrupt_blocks() const noexcept { return corrupt_blocks_; }

 private:
  void take_piece(const wire::DataPiece& piece);
  void find_block(std::size_t bytes);
  bool take_block(Body& body, std::size_t item, std::size_t bytes, std::uint64_t promised);
  void move_block(Body& body, std::size_t item);
  void copy_block(Body& body) const;

  Rpc& rpc_;
  const wire::Lease& lease_;
  const std::span<const std::byte> arena_;
  const bool is_summed_after_;
  const bool is_verifying_;
  std::size_t run_ = 0;             // of the lease's: where the next block begins
  std::uint64_t run_done_ = 0;      // of that run
  std::vector<ChecksumRun> block_;  // where the present block lies
  std::size_t hash_ = 0;            // of the lease's: the next one
  std::uint64_t bytes_ = 0;
  std::uint64_t corrupt_blocks_ = 0;
};

}  // namespace gd2fs
