#include "bounce_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "assertion.h"
#include "limits.h"

namespace gd2fs {

std::unique_ptr<PinnedMemory> PinnedMemory::map(std::size_t bytes,
                                                std::shared_ptr<const cuda::Device> device) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  madvise(at, bytes, MADV_HUGEPAGE);
  madvise(at, bytes, MADV_DONTFORK);  // a GPU writes to these very pages, never to a child's copy
  return std::unique_ptr<PinnedMemory>(
      new PinnedMemory(static_cast<std::byte*>(at), bytes, std::move(device)));
}

PinnedMemory::PinnedMemory(std::byte* at, std::size_t bytes,
                           std::shared_ptr<const cuda::Device> device)
    : at_(at), bytes_(bytes), device_(std::move(device)) {
  const cuda::Device::Current current(*device_);
  is_pinned_ = device_->pin(at_, bytes_);
}

void PinnedMemory::open_to(std::shared_ptr<Registrations> registrations) {
  if (registrations->add({at_, bytes_}).message.empty()) open_to_ = std::move(registrations);
}

PinnedMemory::~PinnedMemory() {
  if (open_to_ != nullptr) open_to_->drop({at_, bytes_});
  if (is_pinned_) {
    const cuda::Device::Current current(*device_);
    device_->unpin(at_);
  }
  munmap(at_, bytes_);
}

std::byte* BouncePool::take(std::size_t bytes, const std::shared_ptr<const cuda::Device>& device) {
  const std::size_t whole = (bytes + GRAIN_BYTES - 1) / GRAIN_BYTES * GRAIN_BYTES;
  if (whole > bytes_) {
    if (!is_idle()) return nullptr;
    alone_ = PinnedMemory::map(whole, device);
    return alone_ == nullptr ? nullptr : alone_->at();
  }
  if (memory_ == nullptr) {
    memory_ = PinnedMemory::map(bytes_, device);
    if (memory_ == nullptr) return nullptr;
    if (registrations_ != nullptr) memory_->open_to(registrations_);
    free_ = {{0, bytes_}};
  }
  const auto found = std::find_if(free_.begin(), free_.end(),
                                  [&](const auto& run) { return run.second >= whole; });
  if (found == free_.end()) return nullptr;
  const auto [place, length] = *found;
  free_.erase(found);
  if (length > whole) free_.emplace(place + whole, length - whole);
  taken_.emplace(place, whole);
  return memory_->at() + place;
}

void BouncePool::give(std::byte* at) {
  if (alone_ != nullptr && at == alone_->at()) {
    alone_ = nullptr;
    return;
  }
  const auto taken = taken_.find(static_cast<std::size_t>(at - memory_->at()));
  GD2FS_ASSERT(taken != taken_.end());
  auto [place, length] = *taken;
  taken_.erase(taken);
  // Free neighbours become one run.
  auto next = free_.lower_bound(place);
  if (next != free_.end() && next->first == place + length) {
    length += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == place) {
    std::prev(next)->second += length;
  } else {
    free_.emplace(place, length);
  }
}

void BouncePool::clear() {
  GD2FS_ASSERT(is_idle());
  free_.clear();
  memory_ = nullptr;
}

}  // namespace gd2fs
