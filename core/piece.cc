#include "piece.h"

#include <algorithm>

#include "assertion.h"
#include "checksum.h"
#include "disk/disk.h"
#include "store.h"

namespace gd2fs {

Piece::~Piece() {
  if (store_ != nullptr) store_->let_go(*this);
}

void Piece::runs(std::uint64_t offset, std::uint64_t length,
                 std::vector<std::span<std::byte>>& out) const {
  GD2FS_ASSERT(offset <= length_ && length <= length_ - offset);
  if (length == 0) return;
  auto extent =
      std::upper_bound(extents_.begin(), extents_.end(), offset,
                       [](std::uint64_t at, const Extent& other) { return at < other.place; });
  for (--extent; length > 0; ++extent) {
    const std::uint64_t skip = offset - extent->place;
    const std::uint64_t count = std::min<std::uint64_t>(length, extent->bytes - skip);
    out.emplace_back(arena_ + extent->offset + skip, count);
    offset += count;
    length -= count;
  }
}

bool Piece::has_part(std::uint64_t offset, std::uint64_t length) const noexcept {
  auto extent =
      std::upper_bound(extents_.begin(), extents_.end(), offset,
                       [](std::uint64_t at, const Extent& other) { return at < other.place; });
  if (extent == extents_.begin()) return length == 0;
  std::uint64_t end = offset;
  for (--extent; extent != extents_.end() && extent->place <= end; ++extent)
    end = std::max<std::uint64_t>(end, std::uint64_t{extent->place} + extent->bytes);
  return end - offset >= length;
}

std::int64_t Piece::disk_bytes() const noexcept {
  return copy_ == nullptr ? 0 : static_cast<std::int64_t>(copy_->disk_bytes());
}

std::uint32_t Piece::ttl_left_s() const noexcept {
  if (expires_ms_ == 0) return 0;
  return static_cast<std::uint32_t>(
      std::max<std::int64_t>(expires_ms_ - boottime_ms() + 999, 1'000) / 1'000);
}

bool Piece::check_some() {
  constexpr std::uint32_t STEP_BLOCKS = MiB / BLOCK_BYTES;
  std::uint32_t first = checked_blocks_.load();
  if (first == ALL_CHECKED) return true;
  const auto blocks = static_cast<std::uint32_t>(hashes_.size());
  const std::uint32_t end = std::min(first + STEP_BLOCKS, blocks);
  for (std::uint32_t block = first; block < end; ++block) {
    const std::uint64_t at = std::uint64_t{block} * BLOCK_BYTES;
    const std::uint64_t bytes = std::min<std::uint64_t>(BLOCK_BYTES, length_ - at);
    // What is not in memory is verified when it is loaded.
    if (has(at, bytes) && hash_of(at, bytes) != hashes_[block]) return false;
  }
  // Another thread may have done the same step: it counts once.
  checked_blocks_.compare_exchange_strong(first, end == blocks ? ALL_CHECKED : end);
  return true;
}

std::uint64_t Piece::hash_of(std::uint64_t offset, std::uint64_t length) const {
  std::vector<std::span<std::byte>> spans;
  runs(offset, length, spans);
  if (spans.size() == 1) return checksum(spans[0]);
  std::vector<ChecksumRun> runs_of_block;
  for (const auto span : spans) runs_of_block.push_back({span.data(), span.size()});
  return checksum(runs_of_block);
}

}  // namespace gd2fs
