#include "evictor.h"

#include <chrono>

#include "store.h"

namespace gd2fs {

namespace {

constexpr std::size_t EXPIRED_PER_STEP = 256;
constexpr auto TICK = std::chrono::milliseconds(250);  // how late what has expired is freed

}  // namespace

Evictor::Evictor(Index& index, Account& account, Spaces& spaces, std::uint64_t above_bytes,
                 std::uint64_t below_bytes, std::function<void(PieceRef)> write)
    : index_(index),
      account_(account),
      spaces_(spaces),
      above_bytes_(above_bytes),
      below_bytes_(below_bytes),
      write_(std::move(write)) {
  thread_ = std::thread([this] { run(); });
}

Evictor::~Evictor() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::uint64_t Evictor::evict_one(Space* only, const Reason& reason) {
  Index::Removed dirty;
  PieceRef victim = index_.take_victim(only, reason, dirty);
  for (PieceRef& each : dirty) write_(std::move(each));
  if (victim == nullptr) return 0;
  const std::uint64_t bytes = victim->taken_bytes();
  const auto policy = static_cast<std::size_t>(victim->space().policy());
  victim.reset();
  Evicted& evicted = evicted_[policy][reason.cause == Cause::over_quota ? 1 : 0];
  evicted.pieces.fetch_add(1, std::memory_order_relaxed);
  evicted.bytes.fetch_add(bytes, std::memory_order_relaxed);
  return bytes;
}

EvictedByPolicy Evictor::evicted() const noexcept {
  EvictedByPolicy counts;
  for (std::size_t policy = 0; policy < POLICIES; ++policy) {
    for (std::size_t why = 0; why < 2; ++why) {
      const Evicted& each = evicted_[policy][why];
      counts[policy][why] = {each.pieces.load(std::memory_order_relaxed),
                             each.bytes.load(std::memory_order_relaxed)};
    }
  }
  return counts;
}

void Evictor::note_used(std::uint64_t used_bytes) {
  if (used_bytes <= above_bytes_ || is_wanted_.exchange(true)) return;
  const std::lock_guard lock(mutex_);
  wake_.notify_one();
}

void Evictor::note_rules() {
  is_wanted_ = true;
  const std::lock_guard lock(mutex_);
  wake_.notify_one();
}

void Evictor::run() {
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    wake_.wait_for(lock, TICK, [this] { return is_stopping_ || is_wanted_; });
    lock.unlock();
    expire();
    evict_over_quota();
    if (is_wanted_.exchange(false)) evict_down();
    lock.lock();
  }
}

void Evictor::expire() {
  Index::Removed removed;
  do {
    removed.clear();
    index_.take_expired(boottime_ms(), EXPIRED_PER_STEP, removed);
  } while (removed.size() == EXPIRED_PER_STEP && !is_stopping_);
}

// One piece a step: a lock is never held for more than that, and a writer who is short meanwhile
// helps himself.
void Evictor::evict_down() {
  while (!is_stopping_ && account_.used_bytes() > below_bytes_) {
    if (evict_one(nullptr, {Cause::evicted}) == 0) return;
  }
}

// A quota that was lowered. What comes in is kept under it by whoever reserves, and by whoever
// writes to disk.
void Evictor::evict_over_quota() {
  for (std::size_t lane = 0; lane < spaces_.count(); ++lane) {
    Space& space = spaces_.at(lane);
    while (!is_stopping_ && space.is_over_quota()) {
      if (evict_one(&space, {Cause::over_quota, space.name()}) == 0) break;
    }
    while (!is_stopping_ && space.is_over_disk_quota()) {
      if (index_.take_coldest(space) == nullptr) break;
    }
  }
}

}  // namespace gd2fs
