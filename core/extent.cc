#include "extent.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <thread>
#include <utility>

#include "assertion.h"
#include "region.h"

namespace gd2fs {

namespace {

constexpr std::uint64_t REGION_BYTES_MIN = 1 * GiB;
constexpr std::uint64_t REGIONS_MAX = 64;  // 16 GiB each at 1 TiB
constexpr std::uint32_t PART_GRAINS_MAX = static_cast<std::uint32_t>(PART_BYTES_MAX / GRAIN_BYTES);

// Threads start at different regions, so that they seldom meet at a lock.
std::size_t start_of_thread() noexcept {
  const std::uint64_t id = std::hash<std::thread::id>{}(std::this_thread::get_id());
  return static_cast<std::size_t>((id * 0x9E3779B97F4A7C15u) >> 32);
}

}  // namespace

std::uint64_t Allocator::region_bytes(std::uint64_t end) noexcept {
  const std::uint64_t count = std::clamp<std::uint64_t>(end / REGION_BYTES_MIN, 1, REGIONS_MAX);
  const std::uint64_t share = (end + count - 1) / count;
  return (share + PART_BYTES_MAX - 1) / PART_BYTES_MAX * PART_BYTES_MAX;
}

Allocator::Allocator(std::uint64_t begin, std::uint64_t end, RegionNodes nodes)
    : begin_(begin), region_bytes_(region_bytes(end)), nodes_(std::move(nodes)) {
  GD2FS_ASSERT(begin < end && begin % GRAIN_BYTES == 0 && end % GRAIN_BYTES == 0);
  for (std::uint64_t base = 0; base < end; base += region_bytes_) {
    const std::uint64_t first = std::max(base, begin);
    const std::uint64_t last = std::min(base + region_bytes_, end);
    GD2FS_ASSERT(first < last);
    regions_.push_back(
        std::make_unique<Region>(base / GRAIN_BYTES, first / GRAIN_BYTES, last / GRAIN_BYTES));
  }
  free_grains_ = (end - begin) / GRAIN_BYTES;
  put_in_order();
}

void Allocator::put_in_order() {
  GD2FS_ASSERT(nodes_.of_region.empty() || nodes_.of_region.size() == regions_.size());
  std::vector<int> numbers = nodes_.of_region;
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  if (numbers.size() < 2) numbers = {0};
  for (const int node : numbers) {
    Order& order = orders_.emplace_back();
    order.node = node;
    for (std::size_t at = 0; at < regions_.size(); ++at) order.regions.push_back(at);
    const auto is_own = [&](std::size_t at) {
      return numbers.size() < 2 || nodes_.of_region[at] == node;
    };
    const auto far = std::stable_partition(order.regions.begin(), order.regions.end(), is_own);
    order.near = static_cast<std::size_t>(far - order.regions.begin());
  }
}

std::size_t Allocator::Way::at(std::size_t step) const noexcept {
  const std::size_t far = order.regions.size() - order.near;
  const std::size_t place = step < order.near ? (start + step) % order.near
                                              : order.near + (start + step - order.near) % far;
  return order.regions[place];
}

Allocator::Way Allocator::way_here() const {
  const Order* order = &orders_.front();
  if (orders_.size() > 1) {
    const int node = nodes_.here();
    for (const Order& each : orders_)
      if (each.node == node) order = &each;
  }
  return {*order, start_of_thread() % regions_.size()};
}

void Allocator::note_taken(bool is_near, std::uint64_t grains) noexcept {
  if (orders_.size() < 2) return;
  (is_near ? near_grains_ : far_grains_).fetch_add(grains, std::memory_order_relaxed);
}

Allocator::~Allocator() = default;

bool Allocator::allocate(std::uint64_t bytes, std::vector<Extent>& out) {
  const std::uint64_t grains = whole_grains(bytes) / GRAIN_BYTES;
  std::uint64_t free = free_grains_.load();
  do {
    if (free < grains) return false;
  } while (!free_grains_.compare_exchange_weak(free, free - grains));
  const std::size_t first = out.size();
  // The grains are promised now: regions hold at least as many as the count says, so this ends.
  std::uint64_t taken = 0;
  while (taken < grains) taken += take(grains - taken, out);
  std::uint64_t place = 0;
  for (std::size_t i = first; i < out.size(); ++i) {
    out[i].place = static_cast<std::uint32_t>(place);
    place += out[i].bytes;
  }
  if (grains > 0) out.back().bytes -= static_cast<std::uint32_t>(grains * GRAIN_BYTES - bytes);
  return true;
}

// Parts as long as any region has them; then half as long, down to one grain.
std::uint64_t Allocator::take(std::uint64_t grains, std::vector<Extent>& out) {
  const Way way = way_here();
  std::uint64_t taken = 0;
  const std::uint64_t part_max = std::min<std::uint64_t>(grains, PART_GRAINS_MAX);
  for (auto part = static_cast<std::uint32_t>(part_max); part > 0 && taken < grains; part /= 2) {
    for (std::size_t i = 0; i < regions_.size() && taken < grains; ++i) {
      Region& region = *regions_[way.at(i)];
      const auto want = static_cast<std::uint32_t>(std::min<std::uint64_t>(part, grains - taken));
      if (!region.may_have(want)) continue;
      const std::uint64_t got = region.take(grains - taken, part, out);
      note_taken(i < way.order.near, got);
      taken += got;
    }
  }
  return taken;
}

std::optional<Extent> Allocator::allocate_aligned(std::uint32_t bytes) {
  const auto grains = static_cast<std::uint32_t>(bytes / GRAIN_BYTES);
  GD2FS_ASSERT(bytes % GRAIN_BYTES == 0 && std::has_single_bit(grains) && bytes <= PART_BYTES_MAX);
  std::uint64_t free = free_grains_.load();
  do {
    if (free < grains) return std::nullopt;
  } while (!free_grains_.compare_exchange_weak(free, free - grains));
  const Way way = way_here();
  Extent extent;
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    if (regions_[way.at(i)]->take_aligned(grains, extent)) return extent;
  }
  free_grains_ += grains;
  return std::nullopt;
}

