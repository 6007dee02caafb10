// Random: tags of writes, from the kernel.
#pragma once

#include <sys/random.h>

#include <cstdint>

namespace gd2fs {

/// Never zero: zero stands for "the latest" on the wire.
inline std::uint64_t random_tag() {
  std::uint64_t tag = 0;
  while (tag == 0)
    if (getrandom(&tag, sizeof tag, 0) != sizeof tag) tag = 0;
  return tag;
}

}  // namespace gd2fs
