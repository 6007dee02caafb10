// Index, of the tier below: pieces that are on disk, and pieces that are yet to get there.
//
// Under a shard's lock the index may change a piece that nobody else refers to: so eviction takes
// the memory out of one that is on disk, and leaves it where it is, cold.
#include <algorithm>
#include <utility>

#include "assertion.h"
#include "index.h"
#include "index_shard.h"
#include "store.h"

namespace gd2fs {
namespace {

constexpr std::size_t COLD_LOOKED_MAX = 64;  // for one that is to leave the disk

std::uint64_t end_of(const Extent& extent) { return std::uint64_t{extent.place} + extent.bytes; }

}  // namespace

PieceRef Index::add_cold(const PieceRef& piece, const DiskCopyRef& copy,
                         std::vector<DiskCopyRef>& losers) {
  GD2FS_ASSERT(piece->state() == PieceState::filling && piece->taken_bytes_ == 0);
  piece->name_hash_ = hash_of(piece->name_);
  Shard& shard = shard_of(piece->name_hash_);
  PieceRef replaced;  // let go after the lock
  const std::lock_guard lock(shard.mutex);
  piece->is_promised_ = true;
  if (Piece* const other = same_as(shard, *piece)) {
    if (other->is_whole_) {
      const bool is_same = other->tag_ == piece->tag_ && other->hashes_ == piece->hashes_ &&
                           other->length_ == piece->length_;
      if (!is_same || other->copy_ != nullptr) {
        losers.push_back(copy);
        return nullptr;
      }
      make_clean(shard, *other);
      set_copy(*other, copy);
      other->is_promised_ = true;
      return other->indexed_;
    }
    losers.push_back(other->copy_);
    set_copy(*other, nullptr);
    replaced = retire(shard, *other, {});
  }
  set_copy(*piece, copy);
  piece->indexed_ = piece;
  piece->state_ = PieceState::live;
  add_to_table(shard, *piece);
  ++(piece->is_page_ ? pages_ : pieces_);
  if (piece->expires_ms_ != 0) shard.expiring.insert({piece->expires_ms_, piece.get()});
  shard.lanes.add_cold(*piece);
  count_cold(*piece, true);
  return piece;
}

void Index::tell_owners() const {
  Cursor cursor;
  while (!cursor.is_over) {
    walk(cursor, [this](const PieceRef& piece, std::uint64_t) {
      if (piece->copy_ != nullptr) disk_->set_owner(piece->copy_, piece);
    });
  }
}

void Index::demote_all(const std::function<Demote(const Space&)>& demote_of) {
  Cursor cursor;
  while (!cursor.is_over) {
    // Called under the lock of the piece's own shard.
    walk(cursor, [&](const PieceRef& piece, std::uint64_t) {
      piece->demote_ = demote_of(piece->space());
      if (piece->is_whole_) make_dirty(shard_of(piece->name_hash_), *piece);
    });
  }
}

bool Index::note_copy(const PieceRef& piece, const DiskCopyRef& copy) {
  Shard& shard = shard_of(piece->name_hash_);
  const std::lock_guard lock(shard.mutex);
  if (piece->indexed_ == nullptr || piece->copy_ != nullptr) return false;
  if (!copy->is_here()) return false;  // let go already; else we are told later
  make_clean(shard, *piece);
  set_copy(*piece, copy);
  return true;
}

void Index::forget_copy(const PieceRef& piece, const DiskCopyRef& copy, Removed& removed) {
  Shard& shard = shard_of(piece->name_hash_);
  const std::lock_guard lock(shard.mutex);
  if (piece->indexed_ == nullptr || piece->copy_ != copy) return;
  set_copy(*piece, nullptr);
  if (piece->taken_bytes_ == 0) {
    removed.push_back(retire(shard, *piece, {Cause::disk_lost}));
  } else if (piece->is_whole_) {
    make_dirty(shard, *piece);
  }
}

void Index::give_up(const PieceRef& piece) {
  Shard& shard = shard_of(piece->name_hash_);
  const std::lock_guard lock(shard.mutex);
  make_clean(shard, *piece);
  piece->demote_ = Demote::none;
}

bool Index::promise(const PieceRef& piece) {
  Shard& shard = shard_of(piece->name_hash_);
  const std::lock_guard lock(shard.mutex);
  if (piece->indexed_ == nullptr) return false;
  piece->is_promised_ = true;
  return true;
}

bool Index::is_dirty(const Piece& piece) const {
  const Shard& shard = shard_of(piece.name_hash_);
  const std::lock_guard lock(shard.mutex);
  return piece.is_dirty_;
}

DiskCopyRef Index::copy_of(const Piece& piece) const {
  const Shard& shard = shard_of(piece.name_hash_);
  const std::lock_guard lock(shard.mutex);
  return piece.indexed_ == nullptr ? nullptr : piece.copy_;
}

PieceRef Index::current(const Piece& piece) const {
  Shard& shard = shard_of(piece.name_hash_);
  const std::lock_guard lock(shard.mutex);
  Piece* const found = same_as(shard, piece);
  return found == nullptr ? nullptr : found->indexed_;
}

bool Index::swap_in(const PieceRef& cold, const PieceRef& warm, bool is_exclusive,
                    Removed& removed) {
  warm->name_hash_ = cold->name_hash_;
  Shard& shard = shard_of(cold->name_hash_);
  const Moment now = Moment::now();
  const std::lock_guard lock(shard.mutex);
  if (cold->indexed_ == nullptr || cold->copy_ == nullptr) return false;
  const bool is_to_stay = !is_exclusive || cold->is_promised_;
  const bool is_kept = is_to_stay && cold->copy_->is_here();
  const DiskCopyRef copy = is_kept ? cold->copy_ : nullptr;
  if (is_kept) set_copy(*cold, nullptr);
  warm->is_promised_ = cold->is_promised_;
  warm->seq_ = cold->seq_.load();
  warm->replicas_ = cold->replicas_.load();
  warm->settle(cold->settled_epoch(), cold->is_handed_over());
  removed.push_back(retire(shard, *cold, {}));
  if (copy != nullptr) set_copy(*warm, copy);
  add_to_table(shard, *warm);
  enter(shard, warm, PieceState::live, now);
  return true;
}

PieceRef Index::take_coldest(Space& space) {
  for (std::size_t looked = 0; looked < COLD_LOOKED_MAX; ++looked) {
    const auto number = space.shard_of_coldest();
    if (!number) return nullptr;
    Shard& shard = *shards_[*number];
    const std::lock_guard lock(shard.mutex);
    EvictionHook* const hook = shard.lanes.coldest(space);
    if (hook == nullptr) continue;  // taken meanwhile
    Piece& piece = *hook->piece;
    const bool is_wanted = piece.indexed_.use_count() > 1;  // it is about to be read
    if (!is_wanted) return retire(shard, piece, {Cause::over_quota, space.name()});
    shard.lanes.pass_over_coldest(space, steady_ns());
  }
  return nullptr;
}

bool Index::make_disk_room(Space& space, std::uint64_t bytes) {
  const std::uint64_t quota = space.disk_quota_bytes();
  if (quota != 0 && bytes > quota) return false;
  while (!space.has_disk_room(bytes))
    if (take_coldest(space) == nullptr) return false;
  return true;
}

PieceRef Index::take_dirty() {
  for (;;) {
    Shard* oldest = nullptr;
    std::uint64_t first_ns = NEVER;
    for (const auto& shard : shards_) {
      const std::uint64_t since_ns = shard->dirty_since_ns.load(std::memory_order_relaxed);
      if (since_ns >= first_ns) continue;
      first_ns = since_ns;
      oldest = shard.get();
    }
    if (oldest == nullptr) return nullptr;
    const std::lock_guard lock(oldest->mutex);
    EvictionHook* const hook = oldest->dirty.oldest();
    if (hook == nullptr) continue;  // taken meanwhile
    PieceRef piece = hook->piece->indexed_;
    oldest->remove_dirty(*hook);
    return piece;
  }
}

void Index::put_back(const PieceRef& piece) {
  Shard& shard = shard_of(piece->name_hash_);
  const std::lock_guard lock(shard.mutex);
  if (piece->is_dirty_ && piece->dirty_.piece == nullptr)
    shard.add_dirty(*piece, piece->dirty_, steady_ns());
}

// ---- under the shard's lock ----------------------------------------------------------

bool Index::is_to_write(const Piece& piece) const noexcept {
  return piece.is_dirty_ && !is_losing_.load(std::memory_order_relaxed);
}

/// Live from now on, and whole: is it to be written?
void Index::make_dirty(Shard& shard, Piece& piece) {
  const bool is_wanted =
      disk_ != nullptr && piece.demote_ != Demote::none && piece.copy_ == nullptr;
  if (!is_wanted || piece.is_dirty_) return;
  piece.is_dirty_ = true;
  dirty_bytes_ += piece.taken_bytes_;
  shard.add_dirty(piece, piece.dirty_, steady_ns());
}

/// It is written, or goes.
void Index::make_clean(Shard& shard, Piece& piece) {
  if (!piece.is_dirty_) return;
  piece.is_dirty_ = false;
  dirty_bytes_ -= piece.taken_bytes_;
  if (piece.dirty_.piece != nullptr) shard.remove_dirty(piece.dirty_);
}

/// Counted where it is.
void Index::set_copy(Piece& piece, const DiskCopyRef& copy) {
  piece.space().add_disk(-piece.disk_bytes());
  piece.copy_ = copy;
  piece.space().add_disk(piece.disk_bytes());
}

/// It goes for good, and its copy with it; at the node's end the copy stays.
void Index::strike(Piece& piece) {
  if (piece.copy_ == nullptr) return;
  if (disk_ != nullptr) {
    disk_->strike(piece.copy_, [this, number = strikes_.begin()](Status) { strikes_.end(number); });
  }
  set_copy(piece, nullptr);
}

void Index::count_cold(const Piece& piece, bool is_cold) {
  if (is_cold) {
    ++cold_;
    cold_bytes_ += piece.length_;
  } else {
    --cold_;
    cold_bytes_ -= piece.length_;
  }
}

Piece* Index::same_as(Shard& shard, const Piece& piece) const {
  return piece.is_page_ ? shard.pages.find(piece.name_, piece.name_hash_)
                        : shard.files.find(piece.name_, piece.chunk_, piece.tag_);
}

void Index::add_to_table(Shard& shard, Piece& piece) const {
  piece.is_page_ ? shard.pages.add(piece) : shard.files.add(piece);
}

PieceRef Index::evict(Shard& shard, Piece& piece, const Reason& reason) {
  shard.lanes.evict(piece);
  if (piece.copy_ != nullptr) return strip(shard, piece);
  if (!piece.is_dirty_) return retire(shard, piece, reason);
  ++lost_dirty_;
  return retire(shard, piece, {Cause::not_demoted, reason.for_whom});
}

/// What stays is cold.
PieceRef Index::strip(Shard& shard, Piece& piece) {
  GD2FS_ASSERT(piece.state() == PieceState::live && piece.indexed_.use_count() == 1);
  shard.lanes.remove(piece);
  PieceRef husk = take_memory(piece, std::exchange(piece.extents_, {}), piece.taken_bytes_);
  shard.lanes.add_cold(piece);
  count_cold(piece, true);
  return husk;
}

/// Extents that were a piece's, as a piece of its own that nobody finds: they are freed with it.
PieceRef Index::take_memory(Piece& piece, std::vector<Extent> extents, std::uint64_t bytes) {
  struct Husk : Piece {};
  // What records say of it is no longer true, of what stays neither.
  if (piece.has_records_.exchange(false)) {
    for (const Extent& extent : extents) ledger_.strike(extent.record);
    for (const Extent& extent : piece.extents_) ledger_.strike(extent.record);
  }
  account_.move(Use::live, Use::zombie, bytes);
  const auto husk = std::make_shared<Husk>();
  Piece& taken = *husk;
  taken.length_ = piece.length_;
  taken.store_ = piece.store_;
  taken.space_ = &piece.space();
  taken.state_ = PieceState::zombie;
  taken.taken_bytes_ = bytes;
  taken.extents_ = std::move(extents);
  piece.taken_bytes_ -= bytes;
  piece.is_whole_ = false;
  return husk;
}

Index::Shed Index::shed(const PieceRef& piece, std::uint64_t begin, std::uint64_t end,
                        Allocator& allocator, Removed& removed) {
  Shard& shard = shard_of(piece->name_hash_);
  const std::lock_guard lock(shard.mutex);
  if (piece->indexed_ == nullptr || piece->state() != PieceState::live) return {Status::miss, 0};
  if (piece->is_pinned()) return {Status::denied, 0};
  if (piece.use_count() > 2) return {Status::retry, 0};
  std::vector<Extent> kept, shed;
  Shed done;
  std::uint64_t taken = 0;
  const auto take = [&](const Extent& extent) {
    shed.push_back(extent);
    done.bytes += extent.bytes;
    taken += whole_grains(extent.bytes);
  };
  for (Extent extent : piece->extents_) {
    const std::uint64_t from = std::clamp<std::uint64_t>(begin, extent.place, end_of(extent));
    const std::uint64_t to = std::clamp<std::uint64_t>(end, extent.place, end_of(extent));
    if (from >= to) {
      kept.push_back(extent);
      continue;
    }
    if (from > extent.place) {
      Extent rest = allocator.cut(extent, static_cast<std::uint32_t>(from - extent.place));
      kept.push_back(extent);
      extent = rest;
    }
    if (to < end_of(extent)) {
      kept.push_back(allocator.cut(extent, static_cast<std::uint32_t>(to - extent.place)));
    }
    take(extent);
  }
  if (shed.empty()) return done;
  make_clean(shard, *piece);
  piece->extents_ = std::move(kept);
  removed.push_back(take_memory(*piece, std::move(shed), taken));
  if (!piece->extents_.empty()) return done;
  shard.lanes.remove(*piece);
  if (piece->copy_ != nullptr) shard.lanes.add_cold(*piece);
  count_cold(*piece, true);
  if (piece->copy_ == nullptr) removed.push_back(retire(shard, *piece, {Cause::advice}));
  return done;
}

}  // namespace gd2fs
