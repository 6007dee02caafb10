// Index: which pieces are here. Pages by name; pieces of files by name, chunk and tag.
//
// Shards by name, each with a lock held for arithmetic only: no bytes of the cache are touched
// under one. What is removed is handed back, so that its memory is freed after the lock is let go.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "account.h"
#include "cursor.h"
#include "departures.h"
#include "disk/disk.h"
#include "error.h"
#include "eviction/space.h"
#include "ledger.h"
#include "piece.h"
#include "strikes.h"

namespace gd2fs {

class Index {
 public:
  /// Let these go outside any lock: their memory is freed with the last reference.
  using Removed = std::vector<PieceRef>;

  struct Moment {
    std::int64_t boottime_ms = 0;
    std::uint64_t steady_ns = 0;
    static Moment now() noexcept;
  };

  Index(Account& account, Ledger& ledger, Spaces& spaces, Departures& departures);
  ~Index();
  void clear_all();  // when everything ends

  /// FILLING -> LIVE. False when a complete page has that name already.
  bool add_page(const PieceRef& page, Removed& removed);
  /// FILLING -> STAGED. False when that tag is there already.
  bool add_staged(const PieceRef& piece, Removed& removed);
  /// STAGED -> LIVE. The piece, or nothing when it is not here; `is_first` when this call made it
  /// live.
  PieceRef publish(std::string_view name, std::uint64_t chunk, std::uint64_t tag, std::uint64_t seq,
                   bool& is_first, Removed& removed);

  /// Brings near in memory what finding these pages will touch; all at once, not one after the
  /// other.
  void warm_pages(std::span<const std::string_view> names) const;
  bool is_past_caches() const;
  std::uint64_t hash_of(std::string_view name) const noexcept;
  PieceRef find_page(std::string_view name, bool is_use);
  PieceRef find_piece(std::string_view name, std::uint64_t chunk, std::uint64_t tag, bool is_use);
  PieceRef find_latest(std::string_view name, std::uint64_t chunk, std::uint64_t offset,
                       std::uint64_t length, bool is_use);

  /// See Store.
  std::vector<PieceRef> find_live(std::string_view name, std::uint64_t chunk, std::uint64_t tag,
                                  std::uint64_t offset, std::uint64_t length);
  void walk(Cursor& cursor,
            const std::function<void(const PieceRef&, std::uint64_t used_ns)>& visit) const;
  /// When the piece that is next to go was last used; the end of time without any.
  std::uint64_t oldest_ns() const noexcept;

  /// These answer the removed piece, or nothing when it was not there.
  PieceRef take_page(std::string_view name, const Reason& reason);
  PieceRef take_piece(std::string_view name, std::uint64_t chunk, std::uint64_t tag,
                      const Reason& reason);
  PieceRef take_staged(std::string_view name, std::uint64_t chunk, std::uint64_t tag,
                       const Reason& reason);
  /// Nothing when it is no longer the indexed one.
  PieceRef take(const PieceRef& piece, const Reason& reason);
  /// Up to `count_max` pieces of a file.
  void take_some_of_file(std::string_view name, std::size_t count_max, const Reason& reason,
                         Removed& removed);
  /// Up to `count_max` pages and pieces whose time to live is over.
  void take_expired(std::int64_t boottime_ms, std::size_t count_max, Removed& removed);
  /// The next one by the policies, of one space or of all, that nobody refers to and that is not
  /// young and staged. Its memory, that is: one that is on disk stays, cold. Those that are to be
  /// written first are passed over, and told in `dirty`. Nothing: none was found among those looked
  /// at, a bounded number.
  PieceRef take_victim(Space* only, const Reason& reason, Removed& dirty);
  /// See Store.
  Status pin(const PieceRef& piece);
  void unpin(const PieceRef& piece);
  /// The rules of namespaces have changed: every piece goes into the order where it belongs now. A
  /// shard's lock is held for a walk through its pieces.
  void settle_spaces();

  /// Walks all pages of a namespace, a few at a time under the lock; the visitor must not call the
  /// index. Pages that come or go meanwhile may be missed; one may be seen twice when its shard
  /// grows.
  void visit_pages(std::string_view name_space, const std::function<void(const Piece&)>& visit);
  /// Live pieces of a page or a file, of a large one the first some thousands.
  void visit_name(std::string_view name, bool is_page,
                  const std::function<void(const Piece&)>& visit);
  /// Removes all pages and pieces of a namespace, a few at a time; `release` gets each lot outside
  /// the lock.
  std::size_t clear(std::string_view name_space, const std::function<void(Removed&)>& release);
  /// Pieces that wait since then or longer, up to `count_max`. They stay.
  void staged_before(std::int64_t boottime_ms, std::size_t count_max,
                     const std::function<void(const Piece&)>& visit) const;

  // Of the tier below. A piece that is on disk and not in memory is *cold*: found like any other.

