#include "index.h"

#include <sys/random.h>
#include <time.h>
#include <xxhash.h>

#include <algorithm>
#include <mutex>

#include "assertion.h"
#include "index_shard.h"
#include "name.h"
#include "planted.h"
#include "store.h"

namespace gd2fs {

namespace {

constexpr std::size_t LOOKED_MAX = 4096;       // pieces looked at for one victim
constexpr std::size_t BUCKETS_PER_STEP = 256;  // visited under one hold of a lock
constexpr std::size_t REMOVED_PER_STEP = 64;
constexpr std::size_t NAME_PIECES_MAX = 16 * 1024;  // of one file, looked at under one hold
constexpr std::size_t WARM_LOT = 32;                // look-ups prefetched side by side
constexpr std::size_t WARM_PAGES_MIN = 64 * 1024;   // fewer are in a core's caches, or near
constexpr std::size_t DIRTY_MAX = 64;               // passed over for one victim

std::int64_t clock_ms(clockid_t clock) noexcept {
  timespec now{};
  clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  GD2FS_ASSERT(getrandom(&seed, sizeof seed, 0) == sizeof seed);
  return seed;
}

}  // namespace

Index::Moment Index::Moment::now() noexcept {
  return {clock_ms(CLOCK_BOOTTIME), gd2fs::steady_ns()};
}

Index::Index(Account& account, Ledger& ledger, Spaces& spaces, Departures& departures)
    : account_(account),
      ledger_(ledger),
      spaces_(spaces),
      departures_(departures),
      seed_(random_seed()) {
  for (std::size_t number = 0; number < SHARDS; ++number)
    shards_[number] = std::make_unique<Shard>(spaces, number);
}

Index::~Index() { clear_all(); }

void Index::clear_all() {
  for (auto& shard : shards_) {
    Removed removed;
    const auto take = [&](Piece& piece) { removed.push_back(retire(*shard, piece, {})); };
    const std::lock_guard lock(shard->mutex);
    for (std::size_t bucket = 0; bucket < shard->pages.buckets(); ++bucket)
      shard->pages.visit(bucket, take);
    while (const std::string* const name = shard->files.next_name("")) {
      for (Piece* const piece : shard->files.some_of(*name, REMOVED_PER_STEP)) take(*piece);
    }
  }
}

bool Index::add_page(const PieceRef& page, Removed& removed) {
  page->name_hash_ = hash_of(page->name_);
  Shard& shard = shard_of(page->name_hash_);
  const Moment now = Moment::now();
  const std::lock_guard lock(shard.mutex);
  if (Piece* const other = shard.pages.find(page->name_, page->name_hash_)) {
    if (other->expires_ms_ == 0 || other->expires_ms_ > now.boottime_ms) return false;
    removed.push_back(retire(shard, *other, {Cause::expired}));
    ++expired_;
  }
  shard.pages.add(*page);
  enter(shard, page, PieceState::live, now);
  return true;
}

bool Index::add_staged(const PieceRef& piece, Removed& removed) {
  piece->name_hash_ = hash_of(piece->name_);
  Shard& shard = shard_of(piece->name_hash_);
  const Moment now = Moment::now();
  const std::lock_guard lock(shard.mutex);
  if (shard.files.find(piece->name_, piece->chunk_, piece->tag_) != nullptr) return false;
  const FileTable::Chunk* const chunk = shard.files.chunk(piece->name_, piece->chunk_);
  if (chunk != nullptr && chunk->size() >= PIECES_PER_CHUNK_MAX) {
    const auto oldest = std::min_element(
        chunk->begin(), chunk->end(),
        [](const auto& a, const auto& b) { return a.piece->staged_ms_ < b.piece->staged_ms_; });
    removed.push_back(retire(shard, *oldest->piece, {Cause::superseded}));
  }
  shard.files.add(*piece);
  enter(shard, piece, PieceState::staged, now);
  return true;
}

PieceRef Index::publish(std::string_view name, std::uint64_t chunk, std::uint64_t tag,
                        std::uint64_t seq, bool& is_first, Removed& removed) {
  is_first = false;
  Shard& shard = shard_of(hash_of(name));
  const std::lock_guard lock(shard.mutex);
  Piece* const piece = shard.files.find(name, chunk, tag);
  if (piece == nullptr) return nullptr;
  PieceRef found = piece->indexed_;
  if (piece->state() == PieceState::live) return found;
  is_first = true;
  shard.staged.erase({piece->staged_ms_, piece});
  piece->seq_ = seq;
  piece->has_records_ = false;  // they are written anew by the caller
  piece->state_ = PieceState::live;
  account_.move(Use::staged, Use::live, piece->taken_bytes());
  ++pieces_;
  make_dirty(shard, *piece);
  if (is_planted("serve_old_copy")) return found;  // it needs old copies
  for (Piece* const old : shard.files.covered_by(*piece))
    removed.push_back(retire(shard, *old, {Cause::superseded}));
  return found;
}

/// As if all shards had as many pages as the first.
bool Index::is_past_caches() const {
  const Shard& shard = *shards_.front();
  const std::lock_guard lock(shard.mutex);
  return shard.pages.count() * shards_.size() >= WARM_PAGES_MIN;
}

void Index::warm_pages(std::span<const std::string_view> names) const {
  if (names.empty() || !is_past_caches()) return;
  std::array<std::uint64_t, WARM_LOT> hashes;
  while (!names.empty()) {
    const auto lot = names.first(std::min(names.size(), WARM_LOT));
    names = names.subspan(lot.size());
    for (std::size_t i = 0; i < lot.size(); ++i) hashes[i] = hash_of(lot[i]);
    const auto for_each = [&](auto&& step) {
      for (std::size_t i = 0; i < lot.size(); ++i) {
        const Shard& shard = shard_of(hashes[i]);
        const std::lock_guard lock(shard.mutex);
        step(shard.pages, hashes[i]);
      }
    };
    // Each step touches what the one before has asked for, and waits for none of it.
    for_each([](const PageTable& pages, std::uint64_t hash) { pages.prefetch_bucket(hash); });
    for_each([](const PageTable& pages, std::uint64_t hash) { pages.prefetch_page(hash); });
    for_each([](const PageTable& pages, std::uint64_t hash) { pages.prefetch_rest(hash); });
  }
}

PieceRef Index::find_page(std::string_view name, bool is_use) {
  const std::uint64_t hash = hash_of(name);
  Shard& shard = shard_of(hash);
  PieceRef expired;  // let go after the lock
  const std::lock_guard lock(shard.mutex);
  return give(shard, shard.pages.find(name, hash), is_use, expired);
}

PieceRef Index::find_piece(std::string_view name, std::uint64_t chunk, std::uint64_t tag,
                           bool is_use) {
  Shard& shard = shard_of(hash_of(name));
  PieceRef expired;
  const std::lock_guard lock(shard.mutex);
  return give(shard, shard.files.find(name, chunk, tag), is_use, expired);
}

PieceRef Index::find_latest(std::string_view name, std::uint64_t chunk, std::uint64_t offset,
                            std::uint64_t length, bool is_use) {
  Shard& shard = shard_of(hash_of(name));
  PieceRef expired;
  const std::lock_guard lock(shard.mutex);
  return give(shard, shard.files.find_latest(name, chunk, offset, length), is_use, expired);
}

std::vector<PieceRef> Index::find_live(std::string_view name, std::uint64_t chunk,
                                       std::uint64_t tag, std::uint64_t offset,
                                       std::uint64_t length) {
  Shard& shard = shard_of(hash_of(name));
  std::vector<PieceRef> found;
  const std::lock_guard lock(shard.mutex);
  const FileTable::Chunk* const pieces = shard.files.chunk(name, chunk);
  if (pieces == nullptr) return found;
  for (const auto& [own_tag, piece] : *pieces) {
    const bool is_meant = tag == 0 || own_tag == tag;
    const bool touches = piece->offset() - std::min(piece->offset(), offset) < length &&
                         offset - std::min(piece->offset(), offset) < piece->length();
    if (is_meant && touches && piece->state() == PieceState::live) found.push_back(piece->indexed_);
  }
  return found;
}

void Index::walk(Cursor& cursor,
                 const std::function<void(const PieceRef&, std::uint64_t used_ns)>& visit) const {
  if (cursor.is_over) return;
  const Shard& shard = *shards_[cursor.shard];
  const auto look = [&](const Piece& piece) {
    if (piece.state() == PieceState::live) visit(piece.indexed_, piece.use_.used_ns);
  };
  const std::lock_guard lock(shard.mutex);
  if (!cursor.is_in_files) {
    const std::size_t buckets = shard.pages.buckets();
    if (std::exchange(cursor.buckets, buckets) != buckets) cursor.bucket = 0;
    const std::size_t end = std::min(cursor.bucket + BUCKETS_PER_STEP, buckets);
    for (; cursor.bucket < end; ++cursor.bucket) shard.pages.visit(cursor.bucket, look);
    cursor.is_in_files = cursor.bucket == buckets;
    return;
  }
  if (shard.files.visit(cursor.file, BUCKETS_PER_STEP, look)) return;
  const std::size_t next = cursor.shard + 1;
  cursor = Cursor{};
  cursor.shard = next;
  cursor.is_over = next == SHARDS;
}

std::uint64_t Index::oldest_ns() const noexcept {
  const auto next = spaces_.choose(nullptr, NEVER_NS);
  return next ? next->pick.used_ns : NEVER_NS;
}

PieceRef Index::take_page(std::string_view name, const Reason& reason) {
  const std::uint64_t hash = hash_of(name);
  Shard& shard = shard_of(hash);
  const std::lock_guard lock(shard.mutex);
  Piece* const piece = shard.pages.find(name, hash);
  return piece == nullptr ? nullptr : retire(shard, *piece, reason);
}

PieceRef Index::take_piece(std::string_view name, std::uint64_t chunk, std::uint64_t tag,
                           const Reason& reason) {
  Shard& shard = shard_of(hash_of(name));
  const std::lock_guard lock(shard.mutex);
  Piece* const piece = shard.files.find(name, chunk, tag);
  return piece == nullptr ? nullptr : retire(shard, *piece, reason);
}

PieceRef Index::take_staged(std::string_view name, std::uint64_t chunk, std::uint64_t tag,
                            const Reason& reason) {
  Shard& shard = shard_of(hash_of(name));
  const std::lock_guard lock(shard.mutex);
  Piece* const piece = shard.files.find(name, chunk, tag);
  const bool is_staged = piece != nullptr && piece->state() == PieceState::staged;
  return is_staged ? retire(shard, *piece, reason) : nullptr;
}

PieceRef Index::take(const PieceRef& piece, const Reason& reason) {
  Shard& shard = shard_of(hash_of(piece->name_));
  const std::lock_guard lock(shard.mutex);
  return piece->indexed_ == nullptr ? nullptr : retire(shard, *piece, reason);
}

void Index::take_some_of_file(std::string_view name, std::size_t count_max, const Reason& reason,
                              Removed& removed) {
  Shard& shard = shard_of(hash_of(name));
  const std::lock_guard lock(shard.mutex);
  for (Piece* const piece : shard.files.some_of(name, count_max))
    removed.push_back(retire(shard, *piece, reason));
}

void Index::take_expired(std::int64_t boottime_ms, std::size_t count_max, Removed& removed) {
  for (auto& shard : shards_) {
    const std::lock_guard lock(shard->mutex);
    while (removed.size() < count_max && !shard->expiring.empty()) {
      const auto [expires_ms, piece] = *shard->expiring.begin();
      if (expires_ms > boottime_ms) break;
      removed.push_back(retire(*shard, *piece, {Cause::expired}));
      ++expired_;
    }
  }
}

// What is held or young is passed over, and counts as used from `now` on: when nothing before that
// is left, all of it is.
PieceRef Index::take_victim(Space* only, const Reason& reason, Removed& dirty) {
  const Moment now = Moment::now();
  for (std::size_t looked = 0; looked < LOOKED_MAX && dirty.size() < DIRTY_MAX;) {
    const auto choice = spaces_.choose(only, now.steady_ns);
    if (!choice) return nullptr;
    if (PieceRef victim = victim_of(*choice, now, reason, looked, dirty)) return victim;
  }
  return nullptr;
}

PieceRef Index::victim_of(const Spaces::Choice& choice, Moment now, const Reason& reason,
                          std::size_t& looked, Removed& dirty) {
  Shard& shard = *shards_[choice.pick.shard];
  const std::lock_guard lock(shard.mutex);
  EvictionPolicy* const order = shard.lanes.order_of(*choice.space, choice.policy);
  for (; order != nullptr && looked < LOOKED_MAX && dirty.size() < DIRTY_MAX; ++looked) {
    EvictionHook* const hook = order->head(choice.pick.queue);
    if (hook == nullptr || hook->used_ns > choice.pick.until_ns) break;
    Piece& piece = *hook->piece;
    const bool is_young =
        piece.state() == PieceState::staged && now.boottime_ms - piece.staged_ms_ < STAGED_MS;
    // Nobody gets a new reference but under this lock: when ours is the only one, it stays so.
    if (is_young || piece.indexed_.use_count() > 1) {
      order->passed_over(*hook, now.steady_ns);
    } else if (is_to_write(piece)) {
      dirty.push_back(piece.indexed_);
      order->passed_over(*hook, now.steady_ns);
    } else if (order->is_let_go(*hook, gd2fs::steady_ns())) {
      return evict(shard, piece, reason);
    }
  }
  ++looked;
  return nullptr;
}

Status Index::pin(const PieceRef& piece) {
  Shard& shard = shard_of(hash_of(piece->name_));
  const std::lock_guard lock(shard.mutex);
  if (piece->indexed_ == nullptr || !piece->is_whole_) return Status::miss;
  return shard.lanes.pin(*piece) ? Status::ok : Status::full;
}

void Index::unpin(const PieceRef& piece) {
  Shard& shard = shard_of(hash_of(piece->name_));
  const std::lock_guard lock(shard.mutex);
  if (piece->indexed_ != nullptr) shard.lanes.unpin(*piece, gd2fs::steady_ns());
}

// First the orders, oldest first; then what is in none, pinned, say.
void Index::settle_spaces() {
  for (auto& shard : shards_) {
    const std::lock_guard lock(shard->mutex);
    for (std::size_t lane = 0; lane < spaces_.count(); ++lane)
      shard->lanes.settle(spaces_.at(lane));
    for (std::size_t bucket = 0; bucket < shard->pages.buckets(); ++bucket)
      shard->pages.visit(bucket, [&](Piece& page) { shard->lanes.settle(page); });
    FilePlace place;
    while (shard->files.visit(place, BUCKETS_PER_STEP,
                              [&](Piece& piece) { shard->lanes.settle(piece); })) {
    }
  }
}

void Index::visit_pages(std::string_view name_space,
                        const std::function<void(const Piece&)>& visit) {
  for (auto& shard : shards_) {
    std::size_t buckets = 0;
    for (std::size_t bucket = 0;;) {
      const std::lock_guard lock(shard->mutex);
      if (std::exchange(buckets, shard->pages.buckets()) != shard->pages.buckets())
        bucket = 0;  // it grew
      const std::size_t end = std::min(bucket + BUCKETS_PER_STEP, buckets);
      for (; bucket < end; ++bucket) {
        shard->pages.visit(bucket, [&](Piece& page) {
          if (namespace_of(page.name_, true) == name_space) visit(page);
        });
      }
      if (bucket == buckets) break;
    }
  }
}

void Index::visit_name(std::string_view name, bool is_page,
                       const std::function<void(const Piece&)>& visit) {
  const std::uint64_t hash = hash_of(name);
  Shard& shard = shard_of(hash);
  const std::lock_guard lock(shard.mutex);
  if (is_page) {
    if (const Piece* const page = shard.pages.find(name, hash)) visit(*page);
    return;
  }
  for (const Piece* const piece : shard.files.some_of(name, NAME_PIECES_MAX))
    if (piece->state() == PieceState::live) visit(*piece);
}

std::size_t Index::clear(std::string_view name_space,
                         const std::function<void(Removed&)>& release) {
  std::size_t count = 0;
  for (auto& shard : shards_) {
    std::size_t buckets = 0;
    for (std::size_t bucket = 0; bucket == 0 || bucket < buckets;) {
      Removed removed;
      {
        const std::lock_guard lock(shard->mutex);
        if (std::exchange(buckets, shard->pages.buckets()) != shard->pages.buckets()) bucket = 0;
        const std::size_t end = std::min(bucket + BUCKETS_PER_STEP, buckets);
        for (; bucket < end && removed.size() < REMOVED_PER_STEP; ++bucket) {
          shard->pages.visit(bucket, [&](Piece& page) {
            if (namespace_of(page.name_, true) == name_space)
              removed.push_back(retire(*shard, page, {Cause::dropped}));
          });
        }
      }
      count += removed.size();
      release(removed);
    }
    clear_files(*shard, name_space, release, count);
  }
  return count;
}

void Index::clear_files(Shard& shard, std::string_view name_space,
                        const std::function<void(Removed&)>& release, std::size_t& count) {
  const std::string prefix = "/" + std::string(name_space) + "/";
  for (;;) {
    Removed removed;
    {
      const std::lock_guard lock(shard.mutex);
      const std::string* name = shard.files.next_name(prefix);
      if (name == nullptr || !name->starts_with(prefix)) return;
      for (Piece* const piece : shard.files.some_of(*name, REMOVED_PER_STEP))
        removed.push_back(retire(shard, *piece, {Cause::dropped}));
    }
    count += removed.size();
    release(removed);
  }
}

void Index::staged_before(std::int64_t boottime_ms, std::size_t count_max,
                          const std::function<void(const Piece&)>& visit) const {
  std::size_t count = 0;
  for (const auto& shard : shards_) {
    const std::lock_guard lock(shard->mutex);
    for (const auto& [staged_ms, piece] : shard->staged) {
      if (count == count_max || staged_ms > boottime_ms) break;
      visit(*piece);
      ++count;
    }
  }
}

std::uint64_t Index::hash_of(std::string_view name) const noexcept {
  return XXH3_64bits_withSeed(name.data(), name.size(), seed_);
}

// The table inside a shard uses the low bits.
Index::Shard& Index::shard_of(std::uint64_t hash) const noexcept {
  return *shards_[(hash >> 32) % SHARDS];
}

void Index::enter(Shard& shard, const PieceRef& piece, PieceState state, Moment now) {
  GD2FS_ASSERT(piece->state() == PieceState::filling && piece->indexed_ == nullptr);
  piece->indexed_ = piece;
  piece->staged_ms_ = now.boottime_ms;
  piece->state_ = state;
  const bool is_live = state == PieceState::live;
  const Use from = piece->is_loading_ ? Use::loading : Use::filling;
  account_.move(from, is_live ? Use::live : Use::staged, piece->taken_bytes());
  if (is_live) {
    ++(piece->is_page_ ? pages_ : pieces_);
    make_dirty(shard, *piece);
  } else {
    shard.staged.insert({piece->staged_ms_, piece.get()});
  }
  if (piece->expires_ms_ != 0) shard.expiring.insert({piece->expires_ms_, piece.get()});
  shard.lanes.add(*piece, now.steady_ns, now.steady_ns - piece->idle_ns_);
}

// Live or staged -> zombie: found by nobody from here on, freed when the last reference goes.
PieceRef Index::retire(Shard& shard, Piece& piece, const Reason& reason) {
  const PieceState state = piece.state();
  if (piece.is_page_)
    shard.pages.remove(piece);
  else
    shard.files.remove(piece);
  if (state == PieceState::staged)
    shard.staged.erase({piece.staged_ms_, &piece});
  else
    --(piece.is_page_ ? pages_ : pieces_);
  if (piece.expires_ms_ != 0) shard.expiring.erase({piece.expires_ms_, &piece});
  shard.lanes.remove(piece);
  departures_.note(piece, reason);
  make_clean(shard, piece);
  if (piece.taken_bytes_ == 0) count_cold(piece, false);
  strike(piece);
  account_.move(state == PieceState::live ? Use::live : Use::staged, Use::zombie,
                piece.taken_bytes());
  // Either we see the records here, or the one who writes them sees the zombie: they are struck in
  // any case.
  piece.state_ = PieceState::zombie;
  if (piece.has_records_) {
    for (const Extent& extent : piece.extents_) ledger_.strike(extent.record);
  }
  return std::move(piece.indexed_);
}

PieceRef Index::give(Shard& shard, Piece* piece, bool is_use, PieceRef& expired) {
  if (piece == nullptr) return nullptr;
  if (piece->expires_ms_ != 0 && piece->expires_ms_ <= clock_ms(CLOCK_BOOTTIME)) {
    expired = retire(shard, *piece, {Cause::expired});
    ++expired_;
    return nullptr;
  }
  if (is_use) shard.lanes.use(*piece, steady_ns());
  return piece->indexed_;
}

}  // namespace gd2fs
