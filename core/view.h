// View: bytes of the cache that are read where they lie, for as long as this lives.
//
// Where a node does not share its memory, or has given away as much as it may, it is a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "arena_map.h"
#include "lease_keeper.h"

namespace gd2fs {

class View {
 public:
  using Part = std::span<const std::byte>;

  /// Parts in order; neighbours that lie side by side become one.
  View(const std::vector<Part>& parts, std::vector<LeaseHold> leases,
       std::vector<ArenaMapRef> maps);
  View(std::unique_ptr<std::byte[]> copy, std::uint64_t bytes);

  std::span<const Part> parts() const noexcept { return parts_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  bool is_copy() const noexcept { return copy_ != nullptr; }

 private:
  std::unique_ptr<std::byte[]> copy_;
  std::vector<ArenaMapRef> maps_;
  std::vector<LeaseHold> leases_;
  std::vector<Part> parts_;
  std::uint64_t bytes_ = 0;
};

using ViewRef = std::shared_ptr<const View>;

}  // namespace gd2fs
