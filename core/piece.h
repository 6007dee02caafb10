// Piece: what one write stored in one chunk. Its bytes are immutable once staged; its memory lives
// as long as anyone refers to it.
//
// Whoever holds a PieceRef may read the bytes: the extents go back to the allocator when the last
// reference goes. So a drop or an eviction never changes what is being sent; it only makes the
// piece a zombie until then.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "eviction/policy.h"
#include "extent.h"
#include "limits.h"
#include "namespace_rules.h"

namespace gd2fs {

class DiskCopy;
class Space;
class Store;

enum class PieceState : std::uint8_t { filling = 0, staged = 1, live = 2, zombie = 3 };

class Piece {
 public:
  ~Piece();
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;

  const std::string& name() const noexcept { return name_; }
  bool is_page() const noexcept { return is_page_; }
  std::uint64_t chunk() const noexcept { return chunk_; }
  std::uint64_t tag() const noexcept { return tag_; }
  std::uint64_t seq() const noexcept { return seq_.load(); }  // of its commit; 0 before PUBLISH
  std::uint64_t offset() const noexcept { return offset_; }   // in the chunk
  std::uint64_t length() const noexcept { return length_; }
  PieceState state() const noexcept { return state_.load(); }
  /// How many copies of it there shall be; 0: as its namespace has.
  std::uint8_t replicas() const noexcept { return replicas_.load(); }
  void set_replicas(std::uint8_t replicas) noexcept { replicas_.store(replicas); }
  void raise_replicas(std::uint8_t replicas) noexcept {
    if (replicas > replicas_.load()) replicas_.store(replicas);
  }
  /// CLOCK_BOOTTIME; 0: never.
  std::int64_t expires_ms() const noexcept { return expires_ms_; }
  /// What is left of its time to live, rounded up; 0: it has none.
  std::uint32_t ttl_left_s() const noexcept;
  /// By the map of this epoch every owner has it, as far as this node knows; 0: nothing is known.
  std::uint64_t settled_epoch() const noexcept { return settled_epoch_.load(); }
  /// And this node is none of them: the copy here is one too many.
  bool is_handed_over() const noexcept { return is_handed_over_.load(); }
  void settle(std::uint64_t epoch, bool is_handed_over) noexcept {
    is_handed_over_.store(is_handed_over);
    settled_epoch_.store(epoch);
  }
  /// The namespace that it belongs to, as this node keeps it.
  Space& space() const noexcept { return *space_.load(std::memory_order_relaxed); }
  /// As its writer wants it; EVICTION_CLASSES: as its namespace has.
  std::uint8_t eviction_class() const noexcept { return eviction_class_; }
  /// It stays whatever room is needed for.
  bool is_pinned() const noexcept { return is_pinned_.load(std::memory_order_relaxed); }
  /// Only places: two names may have the same. Set once it is in the index.
  std::uint64_t name_hash() const noexcept { return name_hash_; }
  /// What it takes of the arena now.
  std::uint64_t taken_bytes() const noexcept { return taken_bytes_; }
  /// All of its bytes are in memory. Else only what `has` says, perhaps nothing, and the rest may
  /// be on disk. Stays so while anyone but the index refers to it: what is loaded is a piece anew.
  bool is_whole() const noexcept { return is_whole_; }
  /// Is this range of it in memory?
  bool has(std::uint64_t offset, std::uint64_t length) const noexcept {
    return is_whole_ || has_part(offset, length);
  }

  /// The memory of `[offset, offset + length)` of this piece as runs, appended to `out`. Read by
  /// anyone; written only by the one who reserved it, while it is filling.
  void runs(std::uint64_t offset, std::uint64_t length,
            std::vector<std::span<std::byte>>& out) const;

  /// XXH3-64 of each block. Set one by one while filling, after the block was verified in place.
  std::span<const std::uint64_t> hashes() const noexcept { return hashes_; }
  void set_hash(std::size_t block, std::uint64_t hash) { hashes_[block] = hash; }
  /// False for what an earlier process left in the arena, until all its bytes have been compared
  /// with its hashes: before that none of them may leave this node.
  bool is_checked() const noexcept { return checked_blocks_.load() == ALL_CHECKED; }
  /// Compares some more of them; any number of threads. False: they are not what they were.
  bool check_some();

  /// The hash of what memory holds now.
  std::uint64_t hash_of(std::uint64_t offset, std::uint64_t length) const;

 private:
  friend class Store;
  friend class Index;
  friend class Lanes;
  friend class PageTable;
  friend class Reattachment;
  Piece() = default;
  bool has_part(std::uint64_t offset, std::uint64_t length) const noexcept;
  std::int64_t disk_bytes() const noexcept;

  static constexpr std::uint32_t ALL_CHECKED = ~std::uint32_t{0};

  // The first two cache lines hold what a look-up touches. The index's own, under the lock of its
  // shard:
  std::uint64_t name_hash_ = 0;
  Piece* next_in_bucket_ = nullptr;
  std::string name_;
  std::shared_ptr<Piece> indexed_;  // itself, while the index has it
  EvictionHook use_;
  std::int64_t expires_ms_ = 0;  // CLOCK_BOOTTIME; 0: never
  std::int64_t staged_ms_ = 0;   // when it was entered, staged or live

  Store* store_ = nullptr;      // outlives it
  std::byte* arena_ = nullptr;  // where the store's memory starts
  std::uint64_t chunk_ = 0, tag_ = 0, offset_ = 0, length_ = 0;
  std::atomic<std::uint64_t> seq_{0};
  std::atomic<PieceState> state_{PieceState::filling};
  std::atomic<bool> has_records_{false};
  bool is_page_ = false;
  bool is_whole_ = true;
  bool is_loading_ = false;  // it fills from disk
  Demote demote_ = Demote::none;
  std::atomic<std::uint64_t> settled_epoch_{0};
  std::uint64_t idle_ns_ = 0;  // how long it had not been used when it came
  std::atomic<std::uint8_t> replicas_{0};
  std::atomic<bool> is_handed_over_{false};
  std::atomic<bool> is_pinned_{false};
  std::uint8_t eviction_class_ = EVICTION_CLASSES;  // that one: its namespace's
  std::atomic<Space*> space_{nullptr};
  std::uint64_t taken_bytes_ = 0;
  std::atomic<std::uint32_t> checked_blocks_{ALL_CHECKED};  // the leading ones are; or all
  std::vector<Extent> extents_;                             // by place
  std::vector<std::uint64_t> hashes_;

  // The index's own again.
  std::shared_ptr<DiskCopy> copy_;  // on disk
  EvictionHook dirty_;              // its place among the dirty ones, unless it is being written
  bool is_dirty_ = false;           // it shall be on disk before it is evicted, and is not yet
  bool is_promised_ = false;        // its copy on disk stays when it is loaded
};

using PieceRef = std::shared_ptr<Piece>;

}  // namespace gd2fs
