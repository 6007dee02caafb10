// Member: one life of a node. A node that starts again is another member.
#pragma once

#include <cstdint>

#include "placement.h"

namespace gd2fs {

struct Member {
  NodeId id{};
  std::uint64_t boot = 0;  // 0: not known, as in a static list

  /// The same life, as far as is known.
  bool is_same(const Member& other) const {
    return id == other.id && (boot == other.boot || boot == 0 || other.boot == 0);
  }
  friend bool operator==(const Member&, const Member&) = default;
};

}  // namespace gd2fs
