// Store: the pieces that one node holds in its arena. Thread-safe; no call blocks on I/O.
//
//   reserve -> (receive, verify, set_hash) -> publish_page | stage -> publish -> find -> drop
//
// Extents are reserved before a byte is received. What is let go unpublished is freed by itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "account.h"
#include "arena.h"
#include "cursor.h"
#include "departures.h"
#include "error.h"
#include "eviction/evicted.h"
#include "eviction/space.h"
#include "machine_start.h"
#include "numa.h"
#include "piece.h"
#include "reattachment.h"
#include "reserved.h"
#include "tier.h"
#include "wire.h"

namespace gd2fs {

struct StoreOptions {
  ArenaOptions arena;
  double evict_above = 0.97;  // used share of the arena at which the background eviction starts
  double evict_below = 0.95;  // and at which it stops
  // Whose arena it is: written into its first grain. A kept one (rung file) of the same owner is
  // re-attached; any other begins empty.
  std::string cluster;
  std::string node_name;
  std::uint64_t boot = 0;
  std::size_t departures = DEPARTURES_DEFAULT;  // that are remembered
  MachineStart machine = MachineStart::now();
  numa::Machine numa;  // whose nodes its memory is spread over; none: as the system does
  TierOptions tier;
};

struct PieceSpec {
  std::string_view name;  // see name.h
  bool is_page = false;
  std::uint64_t chunk = 0;
  std::uint64_t tag = 0;
  std::uint64_t offset = 0;                        // in the chunk; 0 for a page
  std::uint64_t length = 0;                        // 1 to PAGE_BYTES_MAX, or to CHUNK_BYTES_MAX
  std::uint32_t ttl_s = 0;                         // 0: none
  std::uint8_t replicas = 0;                       // 0: as the namespace has
  std::uint64_t epoch = 0;                         // of the map that its writer went by
  std::uint64_t idle_ms = 0;                       // since its last use, elsewhere
  std::uint8_t eviction_class = EVICTION_CLASSES;  // that one: as the namespace has
  bool is_moved = false;  // from another node: nothing that was used later makes room for it
};

/// Every grain of the arena is in exactly one of these: their sum is `arena_bytes` (core.md 2.4).
struct StoreCounts {
  std::uint64_t arena_bytes = 0, free_bytes = 0, filling_bytes = 0, staged_bytes = 0,
                live_bytes = 0, zombie_bytes = 0, loading_bytes = 0,
                record_bytes = 0;       // record_bytes: superblock and record slabs
  std::uint64_t pages = 0, pieces = 0;  // live ones, those on disk alone included
  std::uint64_t evicted_pieces = 0, evicted_bytes = 0, expired_pieces = 0, corrupt_pieces = 0;
  // Of the free bytes: how many separate runs they are, and how long one of the longest is at least
  // (a sixteenth more at most).
  std::uint64_t free_runs = 0, longest_free_bytes = 0;

  // Of the tier below.
  std::uint64_t cold_pieces = 0, cold_bytes = 0;        // now: on disk alone
  std::uint64_t dirty_bytes = 0;                        // now: to be written
  std::uint64_t demoted_pieces = 0, demoted_bytes = 0;  // written
  std::uint64_t loaded_pieces = 0, loaded_bytes = 0;
  std::uint64_t undemoted_pieces = 0;  // evicted though they should have been written
  std::uint64_t failed_loads = 0, failed_demotions = 0;
  bool is_losing = false;  // now: what is evicted goes unwritten, for a fault
  std::uint64_t recovered_pieces = 0, recovered_bytes = 0;  // on disk at the start
};

class Store {
 public:
  static Result<std::unique_ptr<Store>> open(const StoreOptions& options);
  ~Store();  // no reference to a piece may be left (asserted)

  /// Takes memory for a piece, evicting at most its size + EVICT_SLACK_BYTES.
  /// retry: too much is half-written (1/8 of the arena) or everything is held. full: it can never
  /// fit, or it was moved and is older than all that is here. A single piece is admitted whenever
  /// nothing else is filling, however large.
  Reserved reserve(const PieceSpec& spec);

  /// Makes a filled page readable. have: another complete value was there first; this one is freed.
  Status publish_page(const PieceRef& piece);
  /// Makes a filled piece of a file readable by its tag.
  Status stage(const PieceRef& piece);
  /// STAGED -> LIVE; then drops pieces of that chunk that are fully covered by newer (seq) live
  /// ones. miss: not here.
  Status publish(std::string_view name, std::uint64_t chunk, std::uint64_t tag, std::uint64_t seq);

