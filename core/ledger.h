// Ledger: the arena describes itself, so that a kept one can be read back after its process is
// gone.
//
//   grain 0      superblock: node, boot, arena bytes, where the bitmap lies; summed
//   grains 1..   bitmap: which 64 KiB units of the arena are slabs of records
//   a slab       its own header, then slots of one length: 128, 256, ... 2048 B
//   a slot       the record of one extent of one published piece; summed; the sum is zero when free
//
// Nothing here is trusted for decisions: the live truth lies outside the arena. A record is a help
// at restart, so a piece goes without one when no unit of the arena is free for another slab.
#pragma once

#include <array>
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

namespace gd2fs {

/// What the record of one extent says.
struct ExtentRecord {
  std::string_view name;
  bool is_page = false;
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

  /// Formats the front of the arena; what it said before is forgotten. `account` has the front as
  /// free still.
  Ledger(std::span<std::byte> arena, std::string_view node_name, std::uint64_t boot,
         Allocator& allocator, Account& account);

  /// Writes a record and answers its number; 0 when there is no room for it.
  std::uint32_t write(const ExtentRecord& record);
  /// Makes a record unreadable. Its slot stays taken. Any number of times, from any thread.
  void strike(std::uint32_t record) noexcept;
  /// Gives the slot back, struck.
  void release(std::uint32_t record);

  /// Reads every record of an arena whose check is right.
  static void scan(std::span<const std::byte> arena,
                   const std::function<void(const ExtentRecord&)>& visit);

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

  std::optional<std::uint64_t> take_slot(std::uint32_t size_class);
  Slab* new_slab(std::uint32_t size_class);
  void drop_slab(Slab& slab);
  void mark_unit(std::uint64_t unit, bool is_slab) noexcept;

  std::span<std::byte> arena_;
  Allocator& allocator_;
  Account& account_;
  std::uint64_t slot_unit_;  // records are numbered in these
  // Guards: slabs and lists. Never held while a record is written.
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, Slab> slabs_;  // by unit
  std::array<std::vector<Slab*>, CLASSES> open_;   // with free slots
};

}  // namespace gd2fs
