// Copy: moves bytes past the caches when there are many, on the widest vectors of this machine.
//
// A plain memcpy of a big block first reads what it is about to overwrite, and throws the caches'
// content out: a quarter of the memory's bandwidth. Non-temporal stores do neither.
#pragma once

#include <cstddef>
#include <span>

namespace gd2fs {

/// Copies `from` to `to`, which do not overlap. From COPY_STREAM_BYTES on past the caches: other
/// threads see what was written so after a `copy_fence` here.
void copy_bytes(std::byte* to, std::span<const std::byte> from) noexcept;
/// Before bytes of `copy_bytes` are handed to another thread.
void copy_fence() noexcept;

inline constexpr std::size_t COPY_STREAM_BYTES = 32 * 1024;

}  // namespace gd2fs