  /// As pieces have it (Piece::name_hash): only places.
  std::uint64_t hash_of(std::string_view name) const noexcept;
  /// Before many look-ups: brings near what they will touch. Changes nothing, promises nothing.
  void warm_pages(std::span<const std::string_view> names) const;
  /// The complete page, or nothing. What an earlier process left may have to be checked still
  /// (Piece::is_checked). `is_use`: counts for LRU (a probe does not).
  PieceRef find_page(std::string_view name, bool is_use);
  /// A staged or live piece by its tag, or nothing.
  PieceRef find_piece(std::string_view name, std::uint64_t chunk, std::uint64_t tag, bool is_use);
  /// The live piece with the highest seq that covers the whole range of the chunk, or nothing.
  PieceRef find_latest(std::string_view name, std::uint64_t chunk, std::uint64_t offset,
                       std::uint64_t length, bool is_use);

  /// Live pieces of a chunk that touch a range of it, or the one of them that `tag` names.
  std::vector<PieceRef> find_live(std::string_view name, std::uint64_t chunk, std::uint64_t tag,
                                  std::uint64_t offset, std::uint64_t length);
  /// One small step through all live pages and pieces. `visit` runs under a lock: it only looks.
  using Visitor = std::function<void(const PieceRef& piece, std::uint64_t used_ns)>;
  void walk(Cursor& cursor, const Visitor& visit) const;

  /// This very one. False: it is not here any more.
  bool drop(const PieceRef& piece, Cause cause = Cause::dropped);
  bool drop_page(std::string_view name);
  bool drop_piece(std::string_view name, std::uint64_t chunk, std::uint64_t tag,
                  Cause cause = Cause::dropped);
  /// A staged piece that its writer gives up. False: it is not here, or live by now.
  bool forget(std::string_view name, std::uint64_t chunk, std::uint64_t tag);
  /// All pieces of a file here. How many there were.
  std::size_t drop_file(std::string_view name);
  /// All pages and pieces of a namespace here, in small steps (no lock is held for long).
  std::size_t clear(std::string_view name_space);
  /// A copy whose bytes no longer match its hashes is dropped and counted; other references stay
  /// valid memory.
  void quarantine(const PieceRef& piece);

  /// Keys of pages of a namespace after `after`, sorted; at most `count_max`. `more`: others
  /// follow.
  std::vector<wire::ListEntry> list_pages(std::string_view name_space, std::string_view after,
                                          std::size_t count_max, bool& more);
  /// A staged piece, by what its owner asks the home about.
  struct StagedName {
    std::string name;
    std::uint64_t chunk;
    std::uint64_t tag;
  };
  /// Those staged at that time or earlier. They stay.
  std::vector<StagedName> staged_before(std::int64_t boottime_ms, std::size_t count_max);

  /// It stays whatever room is needed for, until it is unpinned, overwritten, dropped or expires.
  /// full: more than may be is pinned, in its namespace or in all (half of the arena). miss: it is
  /// not here any more.
  Status pin(const PieceRef& piece);
  void unpin(const PieceRef& piece);

  /// From now on, for what is here too; an empty name means all namespaces without their own. full:
  /// RULED_NAMESPACES_MAX have some.
  Status set_rules(std::string_view name_space, const NamespaceRules& rules);
  /// Of what comes without one; 0: none.
  std::uint32_t ttl_of(std::string_view name, bool is_page) const;
  RulesRef rules_of(std::string_view name, bool is_page);
  /// What each namespace with rules has here; the first entry, without a name, is all others.
  struct SpaceCounts {
    std::string name;
    std::uint64_t bytes = 0, pinned_bytes = 0, disk_bytes = 0;
    std::uint64_t quota_bytes = 0, disk_quota_bytes = 0;  // 0: none
  };
  std::vector<SpaceCounts> spaces() const;

  /// What is here of a page, or of a file.
  struct Holding {
    std::uint64_t pieces = 0, memory_bytes = 0, disk_bytes = 0, pinned_bytes = 0;
    std::uint8_t replicas = 0;  // copies that there shall be; 0: as the namespace has
    struct Range {
      std::uint64_t chunk = 0, offset = 0, length = 0;
    };
    std::vector<Range> ranges;  // where the first RANGES_MAX pieces lie
    static constexpr std::size_t RANGES_MAX = 2048;
  };
  Holding holding_of(std::string_view name, bool is_page);

