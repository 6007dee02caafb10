// Forget: tells nodes that what they have staged under a tag will never be committed. Without that
// word it lies there until its writer's stream has ended, or it is old: a client whose writes run
// into their deadlines would fill the nodes with what nobody can read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "network.h"

namespace gd2fs {

/// A piece, and the node that may have it.
struct StagedCopy {
  std::size_t node = 0;
  std::uint64_t chunk = 0;
};

/// No COMMIT with this tag may be under way. A hint: nobody waits for it.
void forget_staged(Network& network, std::string path, std::uint64_t tag,
                   std::vector<StagedCopy> copies);

}  // namespace gd2fs
