#include "key_trace.h"

#include <algorithm>

#include "name.h"
#include "store.h"

namespace gd2fs::serve {
namespace {

std::int64_t steady_ms() noexcept { return static_cast<std::int64_t>(steady_ns() / 1'000'000); }

}  // namespace

void KeyTrace::Batch::add(std::string_view name, bool is_page, std::uint64_t chunk,
                          std::uint64_t tag, std::uint64_t bytes, Outcome outcome) {
  const bool is_meant =
      naming_.name_space.empty() || namespace_of(name, is_page) == naming_.name_space;
  if (!is_meant) return;
  std::uint64_t number = siphash(naming_.key, name);
  if (!is_page) {
    const std::uint64_t part[] = {number, chunk, tag};
    // Bytes of three numbers without padding.
    number = siphash(naming_.key, {reinterpret_cast<const char*>(part), sizeof part});
  }
  entries_.push_back({.number = number,
                      .size = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, ~0u)),
                      .outcome = outcome});
}

void KeyTrace::note(wire::Op op, const Fill& fill) {
  if (!is_on()) return;
  const std::uint64_t now_ns = steady_ns();
  const auto used = naming_at(static_cast<std::int64_t>(now_ns / 1'000'000));
  if (used == nullptr) return;
  Batch batch(*used);
  fill(batch);
  if (batch.entries_.size() == 1) return;
  batch.entries_.front() = {.number = now_ns / 1'000,
                            .size = static_cast<std::uint32_t>(batch.entries_.size() - 1),
                            .op = op};
  Lane& lane = own_lane();
  const std::lock_guard lock(lane.mutex);
  // Under the lane's lock: what comes after `end` would stay.
  if (is_on()) append(lane, batch.entries_);
}

void KeyTrace::append(Lane& lane, const std::vector<Entry>& batch) {
  if (lane.entries.size() + batch.size() > LANE_ENTRIES_MAX) {
    lane.dropped += batch.size() - 1;
    return;
  }
  lane.entries.insert(lane.entries.end(), batch.begin(), batch.end());
}

/// Threads share lanes only when they are more than there are lanes.
KeyTrace::Lane& KeyTrace::own_lane() noexcept {
  static std::atomic<std::size_t> threads{0};
  thread_local const std::size_t number = threads.fetch_add(1, std::memory_order_relaxed);
  return lanes_[number % LANES];
}

void KeyTrace::begin(Naming naming, std::int64_t silence_ms) {
  const std::lock_guard lock(mutex_);
  stop();
  naming_ = std::make_shared<const Naming>(std::move(naming));
  ends_ms_ = steady_ms() + silence_ms;
  is_on_ = true;
}

KeyTrace::Taken KeyTrace::take(std::size_t entries_max) {
  Taken taken;
  ends_ms_ = steady_ms() + KEY_TRACE_SILENCE_MS;
  for (Lane& lane : lanes_) {
    const std::lock_guard lock(lane.mutex);
    move_batches(lane, entries_max, taken);
  }
  return taken;
}

void KeyTrace::move_batches(Lane& lane, std::size_t entries_max, Taken& taken) {
  taken.dropped += lane.dropped;
  std::size_t end = lane.taken;
  while (end < lane.entries.size()) {
    const std::size_t next = end + 1 + lane.entries[end].size;
    if (taken.entries.size() + (next - lane.taken) > entries_max) break;
    end = next;
  }
  const auto at = [&](std::size_t entry) {
    return lane.entries.begin() + static_cast<std::ptrdiff_t>(entry);
  };
  taken.entries.insert(taken.entries.end(), at(lane.taken), at(end));
  lane.taken = end;
  if (lane.taken < lane.entries.size()) {
    taken.is_more = true;
    return;
  }
  lane.entries.clear();
  lane.taken = 0;
}

void KeyTrace::end() {
  const std::lock_guard lock(mutex_);
  stop();
}

void KeyTrace::stop() {
  is_on_ = false;
  naming_ = nullptr;
  for (Lane& lane : lanes_) {
    const std::lock_guard lock(lane.mutex);
    lane.entries = {};
    lane.taken = 0;
    lane.dropped = 0;
  }
}

/// Nothing: it has ended, maybe just now.
std::shared_ptr<const KeyTrace::Naming> KeyTrace::naming_at(std::int64_t now_ms) {
  const std::lock_guard lock(mutex_);
  if (now_ms > ends_ms_) stop();
  return naming_;
}

}  // namespace gd2fs::serve
