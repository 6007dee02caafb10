// Arena: one large mapping of memory, on the best kind of pages that this machine gives.
//
// The ladder under `automatic`: hugetlb memfd, anonymous transparent huge pages, plain pages. A
// named rung is taken or refused, never replaced silently. `rung()` says which one was got.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "error.h"

namespace gd2fs {

enum class Rung : std::uint8_t { automatic = 0, hugetlb = 1, thp = 2, plain = 3, file = 4 };

struct ArenaOptions {
  std::size_t bytes = 0;  // rounded up to whole 2 MiB pages
  Rung rung = Rung::automatic;
  std::string path;  // rung file: a path on hugetlbfs, tmpfs or a disk; kept when the process ends
};

/// Reads `auto`, `hugetlb`, `thp`, `plain` or `file:PATH`.
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
  std::string rung_name() const;         // "hugetlb", "thp", "plain", "file"
  int descriptor() const noexcept;       // -1 for anonymous memory

 private:
  Arena() = default;
  std::span<std::byte> memory_;
  Rung rung_ = Rung::plain;
  int descriptor_ = -1;
};

}  // namespace gd2fs
