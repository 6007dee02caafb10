// Extent: a run of arena memory, and the allocator that cuts and rejoins such runs.
//
// Two-level segregated fit over grains of 4 KiB, in regions with one lock each. What is asked for
// never has to be contiguous: it comes as parts of at most 2 MiB, halved as long as no free run is
// large enough. So an allocation fails only when fewer bytes are free than it wants. The arena
// itself is never touched: all bookkeeping lies beside it.
//
// Where memory has several NUMA nodes each region lies at one of them, and a thread takes from
// those at its own as long as they have what it wants.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "limits.h"

namespace gd2fs {

struct Extent {
  std::uint64_t offset = 0;  // in the arena, a multiple of GRAIN_BYTES
  std::uint32_t bytes = 0;   // used bytes; what is taken is this rounded up to whole grains
  std::uint32_t place = 0;   // in the piece: the bytes of the extents before it
  std::uint32_t record = 0;  // its self-describing record in the arena (0: none)
  std::uint32_t block = 0;   // the allocator's own number for it
};

inline constexpr std::uint64_t whole_grains(std::uint64_t bytes) noexcept {
  return (bytes + GRAIN_BYTES - 1) / GRAIN_BYTES * GRAIN_BYTES;
}

class Region;

/// The NUMA node of each region, and of the thread that asks. Without them all is near.
struct RegionNodes {
  std::vector<int> of_region;
  int (*here)() noexcept = nullptr;
};

class Allocator {
 public:
  /// Hands out `[begin, end)`, both multiples of GRAIN_BYTES.
  Allocator(std::uint64_t begin, std::uint64_t end, RegionNodes nodes = {});
  ~Allocator();

  /// Appends extents that hold `bytes` in all. False, and nothing taken, when fewer are free.
  bool allocate(std::uint64_t bytes, std::vector<Extent>& out);
  /// One run that starts at a multiple of its length (a power of two of grains), or nothing.
  std::optional<Extent> allocate_aligned(std::uint32_t bytes);
  /// Takes just the run that `extent` names, and gives it its `block`. False: some of it is taken,
  /// or it is none of this memory. Quick when each lies behind the one before; at start only.
  bool claim(Extent& extent);
  void free(std::span<const Extent> extents);
  /// Cuts a taken extent in two: `extent` keeps its first `bytes`, whole grains; the rest is
  /// answered.
  Extent cut(Extent& extent, std::uint32_t bytes);

  std::uint64_t free_bytes() const noexcept { return free_grains_.load() * GRAIN_BYTES; }
  std::uint64_t free_runs() const;  // how many separate free runs there are
  /// A length that one of the longest free runs has at least; a sixteenth is not known of.
  std::uint64_t longest_free_bytes() const noexcept;
  /// Taken at the NUMA node of who asked, and elsewhere; both 0 where all is near.
  std::uint64_t near_bytes() const noexcept { return near_grains_.load() * GRAIN_BYTES; }
  std::uint64_t far_bytes() const noexcept { return far_grains_.load() * GRAIN_BYTES; }
  /// Walks every block: they tile the memory, no two free ones touch, lists and sums agree.
  bool is_consistent() const;

  /// How long regions of memory up to `end` are, the last one perhaps shorter; whole huge pages.
  static std::uint64_t region_bytes(std::uint64_t end) noexcept;

 private:
  /// In which order threads of one NUMA node look at regions: first the `near` ones.
  struct Order {
    int node = 0;
    std::vector<std::size_t> regions;
    std::size_t near = 0;
  };
  /// One thread's way through an order, from a region of its own.
  struct Way {
    const Order& order;
    std::size_t start;
    std::size_t at(std::size_t step) const noexcept;
  };

  void put_in_order();
  Way way_here() const;
  Region& region_of(std::uint64_t offset) const;
  std::uint64_t take(std::uint64_t grains, std::vector<Extent>& out);
  void note_taken(bool is_near, std::uint64_t grains) noexcept;

  std::uint64_t begin_;
  std::uint64_t region_bytes_;
  std::atomic<std::uint64_t> free_grains_{
      0};  // promised ones are taken off before they are cut from a region
  std::vector<std::unique_ptr<Region>> regions_;
  RegionNodes nodes_;
  std::vector<Order> orders_;  // one for each node, or one for all
  std::atomic<std::uint64_t> near_grains_{0}, far_grains_{0};
};

}  // namespace gd2fs