  /// Whose copies these are; nothing: copies are forgotten, not struck. Before any other call, and
  /// when everything ends.
  void set_disk(Disk* disk) noexcept { disk_ = disk; }
  /// What the disk had at its start; in the order of writing, so that the later one of a name wins.
  /// What of it was promised is not known: all of it counts as that.
  /// One that is in memory already has the copy from now on, if it is the same. Who has it;
  /// nothing: nobody. Copies that nobody has go to `losers`, to be struck.
  PieceRef add_cold(const PieceRef& piece, const DiskCopyRef& copy,
                    std::vector<DiskCopyRef>& losers);
  /// Tells the disk whose its copies are.
  void tell_owners() const;
  /// What an earlier process left in memory alone is to go to disk as well.
  void demote_all(const std::function<Demote(const Space&)>& demote_of);
  /// The bytes are in `copy` from now on. False: the piece has gone meanwhile, or has one, or the
  /// copy has gone.
  bool note_copy(const PieceRef& piece, const DiskCopyRef& copy);
  /// There is no such copy any more.
  void forget_copy(const PieceRef& piece, const DiskCopyRef& copy, Removed& removed);
  DiskCopyRef copy_of(const Piece& piece) const;
  /// What has the name of this one now.
  PieceRef current(const Piece& piece) const;
  /// FILLING -> LIVE in the place of one that is not whole. `is_exclusive`: the copy on disk goes,
  /// unless it is promised. False: that one has gone.
  bool swap_in(const PieceRef& cold, const PieceRef& warm, bool is_exclusive, Removed& removed);
  struct Shed {
    Status status = Status::ok;  // retry: someone refers to it. miss: it has gone. denied: pinned
    std::uint64_t bytes = 0;     // of the piece, that were in memory
  };
  /// Takes `[begin, end)` of a piece out of memory; multiples of GRAIN_BYTES, or its end. What is
  /// on disk can be loaded again; else it is lost. Nobody but the index and the caller refers
  /// to it.
  Shed shed(const PieceRef& piece, std::uint64_t begin, std::uint64_t end, Allocator& allocator,
            Removed& removed);
  /// Removes the piece of a namespace that is on disk alone and was used longest ago, as over its
  /// disk quota. Nothing: none was found among those looked at.
  PieceRef take_coldest(Space& space);
  /// Removes such until so many bytes more are within the disk quota. False: they never are, or
  /// nothing can go now.
  bool make_disk_room(Space& space, std::uint64_t bytes);
  /// The dirty one that has waited longest, for its writing. `note_copy` or `put_back` ends that.
  PieceRef take_dirty();
  void put_back(const PieceRef& piece);
  /// It can never be written.
  void give_up(const PieceRef& piece);
  /// Whoever was told that it is on disk relies on that: from now on loading it leaves its copy
  /// there. False: the piece has gone, or another one has its place.
  bool promise(const PieceRef& piece);
  /// It shall be on disk before it is evicted, and is not yet.
  bool is_dirty(const Piece& piece) const;
  /// Dirty ones may be evicted: the disk does not keep up, or is out of order.
  void set_losing(bool is_losing) noexcept { is_losing_.store(is_losing); }

  Strikes& strikes() noexcept { return strikes_; }
  std::uint64_t dirty_bytes() const noexcept { return dirty_bytes_.load(); }
  std::uint64_t cold_pieces() const noexcept { return cold_.load(); }
  std::uint64_t cold_bytes() const noexcept { return cold_bytes_.load(); }
  std::uint64_t lost_dirty() const noexcept { return lost_dirty_.load(); }

  std::uint64_t pages() const noexcept { return pages_.load(); }
  std::uint64_t pieces() const noexcept { return pieces_.load(); }
  std::uint64_t expired() const noexcept { return expired_.load(); }

 private:
  struct Shard;
  static constexpr std::size_t SHARDS = INDEX_SHARDS;

  Shard& shard_of(std::uint64_t hash) const noexcept;
  void enter(Shard& shard, const PieceRef& piece, PieceState state, Moment now);
  PieceRef retire(Shard& shard, Piece& piece, const Reason& reason);
  PieceRef give(Shard& shard, Piece* piece, bool is_use, PieceRef& expired);
  PieceRef victim_of(const Spaces::Choice& choice, Moment now, const Reason& reason,
                     std::size_t& looked, Removed& dirty);
  PieceRef evict(Shard& shard, Piece& piece, const Reason& reason);
  PieceRef strip(Shard& shard, Piece& piece);
  PieceRef take_memory(Piece& piece, std::vector<Extent> extents, std::uint64_t bytes);
  Piece* same_as(Shard& shard, const Piece& piece) const;
  void add_to_table(Shard& shard, Piece& piece) const;
  void make_dirty(Shard& shard, Piece& piece);
  void make_clean(Shard& shard, Piece& piece);
  void set_copy(Piece& piece, const DiskCopyRef& copy);
  void strike(Piece& piece);
  void count_cold(const Piece& piece, bool is_cold);
  bool is_to_write(const Piece& piece) const noexcept;
  void clear_files(Shard& shard, std::string_view name_space,
                   const std::function<void(Removed&)>& release, std::size_t& count);

  Account& account_;
  Ledger& ledger_;
  Spaces& spaces_;
  Departures& departures_;
  const std::uint64_t seed_;  // so that nobody can choose names that meet in one place
  std::atomic<std::uint64_t> pages_{0};
  std::atomic<std::uint64_t> pieces_{0};
  std::atomic<std::uint64_t> expired_{0};  // removed because their time to live was over
  Disk* disk_ = nullptr;
  Strikes strikes_;
  std::atomic<bool> is_losing_{false};
  std::atomic<std::uint64_t> dirty_bytes_{0};
  std::atomic<std::uint64_t> cold_{0}, cold_bytes_{0};
  std::atomic<std::uint64_t> lost_dirty_{0};  // evicted though they should have been on disk
  std::array<std::unique_ptr<Shard>, SHARDS> shards_;
};

}  // namespace gd2fs
