// Tier: the disk below a store's memory. What is evicted stays there, and comes back when it is
// asked for.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>

#include "disk/disk.h"
#include "flusher.h"
#include "index.h"
#include "loader.h"
#include "namespace_rules.h"

namespace gd2fs {

struct TierOptions {
  DiskOptions disk;  // without places there is no tier
  Demote demote = Demote::back;
  DiskKeep keep = DiskKeep::inclusive;
  double dirty_share = 0.25;  // of the arena: more that is not on disk yet is written at once
  // Of tests: another disk.
  std::function<Result<std::unique_ptr<Disk>>(const DiskOptions&, const Disk::Visit&)> open_disk;
};

/// What came of the disk at the start.
struct TierRecovery {
  std::uint64_t pieces = 0, bytes = 0;
};

class Tier {
 public:
  struct Host {
    std::uint64_t arena_bytes = 0;
    /// A cold piece of what a record says.
    std::function<PieceRef(DiskPiece&&)> make_cold;
    // As for Loader.
    std::function<Reserved(const Piece& cold)> reserve;
    std::function<void(const PieceRef& warm)> on_loaded;
  };

  /// Opens the disk, and puts what it has into the index.
  static Result<std::unique_ptr<Tier>> open(const TierOptions& options, Index& index, Host host);
  /// Ends what is in flight. The index forgets its copies before this; see `stop`.
  ~Tier();
  Tier(const Tier&) = delete;
  Tier& operator=(const Tier&) = delete;

  void start() { flusher_->start(); }
  /// Writes what is dirty, for so long at most; then nothing is written and loaded any more.
  void stop(std::chrono::milliseconds timeout);

  void note_published(const PieceRef& piece, Demote demote);
  void load(const PieceRef& piece, LoadRank rank, StopRef stop, Loader::Done done) {
    loader_->load(piece, rank, std::move(stop), std::move(done));
  }
  Flusher& flusher() noexcept { return *flusher_; }
  const Flusher& flusher() const noexcept { return *flusher_; }
  const Loader& loader() const noexcept { return *loader_; }
  Disk& disk() noexcept { return *disk_; }
  const Disk& disk() const noexcept { return *disk_; }
  const TierOptions& options() const noexcept { return options_; }
  const TierRecovery& recovery() const noexcept { return recovery_; }

 private:
  explicit Tier(const TierOptions& options) : options_(options) {}

  const TierOptions options_;
  TierRecovery recovery_;
  std::unique_ptr<Disk> disk_;
  std::unique_ptr<Flusher> flusher_;
  std::unique_ptr<Loader> loader_;
};

}  // namespace gd2fs
