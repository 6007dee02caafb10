// Checksum: XXH3-64 (seed 0) of one block, on the widest vectors that this machine has.
//
// The value is the same everywhere; only the speed is not. Chosen once, at the first call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "checksum_kernel.h"

namespace gd2fs {

using ChecksumRun = kernel::Run;

std::uint64_t checksum(std::span<const std::byte> bytes) noexcept;
/// Of runs back to back, as if they were one.
std::uint64_t checksum(std::span<const ChecksumRun> runs) noexcept;

}  // namespace gd2fs
