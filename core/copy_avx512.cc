#include "copy_kernel.h"

#ifdef __AVX512F__
#ifndef __clang__
// GCC 12's own headers of these vectors initialise a value with itself.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

void gd2fs::kernel::stream_avx512(void* to, const void* from, size_t bytes) {
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
  for (const char* const end = in + bytes; in != end; in += 256, out += 256) {
    const __m512i a = _mm512_loadu_si512(in);
    const __m512i b = _mm512_loadu_si512(in + 64);
    const __m512i c = _mm512_loadu_si512(in + 128);
    const __m512i d = _mm512_loadu_si512(in + 192);
    // Vector pointers may alias anything; `out` is aligned to 64 by contract.
    _mm512_stream_si512(reinterpret_cast<__m512i*>(out), a);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(out + 64), b);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(out + 128), c);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(out + 192), d);
  }
}
#endif
