// Arena: one large mapping of memory, on the best kind of pages that this machine gives.
//
// The ladder under `automatic`: hugetlb memfd, memfd (when it is to be shared), anonymous
// transparent huge pages, plain pages. A named rung is taken or refused, never replaced silently.
// `rung()` says which one was got.
//
// A memfd that is to be shared is sealed once it is mapped here: whoever is given its descriptor
// can map it for reading, and can neither write to it nor change its size, also not by opening it
// anew. Only this first mapping stays writable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "error.h"

namespace gd2fs {

enum class Rung : std::uint8_t {
  automatic = 0,
  hugetlb = 1,
  thp = 2,
  plain = 3,
  file = 4,
  memfd = 5
};

struct ArenaOptions {
  std::size_t bytes = 0;  // rounded up to whole 2 MiB pages
  Rung rung = Rung::automatic;
  std::string path;  // rung file: a path on hugetlbfs, tmpfs or a disk; kept when the process ends
  bool is_shared = false;  // other processes may map it for reading, where the rung allows that
  // NUMA nodes that pages are taken from, one for each `region_bytes`; none: as the system does.
  std::vector<int> nodes{};
  std::size_t region_bytes = 0;
};

/// Reads `auto`, `hugetlb`, `memfd`, `thp`, `plain` or `file:PATH`.
Result<ArenaOptions> parse_arena(const std::string& text, std::size_t bytes);

class Arena {
 public:
  static Result<Arena> open(const ArenaOptions& options);
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  std::span<std::byte> memory() const noexcept;
  std::size_t bytes() const noexcept { return memory().size(); }
  Rung rung() const noexcept;
  bool has_huge_pages() const noexcept;  // transparent ones: asked for, and mostly had
  std::string rung_name() const;         // "hugetlb", "memfd", "thp", "plain", "file"
  /// Can its descriptor be given to readers?
  bool is_sealed() const noexcept { return is_sealed_; }
  int descriptor() const noexcept;  // -1 for anonymous memory
  /// Of each region its NUMA node; empty: as the system does.
  const std::vector<int>& nodes() const noexcept { return nodes_; }
  /// Why pages are not taken from the nodes that were asked for; empty when they are.
  const std::string& nodes_fault() const noexcept { return nodes_fault_; }

  /// What so many bytes are rounded up to.
  static std::size_t whole_bytes(std::size_t bytes) noexcept;

 private:
  Arena() = default;
  std::span<std::byte> memory_;
  Rung rung_ = Rung::plain;
  bool is_sealed_ = false;
  int descriptor_ = -1;
  std::vector<int> nodes_;
  std::string nodes_fault_;
};

}  // namespace gd2fs
