#include "tier.h"

#include <algorithm>

namespace gd2fs {
namespace {

constexpr std::size_t ON_WAY_SHARE = 16;  // of the arena: what is being written is held
constexpr std::uint64_t ON_WAY_BYTES_MAX = 32 * MiB;

FlusherOptions flusher_options(const TierOptions& options, std::uint64_t arena_bytes) {
  FlusherOptions own;
  own.dirty_bytes_max =
      static_cast<std::uint64_t>(static_cast<double>(arena_bytes) * options.dirty_share);
  own.on_way_bytes_max = std::min<std::uint64_t>(arena_bytes / ON_WAY_SHARE, ON_WAY_BYTES_MAX);
  own.write_bytes_per_s = options.disk.write_bytes_per_s;
  return own;
}

}  // namespace

Result<std::unique_ptr<Tier>> Tier::open(const TierOptions& options, Index& index, Host host) {
  std::unique_ptr<Tier> tier(new Tier(options));
  std::vector<DiskCopyRef> losers;
  const Disk::Visit visit = [&](DiskPiece&& record, const DiskCopyRef& copy) {
    index.add_cold(host.make_cold(std::move(record)), copy, losers);
  };
  auto disk =
      options.open_disk ? options.open_disk(options.disk, visit) : Disk::open(options.disk, visit);
  if (!disk) return disk.error();
  tier->disk_ = std::move(*disk);
  index.set_disk(tier->disk_.get());
  for (const DiskCopyRef& loser : losers) tier->disk_->strike(loser);
  index.tell_owners();
  tier->recovery_ = {index.cold_pieces(), index.cold_bytes()};
  tier->disk_->set_lost([&index](const DiskCopyRef& copy, const std::shared_ptr<void>& owner) {
    Index::Removed removed;
    if (owner != nullptr) index.forget_copy(std::static_pointer_cast<Piece>(owner), copy, removed);
  });
  Tier* const self = tier.get();
  tier->flusher_ =
      std::make_unique<Flusher>(index, *tier->disk_, flusher_options(options, host.arena_bytes),
                                [self] { self->loader_->pump(); });
  tier->loader_ = std::make_unique<Loader>(
      index, *tier->disk_,
      Loader::Host{.reserve = std::move(host.reserve),
                   .is_exclusive =
                       [self](const Piece& piece) {
                         const DiskKeep own = self->options_.keep;
                         return piece.space().rules()->keep.value_or(own) == DiskKeep::exclusive;
                       },
                   .on_loaded = std::move(host.on_loaded),
                   .on_starved = [self] { self->flusher_->want_room(); }});
  return tier;
}

Tier::~Tier() { stop(std::chrono::milliseconds(0)); }

void Tier::stop(std::chrono::milliseconds timeout) {
  if (flusher_ == nullptr || loader_ == nullptr) return;
  if (timeout.count() > 0) flusher_->drain(timeout);
  loader_->stop();
  flusher_->stop();
}

void Tier::note_published(const PieceRef& piece, Demote demote) {
  if (demote == Demote::through) {
    flusher_->write_soon(piece);
  } else if (demote == Demote::back) {
    flusher_->note_dirty();
  }
}

}  // namespace gd2fs