bool Allocator::claim(Extent& extent) {
  const std::uint64_t bytes = whole_grains(extent.bytes);
  const std::uint64_t index = extent.offset / region_bytes_;
  const bool is_run = bytes > 0 && bytes <= PART_BYTES_MAX && extent.offset % GRAIN_BYTES == 0;
  if (!is_run || extent.offset < begin_ || index >= regions_.size()) return false;
  if (!regions_[index]->claim(extent)) return false;
  free_grains_ -= bytes / GRAIN_BYTES;
  return true;
}

void Allocator::free(std::span<const Extent> extents) {
  while (!extents.empty()) {
    Region& region = region_of(extents.front().offset);
    std::size_t count = 1;
    while (count < extents.size() && &region_of(extents[count].offset) == &region) ++count;
    // Given back before it is counted: what the count promises is always there to be cut.
    free_grains_ += region.give(extents.first(count));
    extents = extents.subspan(count);
  }
}

Extent Allocator::cut(Extent& extent, std::uint32_t bytes) {
  return region_of(extent.offset).divide(extent, bytes);
}

std::uint64_t Allocator::longest_free_bytes() const noexcept {
  std::uint64_t longest = 0;
  for (const auto& region : regions_)
    longest = std::max<std::uint64_t>(longest, region->longest_grains());
  return longest * GRAIN_BYTES;
}

std::uint64_t Allocator::free_runs() const {
  std::uint64_t runs = 0;
  for (const auto& region : regions_) runs += region->free_runs();
  return runs;
}

bool Allocator::is_consistent() const {
  std::uint64_t free = 0;
  for (const auto& region : regions_) {
    if (!region->is_consistent(free)) return false;
  }
  return free == free_grains_.load();
}

Region& Allocator::region_of(std::uint64_t offset) const {
  const std::uint64_t index = offset / region_bytes_;
  GD2FS_ASSERT(offset >= begin_ && index < regions_.size());
  return *regions_[index];
}

}  // namespace gd2fs
