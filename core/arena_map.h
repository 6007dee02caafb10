// Arena map: a node's arena as a reader on the same host has it mapped. It can only be read.
//
// One mapping serves all streams to a node. It goes with the last that uses it: a node that has
// ended cannot have its memory back before. A forked child does not have it: the child has no
// stream to say what it still reads. Its addresses are kept from other use there, so that a child
// that reads on ends instead of reading something else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "error.h"
#include "transport/tcp.h"

namespace gd2fs {

class ArenaMap {
 public:
  /// Refused unless the descriptor is of so many bytes, and sealed: it can never shrink under the
  /// reader, and nobody but the node can write to it.
  static Result<std::shared_ptr<const ArenaMap>> open(const tcp::Descriptor& descriptor,
                                                      std::uint64_t bytes);
  ~ArenaMap();
  ArenaMap(const ArenaMap&) = delete;
  ArenaMap& operator=(const ArenaMap&) = delete;

  std::span<const std::byte> memory() const noexcept { return memory_; }
  /// Is it of this very file?
  bool is_of(const tcp::Descriptor& descriptor) const noexcept;

 private:
  ArenaMap(std::span<const std::byte> memory, std::uint64_t device, std::uint64_t inode)
      : memory_(memory), device_(device), inode_(inode) {}

  std::span<const std::byte> memory_;
  std::uint64_t device_, inode_;
};

using ArenaMapRef = std::shared_ptr<const ArenaMap>;

}  // namespace gd2fs
