// Copy kernels: the same copy, compiled once per instruction set, each in a file of its own.
//
// Such a file includes nothing but this and the compiler's own headers, as with checksum_kernel.h.
#pragma once

#include <stddef.h>

namespace gd2fs::kernel {

/// `to` is at a multiple of 64, `bytes` is a multiple of 256. Without a fence: whoever hands the
/// bytes on to another thread ends with one.
using Stream = void (*)(void* to, const void* from, size_t bytes);

void stream_avx2(void* to, const void* from, size_t bytes);
void stream_avx512(void* to, const void* from, size_t bytes);

}  // namespace gd2fs::kernel
