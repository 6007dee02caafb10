// Bounce pool: memory of the host that GPUs' bytes pass through, pinned, so that a GPU copies to
// and from it by itself. Bounded; what is longer than all of it gets memory of its own, alone.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "cuda.h"
#include "registrations.h"

namespace gd2fs {

/// Memory of whole pages, pinned as long as it lives where the driver allows that.
class PinnedMemory {
 public:
  /// nullptr: the machine has none left.
  static std::unique_ptr<PinnedMemory> map(std::size_t bytes,
                                           std::shared_ptr<const cuda::Device> device);
  /// Nodes may reach it from here on, where that can be had.
  void open_to(std::shared_ptr<Registrations> registrations);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::byte* at() const noexcept { return at_; }
  std::size_t bytes() const noexcept { return bytes_; }
  bool is_pinned() const noexcept { return is_pinned_; }

 private:
  PinnedMemory(std::byte* at, std::size_t bytes, std::shared_ptr<const cuda::Device> device);

  std::byte* const at_;
  const std::size_t bytes_;
  std::shared_ptr<const cuda::Device> device_;  // pinned by its driver, for all GPUs
  bool is_pinned_ = false;
  std::shared_ptr<Registrations> open_to_;  // nullptr: nobody reaches it
};

/// Not thread-safe.
class BouncePool {
 public:
  /// `registrations`: where nodes are to reach it; nullptr: they do not.
  explicit BouncePool(std::size_t bytes, std::shared_ptr<Registrations> registrations = nullptr)
      : bytes_(bytes), registrations_(std::move(registrations)) {}

  /// One run, given back by its address. nullptr: not now, or (`is_idle` then) not at all. The
  /// first run that is taken makes the memory, pinned by `device`.
  std::byte* take(std::size_t bytes, const std::shared_ptr<const cuda::Device>& device);
  void give(std::byte* at);
  bool is_idle() const noexcept { return taken_.empty() && alone_ == nullptr; }
  std::size_t bytes() const noexcept { return bytes_; }
  /// Everything is given back: the memory goes.
  void clear();

 private:
  const std::size_t bytes_;
  const std::shared_ptr<Registrations> registrations_;
  std::unique_ptr<PinnedMemory> memory_;
  std::map<std::size_t, std::size_t> free_, taken_;  // runs: place, and how long
  std::unique_ptr<PinnedMemory> alone_;              // of one that is longer than the pool
};

}  // namespace gd2fs
