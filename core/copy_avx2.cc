#include "copy_kernel.h"

#ifdef __AVX2__
#include <immintrin.h>

void gd2fs::kernel::stream_avx2(void* to, const void* from, size_t bytes) {
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
  for (const char* const end = in + bytes; in != end; in += 128, out += 128) {
    // Vector pointers may alias anything; loads are unaligned, `out` is aligned to 64 by contract.
    const auto* const vectors = reinterpret_cast<const __m256i*>(in);
    auto* const stores = reinterpret_cast<__m256i*>(out);
    const __m256i a = _mm256_loadu_si256(vectors);
    const __m256i b = _mm256_loadu_si256(vectors + 1);
    const __m256i c = _mm256_loadu_si256(vectors + 2);
    const __m256i d = _mm256_loadu_si256(vectors + 3);
    _mm256_stream_si256(stores, a);
    _mm256_stream_si256(stores + 1, b);
    _mm256_stream_si256(stores + 2, c);
    _mm256_stream_si256(stores + 3, d);
  }
}
#endif
