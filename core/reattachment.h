// Reattachment: a kept arena whose process has ended becomes a store again.
//
//   slabs of records -> whole records -> whole pieces -> exactly their extents out of the allocator
//   -> the index
//
// Nothing is read of the bytes themselves: a piece is checked when it is first used. What cannot be
// taken over is struck, and its memory is free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "recorded_piece.h"

namespace gd2fs {

class Index;
class Spaces;
class Store;

/// What became of an arena when it was opened.
struct ArenaRecovery {
  bool is_kept = false;      // it outlives its process
  bool is_attached = false;  // what it held is here again
  std::string fault;         // why not
  std::uint64_t pages = 0, pieces = 0, bytes = 0;
  std::uint64_t expired = 0;  // pieces whose time was over
  std::uint64_t partial = 0;  // of which not all was recorded
  std::uint64_t unsound = 0;  // whose records contradict each other, or the rules
  double took_ms = 0;
};

class Reattachment {
 public:
  Reattachment(Store& store, std::span<std::byte> arena, Ledger& ledger, Allocator& allocator,
               Account& account, Spaces& spaces, Index& index)
      : store_(store),
        arena_(arena),
        ledger_(ledger),
        allocator_(allocator),
        account_(account),
        spaces_(spaces),
        index_(index) {}

  /// Of an arena that `before` wrote and `owner` may have. Nothing else uses it yet.
  void run(const ArenaOwner& before, const ArenaOwner& owner, ArenaRecovery& recovery);

 private:
  void read_records();
  void drop_unusable(const ArenaOwner& before, const ArenaOwner& owner, ArenaRecovery& recovery);
  void claim_extents(ArenaRecovery& recovery);
  void enter(RecordedPiece& recorded, ArenaRecovery& recovery);
  void forget(RecordedPiece& recorded);

  Store& store_;
  std::span<std::byte> arena_;
  Ledger& ledger_;
  Allocator& allocator_;
  Account& account_;
  Spaces& spaces_;
  Index& index_;
  std::vector<RecordedPiece> found_;
  std::size_t partial_ = 0;
};

}  // namespace gd2fs