  /// What went lately.
  const Departures& departures() const;
  /// Something was not let in.
  void note_refused(std::string_view name, bool is_page, std::uint64_t chunk, std::uint64_t tag,
                    std::uint64_t bytes, const Reason& reason);

  // The tier below memory. Without one every piece is whole.

  /// Brings a piece into memory whole, unless it is. `done` runs once, on any thread, maybe before
  /// this returns, under no lock: with the whole piece, or miss, or cancelled.
  void load(const PieceRef& piece, LoadRank rank, StopRef stop, Loader::Done done);
  /// Takes `[begin, end)` of a piece out of memory, blocks that lie wholly in it. What is on disk
  /// can be loaded again; else it is lost. Nobody but the store and the caller may refer to
  /// it: retry.
  Index::Shed shed(const PieceRef& piece, std::uint64_t begin, std::uint64_t end);
  /// All of it can be had, here or from disk.
  bool is_complete(const Piece& piece) const;
  bool is_dirty(const Piece& piece) const;
  /// What has the name of this one now: it may have been loaded since.
  PieceRef current(const Piece& piece) const;
  /// Writes a piece to disk, unless it is there. ok; miss: it is not here any more; denied: its
  /// namespace does not go to disk, or there is none; else what the disk says.
  void flush(const PieceRef& piece, Flusher::Done done);
  /// See Index.
  bool promise(const PieceRef& piece);
  /// All that was written before is safe from a power cut. denied: there is no disk.
  void flush_disk(Disk::Done done);
  /// `done` runs once nothing that was dropped before can come back from disk, whatever ends the
  /// process. At once without a disk; under no lock, on any thread.
  void after_drops(std::function<void()> done);
  /// Is there a disk below?
  bool has_tier() const;
  /// Bytes a second that are written there at most, from now on; 0: no limit.
  void set_disk_rate(std::uint64_t bytes_per_s);
  std::optional<DiskCounts> disk_counts() const;
  /// Before the end: writes what is dirty, for so long at most; then nothing moves between memory
  /// and disk any more, and nobody is called back.
  void stop_tier(std::chrono::milliseconds timeout);

  StoreCounts counts() const;
  /// How its memory lies at NUMA nodes.
  numa::Spread spread() const;
  /// What went for lack of room, by the policy of its namespace.
  EvictedByPolicy evicted() const;
  const Arena& arena() const;

  /// What a kept arena still had when it was opened.
  const ArenaRecovery& recovery() const;
  /// Will this piece be here again when the process ends now, and begins again? False: the
  /// arena is not kept, or had no room for the piece's records.
  bool is_safe(const Piece& piece) const;

  /// Reads the self-describing records of an arena: calls once per whole piece. A record whose
  /// check is wrong, or a piece with a missing extent, is skipped.
  using Recorded = RecordedPiece;
  static void scan_records(std::span<const std::byte> arena,
                           const std::function<void(Recorded&&)>& visit);

 private:
  friend class Piece;
  friend class Reattachment;
  struct State;  // allocator, index, eviction, slabs: one header each

 public:
  explicit Store(std::unique_ptr<State> state);  // for `open` alone: nobody else has a State

 private:
  bool would_go_next(const PieceSpec& spec, std::uint64_t bytes) const;
  Status take_bytes(Space& space, std::uint64_t bytes, Use use, const Reason& reason);
  Status take_quota(Space& space, std::uint64_t bytes);
  Status take_memory(std::uint64_t bytes, Use use, const Reason& reason);
  bool has(const PieceSpec& spec);
  PieceRef make_piece(Space& space, const PieceSpec& spec);
  void allocate(Piece& piece);
  Result<bool> open_tier(const TierOptions& options);
  void add_tier_counts(StoreCounts& counts) const;
  Demote demote_of(const Space& space) const;
  PieceRef make_cold(DiskPiece&& record);
  Reserved reserve_again(const Piece& cold);
  void begin(const StoreOptions& options);
  void write_records(Piece& piece);
  void let_go(Piece& piece);  // by its destructor

  std::unique_ptr<State> state_;
};

/// CLOCK_BOOTTIME in milliseconds: goes on while the machine sleeps.
std::int64_t boottime_ms() noexcept;
/// CLOCK_REALTIME in milliseconds: goes on from one boot of the machine to the next.
std::int64_t realtime_ms() noexcept;
/// CLOCK_MONOTONIC in nanoseconds: what uses are noted by.
std::uint64_t steady_ns() noexcept;

}  // namespace gd2fs
