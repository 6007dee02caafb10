#include "departures.h"

#include <time.h>
#include <xxhash.h>

#include <algorithm>

#include "eviction/space.h"
#include "piece.h"

namespace gd2fs {

namespace {

constexpr std::size_t STEP = 4096;      // entries looked at under one hold of the lock
constexpr std::size_t NAMES_MAX = 256;  // the ones after these are not told apart

std::int64_t realtime_ms() noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

std::array<std::uint64_t, 2> hash_of(std::string_view name) noexcept {
  const XXH128_hash_t hash = XXH3_128bits(name.data(), name.size());
  return {hash.low64, hash.high64};
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

Departures::Departures(std::size_t count_max) : started_ms_(realtime_ms()), ring_(count_max) {}

void Departures::note(const Piece& piece, const Reason& reason) {
  note(piece.name(), piece.chunk(), piece.tag(), piece.length(), piece.space().policy(), reason);
}

void Departures::note(std::string_view name, std::uint64_t chunk, std::uint64_t tag,
                      std::uint64_t bytes, PolicyKind policy, const Reason& reason) {
  if (reason.cause == Cause::ending || ring_.empty()) return;
  Entry entry{.hash = hash_of(name),
              .when_ms = realtime_ms(),
              .chunk = chunk,
              .tag = tag,
              .bytes = bytes,
              .cause = reason.cause,
              .policy = policy};
  const std::lock_guard lock(mutex_);
  entry.for_whom = number_of(reason.for_whom);
  ring_[next_] = entry;
  if (++next_ < ring_.size()) return;
  next_ = 0;
  is_full_ = true;
}

// In steps: those who note are not kept waiting for a walk through all of it. What is overwritten
// meanwhile is as if it had been before.
std::vector<Departure> Departures::find(std::string_view name, std::size_t count_max) const {
  const auto hash = hash_of(name);
  std::vector<Departure> found;
  std::size_t end = 0, kept = 0;
  for (std::size_t back = 1; back == 1 || back <= kept;) {
    const std::lock_guard lock(mutex_);
    if (back == 1) {
      end = next_ + ring_.size();
      kept = is_full_ ? ring_.size() : next_;
    }
    const std::size_t step_ends = std::min(back + STEP, kept + 1);
    for (; back < step_ends && found.size() < count_max; ++back) {
      const Entry& entry = ring_[(end - back) % ring_.size()];
      if (entry.hash != hash) continue;
      found.push_back({entry.when_ms, entry.cause, entry.policy, entry.chunk, entry.tag,
                       entry.bytes, names_[entry.for_whom]});
    }
    if (kept == 0 || found.size() == count_max) break;
  }
  return found;
}

std::int64_t Departures::since_ms() const {
  const std::lock_guard lock(mutex_);
  return is_full_ ? ring_[next_].when_ms : started_ms_;
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
