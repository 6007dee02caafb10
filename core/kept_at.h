// Kept at: where a copy is that outlives its node's process.
#pragma once

#include <cstdint>

namespace gd2fs {

/// The larger one outlives more. As SYNC answers it.
enum class KeptAt : std::uint8_t {
  nowhere = 0,
  memory = 1,  // outlives the process, not the machine
  disk = 2,
};

}  // namespace gd2fs
