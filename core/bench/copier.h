// Copier: how fast this machine copies memory, which no path through it can beat.
//
// Plain copies bring every line of the target into the cache first; non-temporal ones do not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "../arena.h"
#include "crew.h"

namespace gd2fs::bench {

enum class CopyKind : std::uint8_t { plain, nontemporal };

/// Copies out of memory of a node's kind, on several threads.
class Copier {
 public:
  static Result<std::unique_ptr<Copier>> make(const ArenaOptions& source, std::size_t threads);

  /// Fills all of `into` from the source, which is read over again where it is shorter.
  void run(std::span<std::byte> into, CopyKind kind);
  std::string rung_name() const { return source_.rung_name(); }

 private:
  Copier(Arena source, std::size_t threads) : source_(std::move(source)), crew_(threads) {}
  Arena source_;
  Crew crew_;
};

/// As memcpy, past the cache where the processor can; every byte is visible on return.
void copy_nontemporal(std::byte* into, const std::byte* from, std::size_t bytes) noexcept;

}  // namespace gd2fs::bench
