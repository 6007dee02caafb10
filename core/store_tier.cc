// Store, of the tier below memory.
#include <algorithm>

#include "name.h"
#include "store_state.h"

namespace gd2fs {

Result<bool> Store::open_tier(const TierOptions& options) {
  auto tier =
      Tier::open(options, state_->index,
                 {.arena_bytes = state_->arena.bytes(),
                  .make_cold = [this](DiskPiece&& record) { return make_cold(std::move(record)); },
                  .reserve = [this](const Piece& cold) { return reserve_again(cold); },
                  .on_loaded = [this](const PieceRef& warm) { write_records(*warm); }});
  if (!tier) return tier.error();
  state_->tier = std::move(*tier);
  return true;
}

bool Store::has_tier() const { return state_->tier != nullptr; }

void Store::set_disk_rate(std::uint64_t bytes_per_s) {
  if (!has_tier()) return;
  state_->tier->flusher().set_write_rate(bytes_per_s);
  state_->tier->disk().set_write_rate(bytes_per_s);
}

void Store::load(const PieceRef& piece, LoadRank rank, StopRef stop, Loader::Done done) {
  if (has_tier()) return state_->tier->load(piece, rank, std::move(stop), std::move(done));
  piece->is_whole() ? done(Status::ok, piece) : done(Status::miss, nullptr);
}

Index::Shed Store::shed(const PieceRef& piece, std::uint64_t begin, std::uint64_t end) {
  begin = (begin + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
  if (end < piece->length()) end = end / BLOCK_BYTES * BLOCK_BYTES;
  end = std::min(end, piece->length());
  if (begin >= end) return {};
  Index::Removed removed;
  return state_->index.shed(piece, begin, end, state_->allocator, removed);
}

bool Store::is_complete(const Piece& piece) const {
  return piece.is_whole() || state_->index.copy_of(piece) != nullptr;
}

bool Store::is_dirty(const Piece& piece) const { return state_->index.is_dirty(piece); }

PieceRef Store::current(const Piece& piece) const { return state_->index.current(piece); }

void Store::flush(const PieceRef& piece, Flusher::Done done) {
  if (!has_tier()) return done(Status::denied);
  state_->tier->flusher().write(piece, std::move(done));
}

bool Store::promise(const PieceRef& piece) { return state_->index.promise(piece); }

void Store::flush_disk(Disk::Done done) {
  if (!has_tier()) return done(Status::denied);
  state_->tier->disk().flush(std::move(done));
}

void Store::after_drops(std::function<void()> done) {
  state_->index.strikes().after_all(std::move(done));
}

std::optional<DiskCounts> Store::disk_counts() const {
  if (!has_tier()) return std::nullopt;
  return state_->tier->disk().counts();
}

void Store::stop_tier(std::chrono::milliseconds timeout) {
  if (has_tier()) state_->tier->stop(timeout);
}

void Store::add_tier_counts(StoreCounts& counts) const {
  const FlusherCounts written = state_->tier->flusher().counts();
  const LoadCounts loaded = state_->tier->loader().counts();
  counts.cold_pieces = state_->index.cold_pieces();
  counts.cold_bytes = state_->index.cold_bytes();
  counts.dirty_bytes = state_->index.dirty_bytes();
  counts.undemoted_pieces = state_->index.lost_dirty();
  counts.demoted_pieces = written.pieces;
  counts.demoted_bytes = written.bytes;
  counts.failed_demotions = written.failed;
  counts.loaded_pieces = loaded.pieces;
  counts.loaded_bytes = loaded.bytes;
  counts.failed_loads = loaded.failed;
  counts.is_losing = written.is_losing;
  counts.corrupt_pieces += loaded.corrupt;
  counts.recovered_pieces = state_->tier->recovery().pieces;
  counts.recovered_bytes = state_->tier->recovery().bytes;
}

Demote Store::demote_of(const Space& space) const {
  if (!has_tier()) return Demote::none;
  return space.rules()->demote.value_or(state_->tier->options().demote);
}

PieceRef Store::make_cold(DiskPiece&& record) {
  struct Made : Piece {};
  const auto piece = std::make_shared<Made>();
  Piece& made = *piece;
  made.space_ = &state_->spaces.of(record.name, record.is_page);
  made.name_ = std::move(record.name);
  made.is_page_ = record.is_page;
  made.is_whole_ = false;
  made.chunk_ = record.chunk;
  made.tag_ = record.tag;
  made.seq_ = record.seq;
  made.offset_ = record.offset;
  made.length_ = record.length;
  made.replicas_ = record.replicas;
  if (record.expires_ms != 0)
    made.expires_ms_ = std::max<std::int64_t>(record.expires_ms - realtime_ms() + boottime_ms(), 1);
  made.hashes_ = std::move(record.hashes);
  made.store_ = this;
  return piece;
}

/// For the bytes of a piece that is on disk.
Reserved Store::reserve_again(const Piece& cold) {
  Space& space = state_->spaces.of(cold.name_, cold.is_page_);
  const Reason reason{Cause::evicted, namespace_of(cold.name_, cold.is_page_)};
  const std::uint64_t bytes = whole_grains(cold.length_);
  const Status status = take_bytes(space, bytes, Use::loading, reason);
  if (status != Status::ok) return {status, nullptr};
  struct Made : Piece {};
  const auto piece = std::make_shared<Made>();
  Piece& made = *piece;
  made.is_loading_ = true;
  made.space_ = &space;
  made.eviction_class_ = cold.eviction_class_;
  made.name_ = cold.name_;
  made.is_page_ = cold.is_page_;
  made.chunk_ = cold.chunk_;
  made.tag_ = cold.tag_;
  made.offset_ = cold.offset_;
  made.length_ = cold.length_;
  made.expires_ms_ = cold.expires_ms_;
  made.demote_ = demote_of(space);
  made.hashes_ = cold.hashes_;
  allocate(made);
  return {Status::ok, piece};
}

}  // namespace gd2fs
