#include "place.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace gd2fs::disk {
namespace {

constexpr std::uint64_t SEGMENTS_MAX = 1024;  // of a place: larger ones have larger segments
constexpr std::uint64_t STEP_BYTES = 1 * MiB;
constexpr std::size_t SAMPLES = 16;  // records of a segment that are asked when they were used
constexpr char SUFFIX[] = ".gd2fs";

std::uint64_t segment_bytes_for(std::uint64_t bytes_max, std::uint64_t wanted) {
  const std::uint64_t largest = bytes_max / DISK_SEGMENTS_MIN / STEP_BYTES * STEP_BYTES;
  const std::uint64_t smallest =
      (bytes_max / SEGMENTS_MAX + STEP_BYTES - 1) / STEP_BYTES * STEP_BYTES;
  return std::clamp(wanted / STEP_BYTES * STEP_BYTES, std::max(smallest, STEP_BYTES),
                    std::max(largest, STEP_BYTES));
}

/// The mean of when some of its live records were used, in seconds.
std::uint64_t heat_of(const Segment& segment) {
  const std::size_t step = std::max<std::size_t>(segment.copies.size() / SAMPLES, 1);
  std::uint64_t sum = 0, count = 0;
  for (std::size_t i = 0; i < segment.copies.size(); i += step) {
    if (!segment.copies[i]->is_here()) continue;
    sum += segment.copies[i]->used_s.load(std::memory_order_relaxed);
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

std::uint64_t age_of(const Segment& segment) {
  return segment.copies.empty() ? 0 : segment.copies.front()->serial;
}

}  // namespace

Place::Place(std::string folder, std::uint64_t bytes_max, std::uint64_t segment_bytes_wanted)
    : folder(std::move(folder)),
      bytes_max(bytes_max),
      segment_bytes(segment_bytes_for(bytes_max, segment_bytes_wanted)) {}

std::string Place::path_of(std::uint64_t number) const {
  char name[32];
  std::snprintf(name, sizeof name, "/%08llu", static_cast<unsigned long long>(number));
  return folder + name + SUFFIX;
}

std::optional<std::uint64_t> Place::number_of(const std::string& name) {
  std::uint64_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, number);
  if (error != std::errc{} || std::string_view(stop, end) != SUFFIX) return std::nullopt;
  return number;
}

Segment* Place::room_for(std::uint64_t record_bytes) {
  if (is_large(record_bytes)) {
    large_wanted = record_bytes;
    if (!large || !large->has_room(record_bytes)) return nullptr;
    large_wanted = 0;
    large->state = Segment::State::full;
    return std::exchange(large, nullptr);
  }
  if (open && open->has_room(record_bytes)) return open;
  if (!ready) return nullptr;
  if (open) open->state = Segment::State::full;
  open = std::exchange(ready, nullptr);
  open->state = Segment::State::open;
  return open;
}

std::size_t Place::spare() const {
  const auto count = static_cast<std::size_t>(
      std::count_if(segments.begin(), segments.end(), [](const auto& segment) {
        return segment->state == Segment::State::blank || segment->state == Segment::State::doomed;
      }));
  const bool can_grow = growth_ms == 0 && file_bytes < bytes_max;
  return count + (can_grow ? (bytes_max - file_bytes) / segment_bytes : 0);
}

std::size_t Place::spare_min() const {
  return std::max<std::size_t>(2, bytes_max / segment_bytes / 64);
}

std::uint64_t Place::usable_bytes() const {
  const std::uint64_t all = bytes_max / segment_bytes, in_hand = spare_min() + 1;
  return all <= in_hand ? 0 : (all - in_hand) * (segment_bytes - FRONT_BYTES);
}

bool Place::may_grow(std::uint64_t bytes, std::int64_t now_ms) const {
  return file_bytes + bytes <= bytes_max && now_ms >= growth_ms;
}

Segment* Place::blank_of(std::uint64_t bytes) {
  for (const auto& segment : segments)
    if (segment->state == Segment::State::blank && segment->bytes == bytes) return segment.get();
  return nullptr;
}

Segment* Place::first_in(Segment::State state) {
  for (const auto& segment : segments)
    if (segment->state == state) return segment.get();
  return nullptr;
}

bool Place::may_clean(const Segment& segment) const {
  return segment.state == Segment::State::closed && segment.arrivals == 0;
}

Segment* Place::emptiest() {
  Segment* best = nullptr;
  for (const auto& segment : segments) {
    if (!may_clean(*segment)) continue;
    if (!best || segment->live_share() < best->live_share()) best = segment.get();
  }
  return best;
}

Segment* Place::coldest() {
  Segment* best = nullptr;
  std::pair<std::uint64_t, std::uint64_t> least;
  for (const auto& segment : segments) {
    if (!may_clean(*segment)) continue;
    const std::pair key(heat_of(*segment), age_of(*segment));
    if (best && key >= least) continue;
    best = segment.get();
    least = key;
  }
  return best;
}

Segment* Place::add(std::uint64_t number, std::uint64_t bytes, int file) {
  number_next = std::max(number_next, number + 1);
  file_bytes += bytes;
  return segments.emplace_back(std::make_unique<Segment>(*this, number, bytes, file)).get();
}

void Place::remove(Segment* segment) {
  file_bytes -= segment->bytes;
  std::erase_if(doubts, [segment](const Doubt& each) { return each.segment == segment; });
  std::erase_if(segments, [segment](const auto& each) { return each.get() == segment; });
}

}  // namespace gd2fs::disk
