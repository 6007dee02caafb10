// Staged: tells nodes what became of pieces that they have staged, where the write itself cannot.
// Without that word pieces lie there until their writer's stream has ended, or they are old: a
// client whose writes run into their deadlines would fill the nodes with what nobody can read.
#pragma once

#include <compare>
#include <cstdint>
#include <set>
#include <string>

#include "network.h"

namespace gd2fs {

/// A piece, and the node that may have it.
struct StagedCopy {
  std::size_t node = 0;
  std::uint64_t chunk = 0;
  auto operator<=>(const StagedCopy&) const = default;
};

/// They will not be committed: they go. No COMMIT with this tag may be under way. A hint: nobody
/// waits for it.
void forget_staged(Network& network, std::string path, std::uint64_t tag,
                   std::set<StagedCopy> copies);
/// They were, with this sequence: they stay. A hint likewise.
void publish_staged(Network& network, std::string path, std::uint64_t tag, std::uint64_t seq,
                    std::set<StagedCopy> copies);

}  // namespace gd2fs
