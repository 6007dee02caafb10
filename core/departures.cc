#include "departures.h"

#include <time.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>

#include "eviction/space.h"
#include "name.h"
#include "piece.h"

namespace gd2fs {

namespace {

constexpr std::size_t STEP = 4096;      // entries looked at under one hold of the lock
constexpr std::size_t NAMES_MAX = 256;  // the ones after these are not told apart
constexpr std::int64_t GROUP_MS = 10'000;
constexpr std::size_t PLACES_EACH = 2;  // for what is looked up without a lock
constexpr unsigned CAUSE_BITS = 4;
static_assert(CAUSES <= 1 << CAUSE_BITS);

std::int64_t realtime_ms() noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

std::array<std::uint64_t, 2> hash_of(std::string_view name) noexcept {
  const XXH128_hash_t hash = XXH3_128bits(name.data(), name.size());
  return {hash.low64, hash.high64};
}

/// The node's own doing, or its disk's: no call, no move and no newer bytes took it.
bool is_own(Cause cause) noexcept {
  switch (cause) {
    case Cause::evicted:
    case Cause::over_quota:
    case Cause::expired:
    case Cause::corrupt:
    case Cause::not_demoted:
    case Cause::disk_lost: return true;
    default: return false;
  }
}

/// Of one name and chunk: its place, and beside that what tells it from others there.
struct Mark {
  std::size_t place;
  std::uint32_t rest;  // its low bits are for the cause
};
Mark mark_of(const std::array<std::uint64_t, 2>& hash, std::uint64_t chunk,
             std::size_t places) noexcept {
  const std::uint64_t mixed = hash[0] ^ (chunk * 0x9E3779B97F4A7C15u);
  const auto rest = static_cast<std::uint32_t>((hash[1] ^ mixed >> 32) << CAUSE_BITS);
  return {static_cast<std::size_t>(mixed & (places - 1)), rest};
}

}  // namespace

std::string_view cause_name(Cause cause) noexcept {
  switch (cause) {
    case Cause::ending: return "ending";
    case Cause::evicted: return "evicted";
    case Cause::over_quota: return "over quota";
    case Cause::expired: return "expired";
    case Cause::dropped: return "dropped";
    case Cause::superseded: return "superseded";
    case Cause::advice: return "dropped by advice";
    case Cause::corrupt: return "corrupt";
    case Cause::moved: return "moved";
    case Cause::not_demoted: return "not demoted";
    case Cause::not_admitted: return "not admitted";
    case Cause::unlisted: return "never committed";
    case Cause::disk_lost: return "lost by the disk";
  }
  return "unknown";
}

Departures::Departures(std::size_t count_max)
    : started_ms_(realtime_ms()),
      recent_places_(std::bit_ceil(std::max<std::size_t>(count_max, 1) * PLACES_EACH)),
      recent_(std::make_unique<std::atomic<std::uint32_t>[]>(recent_places_)),
      ring_(count_max) {}

void Departures::note(const Piece& piece, const Reason& reason) {
  note(piece.name(), piece.chunk(), piece.tag(), piece.length(), piece.space().policy(), reason);
}

void Departures::note(std::string_view name, std::uint64_t chunk, std::uint64_t tag,
                      std::uint64_t bytes, PolicyKind policy, const Reason& reason) {
  if (reason.cause == Cause::ending) return;
  const auto cause = static_cast<std::uint32_t>(reason.cause);
  Entry entry{.hash = hash_of(name),
              .when_ms = realtime_ms(),
              .chunk = chunk,
              .tag = tag,
              .bytes = bytes,
              .cause = reason.cause,
              .policy = policy};
  const Mark mark = mark_of(entry.hash, chunk, recent_places_);
  recent_[mark.place].store(mark.rest | cause, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  if (is_own(reason.cause))
    entry.name_space = number_of(namespace_of(name, !name.starts_with('/')));
  counts_[cause].pieces += 1;
  counts_[cause].bytes += bytes;
  if (ring_.empty()) return;
  entry.for_whom = number_of(reason.for_whom);
  ring_[next_] = entry;
  if (++next_ < ring_.size()) return;
  next_ = 0;
  is_full_ = true;
}

std::vector<Departure> Departures::find(std::string_view name, std::size_t count_max) const {
  const auto hash = hash_of(name);
  std::vector<Departure> found;
  if (count_max == 0) return found;
  walk([&](const Entry& entry) {
    if (entry.hash != hash) return true;
    found.push_back({entry.when_ms, entry.cause, entry.policy, entry.chunk, entry.tag, entry.bytes,
                     names_[entry.for_whom]});
    return found.size() < count_max;
  });
  return found;
}

std::vector<DepartureGroup> Departures::recent(std::size_t groups_max) const {
  std::vector<DepartureGroup> groups;
  std::vector<Entry> newest;  // of each group
  walk([&](const Entry& entry) {
    if (!is_own(entry.cause)) return true;
    const auto is_like = [&](const Entry& each) {
      return each.cause == entry.cause && each.policy == entry.policy &&
             each.name_space == entry.name_space && each.for_whom == entry.for_whom &&
             each.when_ms - entry.when_ms < GROUP_MS;
    };
    const auto found = std::find_if(newest.rbegin(), newest.rend(), is_like);
    if (found != newest.rend()) {
      DepartureGroup& group = groups[static_cast<std::size_t>(newest.rend() - found) - 1];
      group.first_ms = entry.when_ms;
      ++group.pieces;
      group.bytes += entry.bytes;
      return true;
    }
    if (groups.size() == groups_max) return false;
    newest.push_back(entry);
    groups.push_back({entry.when_ms, entry.when_ms, entry.cause, entry.policy,
                      names_[entry.name_space], names_[entry.for_whom], 1, entry.bytes});
    return true;
  });
  return groups;
}

// In steps: those who note are not kept waiting for a walk through all of it. What is overwritten
// meanwhile is as if it had been before.
void Departures::walk(const Visit& visit) const {
  std::size_t end = 0, kept = 0;
  for (std::size_t back = 1; back == 1 || back <= kept;) {
    const std::lock_guard lock(mutex_);
    if (back == 1) {
      end = next_ + ring_.size();
      kept = is_full_ ? ring_.size() : next_;
    }
    const std::size_t step_ends = std::min(back + STEP, kept + 1);
    for (; back < step_ends; ++back)
      if (!visit(ring_[(end - back) % ring_.size()])) return;
    if (kept == 0) return;
  }
}

std::int64_t Departures::since_ms() const {
  const std::lock_guard lock(mutex_);
  return is_full_ ? ring_[next_].when_ms : started_ms_;
}

Cause Departures::last_cause_of(std::string_view name, std::uint64_t chunk) const noexcept {
  const Mark mark = mark_of(hash_of(name), chunk, recent_places_);
  const std::uint32_t last = recent_[mark.place].load(std::memory_order_relaxed);
  const std::uint32_t cause = last & ((1u << CAUSE_BITS) - 1);
  return (last ^ cause) == mark.rest ? static_cast<Cause>(cause) : Cause::ending;
}

DeparturesByCause Departures::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

bool Departures::has_forgotten() const {
  const std::lock_guard lock(mutex_);
  return is_full_;
}

std::uint16_t Departures::number_of(std::string_view name_space) {
  const auto found = std::find(names_.begin(), names_.end(), name_space);
  const auto number = static_cast<std::uint16_t>(found - names_.begin());
  if (found != names_.end()) return number;
  if (names_.size() == NAMES_MAX) return 0;
  names_.emplace_back(name_space);
  return number;
}

}  // namespace gd2fs
