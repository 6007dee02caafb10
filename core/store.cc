#include "store.h"

#include <time.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "assertion.h"
#include "name.h"
#include "store_state.h"

namespace gd2fs {

namespace {

constexpr std::size_t FILE_STEP_PIECES = 64;  // of a dropped file, under one hold of a lock

/// At most as long as the clock has run.
std::uint64_t idle_ns(const PieceSpec& spec) {
  return std::min(spec.idle_ms, steady_ns() / 2'000'000) * 1'000'000;
}

}  // namespace

std::int64_t boottime_ms() noexcept {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

std::int64_t realtime_ms() noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

std::uint64_t steady_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

namespace {

/// The arena that is asked for, with the NUMA nodes of its regions.
ArenaOptions arena_of(const StoreOptions& options) {
  ArenaOptions arena = options.arena;
  const std::size_t bytes = Arena::whole_bytes(arena.bytes);
  arena.region_bytes = Allocator::region_bytes(bytes);
  arena.nodes =
      numa::nodes_of_regions(options.numa, (bytes + arena.region_bytes - 1) / arena.region_bytes);
  return arena;
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const StoreOptions& options) {
  const double below = options.evict_below, above = options.evict_above;
  if (!(below > 0 && below <= above && above <= 1)) {
    return Error{"watermarks " + std::to_string(below) + " and " + std::to_string(above) +
                     " do not follow each other between 0 and 1",
                 "set evict_below <= evict_above"};
  }
  auto arena = Arena::open(arena_of(options));
  if (!arena) return arena.error();
  auto store = std::make_unique<Store>(std::make_unique<State>(std::move(*arena), options));
  store->begin(options);
  if (!options.tier.disk.places.empty()) {
    if (auto opened = store->open_tier(options.tier); !opened) return opened.error();
    store->state_->index.demote_all([&](const Space& space) { return store->demote_of(space); });
  }
  store->state_->start_evictor(options);
  store->state_->evictor->note_used(store->state_->account.used_bytes());
  if (store->has_tier()) store->state_->tier->start();
  return store;
}

Store::Store(std::unique_ptr<State> state) : state_(std::move(state)) {}

/// Takes over what a kept arena holds, or formats it.
void Store::begin(const StoreOptions& options) {
  const ArenaOwner owner{options.cluster, options.node_name, options.boot, options.machine};
  ArenaOwner before;
  ArenaRecovery& recovery = state_->recovery;
  recovery.is_kept = state_->arena.rung() == Rung::file;
  if (recovery.is_kept) recovery.fault = Ledger::fault_of(state_->arena.memory(), owner, before);
  if (!recovery.is_kept || !recovery.fault.empty()) return state_->ledger.format(owner);
  Reattachment(*this, state_->arena.memory(), state_->ledger, state_->allocator, state_->account,
               state_->spaces, state_->index)
      .run(before, owner, recovery);
}

Store::~Store() {
  stop_tier(std::chrono::milliseconds(0));
  state_->evictor.reset();
  state_->index.set_disk(nullptr);
  if (state_->recovery.is_kept) state_->ledger.freeze();
  state_->index.clear_all();
  state_->tier.reset();
  const Account::Sums sums = state_->account.sums();
  // A reference that is left would read memory that is no longer mapped.
  GD2FS_ASSERT(sums[static_cast<std::size_t>(Use::filling)] == 0);
  GD2FS_ASSERT(sums[static_cast<std::size_t>(Use::loading)] == 0);
  GD2FS_ASSERT(sums[static_cast<std::size_t>(Use::zombie)] == 0);
}

Reserved Store::reserve(const PieceSpec& spec) {
  const std::uint64_t length_max = spec.is_page ? PAGE_BYTES_MAX : CHUNK_BYTES_MAX;
  if (spec.length == 0 || spec.length > length_max || spec.name.size() > NAME_BYTES_MAX)
    return {Status::full, nullptr};
  if (has(spec)) return {Status::have, nullptr};
  const std::uint64_t bytes = whole_grains(spec.length);
  if (spec.is_moved && would_go_next(spec, bytes)) return {Status::full, nullptr};
  Space& space = state_->spaces.of(spec.name, spec.is_page);
  const Reason reason{Cause::evicted, namespace_of(spec.name, spec.is_page)};
  const Status status = take_bytes(space, bytes, Use::filling, reason);
  if (status == Status::ok) return {status, make_piece(space, spec)};
  if (status == Status::full && space.is_pinned_full(bytes)) {
    const Reason refused{Cause::over_quota, space.name()};
    note_refused(spec.name, spec.is_page, spec.chunk, spec.tag, spec.length, refused);
  }
  return {status, nullptr};
}

/// Of the quota, then of memory.
Status Store::take_bytes(Space& space, std::uint64_t bytes, Use use, const Reason& reason) {
  if (const Status status = take_quota(space, bytes); status != Status::ok) return status;
  const Status status = take_memory(bytes, use, reason);
  if (status != Status::ok) space.give_back(bytes);
  return status;
}

/// Over its quota a namespace makes room among its own.
Status Store::take_quota(Space& space, std::uint64_t bytes) {
  const Reason reason{Cause::over_quota, space.name()};
  std::uint64_t evicted = 0;
  while (!space.try_take(bytes)) {
    if (space.is_pinned_full(bytes)) return Status::full;
    const std::uint64_t freed =
        evicted < bytes + EVICT_SLACK_BYTES ? state_->evictor->evict_one(&space, reason) : 0;
    if (freed == 0) return Status::retry;
    evicted += freed;
  }
  return Status::ok;
}

Status Store::take_memory(std::uint64_t bytes, Use use, const Reason& reason) {
  std::uint64_t evicted = 0;
  for (;;) {
    const Account::Admission admission = state_->account.admit(bytes, use);
    if (admission.verdict == Account::Verdict::admitted) {
      state_->evictor->note_used(state_->arena.bytes() - admission.free_bytes);
      return Status::ok;
    }
    const bool is_pinned_full = state_->spaces.pinned_bytes() + bytes > state_->arena.bytes();
    if (admission.verdict == Account::Verdict::too_large || is_pinned_full) return Status::full;
    if (admission.verdict == Account::Verdict::busy) return Status::retry;
    // Short of bytes. What we free another writer may take: the budget ends that.
    const std::uint64_t freed =
        evicted < bytes + EVICT_SLACK_BYTES ? state_->evictor->evict_one(nullptr, reason) : 0;
    if (freed == 0) return Status::retry;
    evicted += freed;
  }
}

Status Store::publish_page(const PieceRef& piece) {
  GD2FS_ASSERT(piece->is_page_ && piece->state() == PieceState::filling);
  Index::Removed removed;
  // Recorded before anyone can drop it: a dropped page never comes back. What nobody was told of
  // may.
  write_records(*piece);
  if (!state_->index.add_page(piece, removed)) return Status::have;
  if (has_tier()) state_->tier->note_published(piece, piece->demote_);
  return Status::ok;
}

Status Store::stage(const PieceRef& piece) {
  GD2FS_ASSERT(!piece->is_page_ && piece->state() == PieceState::filling);
  Index::Removed removed;
  // Its commit may be acknowledged from here on, and has to find it after a restart.
  if (state_->recovery.is_kept) write_records(*piece);
  return state_->index.add_staged(piece, removed) ? Status::ok : Status::have;
}

Status Store::publish(std::string_view name, std::uint64_t chunk, std::uint64_t tag,
                      std::uint64_t seq) {
  Index::Removed removed;
  bool is_first = false;
  const PieceRef piece = state_->index.publish(name, chunk, tag, seq, is_first, removed);
  if (piece == nullptr) return Status::miss;
  if (is_first) write_records(*piece);
  if (is_first && has_tier()) state_->tier->note_published(piece, piece->demote_);
  return Status::ok;
}

void Store::warm_pages(std::span<const std::string_view> names) const {
  state_->index.warm_pages(names);
}

std::uint64_t Store::hash_of(std::string_view name) const noexcept {
  return state_->index.hash_of(name);
}

PieceRef Store::find_page(std::string_view name, bool is_use) {
  return state_->index.find_page(name, is_use);
}

PieceRef Store::find_piece(std::string_view name, std::uint64_t chunk, std::uint64_t tag,
                           bool is_use) {
  return state_->index.find_piece(name, chunk, tag, is_use);
}

PieceRef Store::find_latest(std::string_view name, std::uint64_t chunk, std::uint64_t offset,
                            std::uint64_t length, bool is_use) {
  return state_->index.find_latest(name, chunk, offset, length, is_use);
}

std::vector<PieceRef> Store::find_live(std::string_view name, std::uint64_t chunk,
                                       std::uint64_t tag, std::uint64_t offset,
                                       std::uint64_t length) {
  return state_->index.find_live(name, chunk, tag, offset, length);
}

void Store::walk(Cursor& cursor, const Visitor& visit) const { state_->index.walk(cursor, visit); }

bool Store::drop(const PieceRef& piece, Cause cause) {
  return state_->index.take(piece, {cause}) != nullptr;
}

bool Store::drop_page(std::string_view name) {
  return state_->index.take_page(name, {Cause::dropped}) != nullptr;
}

bool Store::drop_piece(std::string_view name, std::uint64_t chunk, std::uint64_t tag, Cause cause) {
  return state_->index.take_piece(name, chunk, tag, {cause}) != nullptr;
}

bool Store::forget(std::string_view name, std::uint64_t chunk, std::uint64_t tag) {
  return state_->index.take_staged(name, chunk, tag, {Cause::unlisted}) != nullptr;
}

std::size_t Store::drop_file(std::string_view name) {
  std::size_t count = 0;
  Index::Removed removed;
  do {
    removed.clear();
    state_->index.take_some_of_file(name, FILE_STEP_PIECES, {Cause::dropped}, removed);
    count += removed.size();
  } while (removed.size() == FILE_STEP_PIECES);
  return count;
}

std::size_t Store::clear(std::string_view name_space) {
  return state_->index.clear(name_space, [](Index::Removed& removed) { removed.clear(); });
}

void Store::quarantine(const PieceRef& piece) {
  if (state_->index.take(piece, {Cause::corrupt}) != nullptr) ++state_->corrupt_pieces;
}

std::vector<wire::ListEntry> Store::list_pages(std::string_view name_space, std::string_view after,
                                               std::size_t count_max, bool& more) {
  // The smallest keys seen so far, and one more, which tells that others follow.
  std::map<std::string, std::uint64_t, std::less<>> keys;
  const std::size_t skip = name_space.size() + 1;
  state_->index.visit_pages(name_space, [&](const Piece& page) {
    const std::string_view key = std::string_view(page.name()).substr(skip);
    if (!after.empty() && key <= after) return;
    if (keys.size() > count_max && key >= keys.rbegin()->first) return;
    keys.emplace(key, page.length());
    if (keys.size() > count_max + 1) keys.erase(std::prev(keys.end()));
  });
  more = keys.size() > count_max;
  if (more) keys.erase(std::prev(keys.end()));
  std::vector<wire::ListEntry> entries;
  for (const auto& [key, bytes] : keys) entries.push_back({key, bytes});
  return entries;
}

std::vector<Store::StagedName> Store::staged_before(std::int64_t boottime_ms,
                                                    std::size_t count_max) {
  std::vector<StagedName> names;
  state_->index.staged_before(boottime_ms, count_max, [&](const Piece& piece) {
    names.push_back({piece.name(), piece.chunk(), piece.tag()});
  });
  return names;
}

Status Store::pin(const PieceRef& piece) { return state_->index.pin(piece); }

void Store::unpin(const PieceRef& piece) { state_->index.unpin(piece); }

Status Store::set_rules(std::string_view name_space, const NamespaceRules& rules) {
  if (state_->spaces.set(name_space, rules) == nullptr) return Status::full;
  state_->index.settle_spaces();
  state_->evictor->note_rules();
  return Status::ok;
}

std::uint32_t Store::ttl_of(std::string_view name, bool is_page) const {
  return state_->spaces.of(name, is_page).ttl_s();
}

RulesRef Store::rules_of(std::string_view name, bool is_page) {
  return state_->spaces.of(name, is_page).rules();
}

std::vector<Store::SpaceCounts> Store::spaces() const {
  std::vector<SpaceCounts> all;
  for (std::size_t lane = 0; lane < state_->spaces.count(); ++lane) {
    const Space& space = state_->spaces.at(lane);
    all.push_back({space.name(), space.bytes(), space.pinned_bytes(), space.disk_bytes(),
                   space.quota_bytes(), space.disk_quota_bytes()});
  }
  return all;
}

Store::Holding Store::holding_of(std::string_view name, bool is_page) {
  Holding here;
  state_->index.visit_name(name, is_page, [&](const Piece& piece) {
    ++here.pieces;
    if (here.ranges.size() < Holding::RANGES_MAX)
      here.ranges.push_back({piece.chunk(), piece.offset(), piece.length()});
    if (piece.is_whole()) here.memory_bytes += piece.length();
    if (piece.disk_bytes() != 0) here.disk_bytes += piece.length();
    if (piece.is_pinned()) here.pinned_bytes += piece.length();
    here.replicas = std::max(here.replicas, piece.replicas());
  });
  return here;
}

numa::Spread Store::spread() const {
  const Arena& arena = state_->arena;
  const std::size_t region = Allocator::region_bytes(arena.bytes());
  std::map<int, std::uint64_t> bytes;
  for (std::size_t at = 0; at < arena.nodes().size(); ++at)
    bytes[arena.nodes()[at]] += std::min(region, arena.bytes() - at * region);
  return {{bytes.begin(), bytes.end()},
          arena.nodes_fault(),
          state_->allocator.near_bytes(),
          state_->allocator.far_bytes()};
}

const Departures& Store::departures() const { return state_->departures; }

void Store::note_refused(std::string_view name, bool is_page, std::uint64_t chunk,
                         std::uint64_t tag, std::uint64_t bytes, const Reason& reason) {
  const PolicyKind policy = state_->spaces.of(name, is_page).policy();
  state_->departures.note(name, chunk, tag, bytes, policy, reason);
}

StoreCounts Store::counts() const {
  const Account::Sums sums = state_->account.sums();
  const auto of = [&](Use use) { return sums[static_cast<std::size_t>(use)]; };
  StoreCounts counts;
  counts.arena_bytes = state_->arena.bytes();
  counts.free_bytes = of(Use::free);
  counts.filling_bytes = of(Use::filling);
  counts.staged_bytes = of(Use::staged);
  counts.live_bytes = of(Use::live);
  counts.zombie_bytes = of(Use::zombie);
  counts.loading_bytes = of(Use::loading);
  counts.record_bytes = of(Use::records);
  counts.pages = state_->index.pages();
  counts.pieces = state_->index.pieces();
  for (const auto& policy : state_->evictor->evicted()) {
    for (const EvictedCounts& each : policy) {
      counts.evicted_pieces += each.pieces;
      counts.evicted_bytes += each.bytes;
    }
  }
  counts.free_runs = state_->allocator.free_runs();
  counts.longest_free_bytes = state_->allocator.longest_free_bytes();
  counts.expired_pieces = state_->index.expired();
  counts.corrupt_pieces = state_->corrupt_pieces.load();
  if (has_tier()) add_tier_counts(counts);
  return counts;
}

EvictedByPolicy Store::evicted() const { return state_->evictor->evicted(); }

const ArenaRecovery& Store::recovery() const { return state_->recovery; }

bool Store::is_safe(const Piece& piece) const {
  const auto& extents = piece.extents_;
  return state_->recovery.is_kept && piece.has_records_ && piece.state() == PieceState::live &&
         std::none_of(extents.begin(), extents.end(),
                      [](const Extent& extent) { return extent.record == 0; });
}

const Arena& Store::arena() const { return state_->arena; }

/// There is no room without eviction, and nothing here is older.
bool Store::would_go_next(const PieceSpec& spec, std::uint64_t bytes) const {
  if (has_tier()) return false;  // what goes is on disk
  if (state_->account.used_bytes() + bytes <= state_->evictor->below_bytes()) return false;
  return steady_ns() - idle_ns(spec) <= state_->index.oldest_ns();
}

bool Store::has(const PieceSpec& spec) {
  const PieceRef piece = spec.is_page ? find_page(spec.name, !spec.is_moved)
                                      : find_piece(spec.name, spec.chunk, spec.tag, false);
  if (piece == nullptr) return false;
  if (!is_complete(*piece)) {  // parts of it were let go: it comes anew
    drop(piece, Cause::advice);
    return false;
  }
  // Whoever is told that it is here sends no bytes: so it has to be.
  while (!piece->is_checked()) {
    if (piece->check_some()) continue;
    quarantine(piece);
    return false;
  }
  piece->raise_replicas(spec.replicas);
  return true;
}

// The bytes are admitted: the account holds them as filling.
PieceRef Store::make_piece(Space& space, const PieceSpec& spec) {
  struct Made : Piece {};
  const auto piece = std::make_shared<Made>();
  Piece& made = *piece;
  made.name_ = spec.name;
  made.is_page_ = spec.is_page;
  made.chunk_ = spec.chunk;
  made.tag_ = spec.tag;
  made.offset_ = spec.offset;
  made.length_ = spec.length;
  made.space_ = &space;
  made.eviction_class_ = spec.eviction_class;
  const std::uint32_t ttl_s = spec.ttl_s != 0 || spec.is_moved ? spec.ttl_s : space.ttl_s();
  made.expires_ms_ = ttl_s == 0 ? 0 : boottime_ms() + std::int64_t{ttl_s} * 1000;
  made.replicas_ = spec.replicas;
  made.settled_epoch_ = spec.epoch;
  made.idle_ns_ = idle_ns(spec);
  made.demote_ = demote_of(space);
  made.hashes_.resize(wire::blocks_of(spec.length));
  allocate(made);
  return piece;
}

void Store::allocate(Piece& piece) {
  piece.arena_ = state_->arena.memory().data();
  // The allocator frees before the account does: what is admitted is there.
  GD2FS_ASSERT(state_->allocator.allocate(piece.length_, piece.extents_));
  piece.taken_bytes_ = whole_grains(piece.length_);
  piece.store_ = this;
}

// The piece is in the index by now. When it was removed meanwhile, the records are struck here or
// there (Index::retire).
void Store::write_records(Piece& piece) {
  ExtentRecord record;
  record.name = piece.name_;
  record.is_page = piece.is_page_;
  record.replicas = piece.replicas();
  record.eviction_class = piece.eviction_class_;
  record.chunk = piece.chunk_;
  record.tag = piece.tag_;
  record.seq = piece.seq();
  record.offset = piece.offset_;
  record.length = piece.length_;
  record.expires_ms = piece.expires_ms_;
  thread_local std::vector<std::uint32_t> written;
  written.clear();
  for (const Extent& extent : piece.extents_) {
    record.extent = extent;
    const std::size_t first = wire::blocks_of(extent.place);
    const std::size_t last = wire::blocks_of(std::uint64_t{extent.place} + extent.bytes);
    record.hashes = piece.hashes().subspan(first, last - first);
    written.push_back(state_->ledger.write(record));
  }
  // Those of a staged piece go once all of its new ones are there: it is whole at any moment.
  const bool is_whole = std::find(written.begin(), written.end(), 0u) == written.end();
  for (std::size_t at = 0; is_whole && at < written.size(); ++at)
    std::swap(piece.extents_[at].record, written[at]);
  for (const std::uint32_t useless : written) state_->ledger.release(useless);
  piece.has_records_ = true;
  if (piece.state() != PieceState::zombie) return;
  for (const Extent& extent : piece.extents_) state_->ledger.strike(extent.record);
}

void Store::let_go(Piece& piece) {
  const PieceState state = piece.state();
  GD2FS_ASSERT(state == PieceState::filling || state == PieceState::zombie);
  for (const Extent& extent : piece.extents_) state_->ledger.release(extent.record);
  state_->allocator.free(piece.extents_);
  piece.space().give_back(piece.taken_bytes());
  const Use filling = piece.is_loading_ ? Use::loading : Use::filling;
  state_->account.move(state == PieceState::filling ? filling : Use::zombie, Use::free,
                       piece.taken_bytes());
}

}  // namespace gd2fs
