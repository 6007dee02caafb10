#include "reattachment.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "account.h"
#include "eviction/space.h"
#include "index.h"
#include "name.h"
#include "store.h"

namespace gd2fs {
namespace {

/// What every piece is that was ever stored: whoever serves it relies on that.
bool is_sound(const RecordedPiece& recorded) {
  if (!is_valid_name(recorded.name, recorded.is_page) || recorded.length == 0) return false;
  if (recorded.replicas > REPLICAS_MAX || recorded.eviction_class > EVICTION_CLASSES) return false;
  if (recorded.is_page) return recorded.offset == 0 && recorded.length <= PAGE_BYTES_MAX;
  return recorded.length <= CHUNK_BYTES_MAX &&
         recorded.offset <= CHUNK_BYTES_MAX - recorded.length && recorded.tag != 0;
}

}  // namespace

void Reattachment::run(const ArenaOwner& before, const ArenaOwner& owner, ArenaRecovery& recovery) {
  const std::uint64_t begun_ns = steady_ns();
  read_records();
  recovery.partial = partial_;
  drop_unusable(before, owner, recovery);
  claim_extents(recovery);
  ledger_.own(owner);
  for (RecordedPiece& recorded : found_) enter(recorded, recovery);
  found_.clear();
  recovery.is_attached = true;
  recovery.took_ms = static_cast<double>(steady_ns() - begun_ns) / 1e6;
}

void Reattachment::read_records() {
  // Slots are given back once all slabs are known.
  std::vector<std::uint32_t> useless;
  RecordJoiner joiner([&](std::uint32_t record) { useless.push_back(record); });
  ledger_.attach([&](const ExtentRecord& record) {
    joiner.add(record, [&](RecordedPiece&& whole) { found_.push_back(std::move(whole)); });
  });
  partial_ = joiner.end();
  for (const std::uint32_t record : useless) ledger_.release(record);
}

void Reattachment::drop_unusable(const ArenaOwner& before, const ArenaOwner& owner,
                                 ArenaRecovery& recovery) {
  const std::int64_t now_ms = boottime_ms();
  const bool is_other_clock = !owner.machine.is_same(before.machine);
  std::erase_if(found_, [&](RecordedPiece& recorded) {
    const bool is_sound_one = is_sound(recorded);
    if (recorded.expires_ms != 0)
      recorded.expires_ms = owner.machine.time_of(recorded.expires_ms, before.machine);
    const bool is_over = recorded.expires_ms != 0 && recorded.expires_ms <= now_ms;
    if (is_sound_one && !is_over) {
      // Records of another clock must not be read by this one: they are written anew.
      if (recorded.expires_ms != 0 && is_other_clock) forget(recorded);
      return false;
    }
    is_sound_one ? ++recovery.expired : ++recovery.unsound;
    forget(recorded);
    return true;
  });
}

void Reattachment::forget(RecordedPiece& recorded) {
  for (Extent& extent : recorded.extents) ledger_.release(std::exchange(extent.record, 0));
}

/// In order of their offsets, which is quick. Who finds its memory taken gives up all of it.
void Reattachment::claim_extents(ArenaRecovery& recovery) {
  struct Wanted {
    Extent* extent;
    std::size_t piece;
  };
  std::vector<Wanted> wanted;
  for (std::size_t piece = 0; piece < found_.size(); ++piece) {
    for (Extent& extent : found_[piece].extents) wanted.push_back({&extent, piece});
  }
  std::sort(wanted.begin(), wanted.end(),
            [](const Wanted& a, const Wanted& b) { return a.extent->offset < b.extent->offset; });
  std::vector<bool> is_refused(found_.size(), false);
  std::vector<bool> is_claimed(wanted.size(), false);
  for (std::size_t at = 0; at < wanted.size(); ++at) {
    is_claimed[at] = allocator_.claim(*wanted[at].extent);
    if (!is_claimed[at]) is_refused[wanted[at].piece] = true;
  }
  for (std::size_t at = 0; at < wanted.size(); ++at) {
    if (is_claimed[at] && is_refused[wanted[at].piece])
      allocator_.free(std::span(wanted[at].extent, 1));
  }
  std::size_t kept = 0;
  for (std::size_t piece = 0; piece < found_.size(); ++piece) {
    if (is_refused[piece]) {
      ++recovery.unsound;
      forget(found_[piece]);
    } else if (kept++ != piece) {
      found_[kept - 1] = std::move(found_[piece]);
    }
  }
  found_.resize(kept);
}

void Reattachment::enter(RecordedPiece& recorded, ArenaRecovery& recovery) {
  struct Made : Piece {};
  const auto made = std::make_shared<Made>();
  const PieceRef piece = made;
  piece->name_ = std::move(recorded.name);
  piece->is_page_ = recorded.is_page;
  piece->chunk_ = recorded.chunk;
  piece->tag_ = recorded.tag;
  piece->offset_ = recorded.offset;
  piece->length_ = recorded.length;
  piece->expires_ms_ = recorded.expires_ms;
  piece->replicas_ = recorded.replicas;
  piece->eviction_class_ = recorded.eviction_class;
  piece->seq_ = recorded.seq;
  piece->arena_ = arena_.data();
  piece->extents_ = std::move(recorded.extents);
  piece->hashes_ = std::move(recorded.hashes);
  piece->taken_bytes_ = whole_grains(recorded.length);
  piece->checked_blocks_ = 0;
  piece->has_records_ = true;
  Space& space = spaces_.of(piece->name_, piece->is_page_);
  piece->space_ = &space;
  space.take(piece->taken_bytes());
  account_.move(Use::free, Use::filling, piece->taken_bytes());
  piece->store_ = &store_;  // from here on it gives everything back by itself
  const bool is_recorded = piece->extents_.front().record != 0;
  if (!is_recorded) store_.write_records(*piece);
  Index::Removed removed;
  bool is_first = false;
  const bool is_new =
      piece->is_page_ ? index_.add_page(piece, removed) : index_.add_staged(piece, removed);
  if (!is_new) return;
  // One that was staged waits for word from home, as ever.
  if (!piece->is_page_ && recorded.seq != 0)
    index_.publish(piece->name_, piece->chunk_, piece->tag_, recorded.seq, is_first, removed);
  piece->has_records_ = true;
  ++(piece->is_page_ ? recovery.pages : recovery.pieces);
  recovery.bytes += piece->length_;
}

}  // namespace gd2fs
