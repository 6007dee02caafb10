// Copy: moves bytes past the caches when there are many, on the widest vectors of this machine.
//
// A plain memcpy of a big block first reads what it is about to overwrite, and throws the caches'
// content out: a quarter of the memory's bandwidth. Non-temporal stores do neither.
#pragma once

#include <cstddef>
#include <span>

namespace gd2fs {

/// Copies `from` to `to`, which do not overlap. From COPY_STREAM_BYTES on past the caches; what is
/// written so is seen by other threads after they synchronise with this one as usual.
void copy_bytes(std::byte* to, std::span<const std::byte> from) noexcept;

inline constexpr std::size_t COPY_STREAM_BYTES = 32 * 1024;

}  // namespace gd2fs
