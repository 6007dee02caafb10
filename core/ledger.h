// Ledger: the arena describes itself, so that a kept one can be read back after its process is
// gone.
//
//   grain 0      superblock, in two copies of which the later whole one counts: whose arena it is,
//                how long, which start of which machine wrote it, where the bitmap lies; summed
//   grains 1..   bitmap: which 64 KiB units of the arena are slabs of records
//   a slab       its own header, then slots of one length: 128, 256, ... 2048 B
//   a slot       the record of one extent of one published piece; summed; the sum is zero when free
//
// Nothing here is trusted for decisions while the node runs: the live truth lies outside the arena.
// A record is a help at restart, so a piece goes without one when no unit of the arena is free for
// another slab.
//
// A process may end at any instruction. What a record says is in place before its sum is, and its
// sum is gone before its extent is anyone else's.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "account.h"
#include "extent.h"
#include "machine_start.h"

namespace gd2fs {

/// Whose arena it is, and since when.
struct ArenaOwner {
  std::string cluster;
  std::string node;
  std::uint64_t boot = 0;  // of the node's process
  MachineStart machine;
};

/// What the record of one extent says.
struct ExtentRecord {
  std::string_view name;
  bool is_page = false;
  std::uint8_t replicas = 0;  // as the piece was asked for; 0: as its namespace has
  std::uint8_t eviction_class = EVICTION_CLASSES;  // likewise; that one: as its namespace has
  std::uint64_t chunk = 0, tag = 0, seq = 0;
  std::uint64_t offset = 0, length = 0;  // of the piece, in its chunk
  std::int64_t expires_ms = 0;           // CLOCK_BOOTTIME; 0: never
  Extent extent;
  std::span<const std::uint64_t> hashes;  // of the blocks that start in this extent
};

class Ledger {
 public:
  static constexpr std::size_t SLAB_BYTES = 64 * KiB;
  static constexpr std::size_t SLOT_BYTES_MIN = 128;
  static constexpr std::size_t SLOT_BYTES_MAX = 2048;  // header, 32 hashes and the longest name fit

  /// The superblock and the bitmap: what no piece can have.
  static std::uint64_t front_bytes(std::uint64_t arena_bytes);

  /// `account` has the front as free still. Nothing is written before `format` or `attach`.
  Ledger(std::span<std::byte> arena, Allocator& allocator, Account& account);

  /// What the arena held before is forgotten.
  void format(const ArenaOwner& owner);
  /// Why what an arena holds cannot be taken over by this owner; empty when it can. `before`: who
  /// wrote it.
  static std::string fault_of(std::span<const std::byte> arena, const ArenaOwner& owner,
                              ArenaOwner& before);
  using Visitor = std::function<void(const ExtentRecord&)>;
  /// Takes over the slabs of an arena without fault, and calls once for each record whose check is
  /// right; its extent is not claimed. Then whoever owns it is written down anew with `own`.
  void attach(const Visitor& visit);
  void own(const ArenaOwner& owner);
  /// From here on the arena keeps what it says.
  void freeze() noexcept { is_frozen_.store(true); }

  /// Writes a record and answers its number; 0 when there is no room for it.
  std::uint32_t write(const ExtentRecord& record);
  /// Makes a record unreadable. Its slot stays taken. Any number of times, from any thread.
  void strike(std::uint32_t record) noexcept;
  /// Gives the slot back, struck.
  void release(std::uint32_t record);

  /// Reads every record of an arena whose check is right.
  static void scan(std::span<const std::byte> arena, const Visitor& visit);

 private:
  static constexpr std::size_t CLASSES = 5;
  static constexpr std::size_t SLOTS_MAX = SLAB_BYTES / SLOT_BYTES_MIN;

  struct Slab {
    Extent extent;
    std::uint32_t size_class = 0;
    std::uint32_t free_slots = 0;
    std::uint32_t place = 0;  // in its class's list of slabs with free slots
    std::array<std::uint64_t, SLOTS_MAX / 64> taken{};
  };

  bool attach_slab(std::uint64_t unit, const Visitor& visit);
  std::optional<std::uint64_t> take_slot(std::uint32_t size_class);
  Slab* new_slab(std::uint32_t size_class);
  void drop_slab(Slab& slab);
  void mark_unit(std::uint64_t unit, bool is_slab) noexcept;

  std::span<std::byte> arena_;
  Allocator& allocator_;
  Account& account_;
  std::uint64_t slot_unit_;  // records are numbered in these
  std::atomic<bool> is_frozen_{false};
  // Guards: slabs and lists. Never held while a record is written.
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, Slab> slabs_;  // by unit
  std::array<std::vector<Slab*>, CLASSES> open_;   // with free slots
};

}  // namespace gd2fs
