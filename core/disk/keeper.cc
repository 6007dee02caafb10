#include "keeper.h"

#include <algorithm>
#include <chrono>

#include "latch.h"
#include "segment_work.h"
#include "transfer.h"

namespace gd2fs::disk {
namespace {

constexpr std::int64_t PAUSE_MS = 1'000;

}  // namespace

void Keeper::loop() {
  Lock lock(log_.mutex);
  while (!log_.is_closing) {
    if (log_.is_awake && step(lock)) continue;
    std::int64_t pause_ms = PAUSE_MS;
    if (place_.is_failed) pause_ms = std::clamp<std::int64_t>(place_.retry_ms - now_ms(), 1, 1'000);
    log_.keepers_called.wait_for(lock, std::chrono::milliseconds(pause_ms));
  }
}

bool Keeper::step(Lock& lock) {
  if (place_.is_failed) return now_ms() >= place_.retry_ms && revive(lock);
  if (place_.growth_ms != 0 && now_ms() >= place_.growth_ms) place_.growth_ms = 0;
  return tidy(lock) || seal(lock) || provide(lock) || clean(lock);
}

/// A place is as good as its next segment: what it still owes is written first, then a head. An
/// error on the way makes it failed again.
bool Keeper::revive(Lock& lock) {
  place_.is_failed = false;
  place_.growth_ms = 0;
  std::vector<Place::Doubt> doubts = std::exchange(place_.doubts, {});
  while (!doubts.empty() && !place_.is_failed) {
    const Place::Doubt doubt = doubts.back();
    doubts.pop_back();
    if (doubt.segment->id != doubt.id || doubt.segment->is_void) continue;
    ++doubt.segment->pins;
    lock.unlock();
    Latch latch(1);
    write_strike(*log_.io, doubt.segment->file, doubt.id, doubt.offset, doubt.header_bytes,
                 doubt.length, [&](int error) { latch.arrive(error); });
    const int error = latch.wait();
    lock.lock();
    log_.unpin(*doubt.segment);
    if (error == 0) continue;
    doubts.push_back(doubt);
    log_.fail(place_, error);
  }
  place_.doubts.insert(place_.doubts.end(), doubts.begin(), doubts.end());
  for (LogCopyRef& copy : std::exchange(place_.owed, {}))
    log_.strikes.push_back({std::move(copy), {}, log_.begin()});
  log_.wake_all();
  return true;
}

/// Doomed segments become blank once nobody reads them any more; there may be fewer than before.
bool Keeper::tidy(Lock& lock) {
  for (const auto& segment : place_.segments) {
    if (segment->state != Segment::State::doomed) continue;
    if (!segment->is_void) return make_void(log_, *segment, lock);
    if (segment->pins > 0) continue;
    segment->state = Segment::State::blank;
    log_.wake_all();
    return true;
  }
  Segment* const blank = place_.first_in(Segment::State::blank);
  if (!blank || place_.file_bytes <= place_.bytes_max) return false;
  remove_file(log_, *blank, lock);
  return true;
}

bool Keeper::seal(Lock& lock) {
  for (const auto& segment : place_.segments) {
    if (segment->state != Segment::State::full || segment->writes > 0) continue;
    if (segment->is_sealable) return write_seal(log_, *segment, lock);
    segment->state = Segment::State::closed;
    return true;
  }
  return false;
}

/// One segment ahead of what callers write. The last one that could be had is left to the cleaner.
bool Keeper::provide(Lock& lock) {
  if (place_.large && !place_.large->has_room(place_.large_wanted)) {
    place_.large->state = Segment::State::doomed;
    place_.large = nullptr;
    return true;
  }
  if (place_.large_wanted > 0 && !place_.large && place_.growth_ms == 0) {
    const std::uint64_t bytes = place_.large_wanted + FRONT_BYTES;
    place_.large = make_ready(log_, place_, bytes, lock);
    if (place_.large) place_.large->state = Segment::State::ready;
    if (place_.large) log_.wake_all();
    if (place_.large || place_.is_failed) return true;
    return cleaner_.make_room(lock);
  }
  if (place_.ready || place_.spare() < 2) return false;
  Segment* const segment = make_ready(log_, place_, place_.segment_bytes, lock);
  if (!segment) return place_.is_failed;
  segment->state = Segment::State::ready;
  place_.ready = segment;
  log_.wake_all();
  return true;
}

bool Keeper::clean(Lock& lock) {
  return place_.spare() < place_.spare_min() && cleaner_.make_room(lock);
}

}  // namespace gd2fs::disk
