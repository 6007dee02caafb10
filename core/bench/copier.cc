#include "copier.h"

#include <algorithm>
#include <cstring>

#include "../limits.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gd2fs::bench {

namespace {

#if defined(__x86_64__)
constexpr std::size_t LINE_BYTES = 64;

using CopyLines = void (*)(std::byte*, const std::byte*, std::size_t);

__attribute__((target("avx512f"))) void copy_lines_avx512(std::byte* into, const std::byte* from,
                                                          std::size_t lines) {
  for (std::size_t line = 0; line < lines; ++line) {
    const std::size_t at = line * LINE_BYTES;
    _mm512_stream_si512(reinterpret_cast<__m512i*>(into + at),  // aligned: a line begins there
                        _mm512_loadu_si512(from + at));
  }
}

__attribute__((target("avx2"))) void copy_lines_avx2(std::byte* into, const std::byte* from,
                                                     std::size_t lines) {
  for (std::size_t at = 0; at < lines * LINE_BYTES; at += LINE_BYTES / 2) {
    // Unaligned loads, and stores to halves of lines: both are what the intrinsics ask for.
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(into + at), half);
  }
}

void copy_lines_sse2(std::byte* into, const std::byte* from, std::size_t lines) {
  for (std::size_t at = 0; at < lines * LINE_BYTES; at += LINE_BYTES / 4) {
    // As above, by quarters.
    const __m128i quarter = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at));
    _mm_stream_si128(reinterpret_cast<__m128i*>(into + at), quarter);
  }
}

CopyLines widest() {
  if (__builtin_cpu_supports("avx512f")) return copy_lines_avx512;
  if (__builtin_cpu_supports("avx2")) return copy_lines_avx2;
  return copy_lines_sse2;
}
#endif

}  // namespace

#if defined(__x86_64__)
void copy_nontemporal(std::byte* into, const std::byte* from, std::size_t bytes) noexcept {
  static const CopyLines copy_lines = widest();
  const std::size_t past = reinterpret_cast<std::uintptr_t>(into) % LINE_BYTES;  // only its value
  const std::size_t head = past == 0 ? 0 : std::min(bytes, LINE_BYTES - past);
  std::memcpy(into, from, head);
  const std::size_t lines = (bytes - head) / LINE_BYTES;
  copy_lines(into + head, from + head, lines);
  const std::size_t done = head + lines * LINE_BYTES;
  std::memcpy(into + done, from + done, bytes - done);
  _mm_sfence();  // streaming stores are not ordered with others
}
#else
void copy_nontemporal(std::byte* into, const std::byte* from, std::size_t bytes) noexcept {
  std::memcpy(into, from, bytes);
}
#endif

Result<std::unique_ptr<Copier>> Copier::make(const ArenaOptions& source, std::size_t threads) {
  auto arena = Arena::open(source);
  if (!arena) return arena.error();
  std::memset(arena->memory().data(), 0x5a, arena->bytes());
  return std::unique_ptr<Copier>(new Copier(std::move(*arena), threads));
}

void Copier::run(std::span<std::byte> into, CopyKind kind) {
  const std::size_t members = into.size() < 512 * KiB ? 1 : crew_.size();
  const std::size_t share = (into.size() + members - 1) / members;
  const std::span<const std::byte> source = source_.memory();
  crew_.run(members, [&](std::size_t index) {
    const std::size_t end = std::min(into.size(), (index + 1) * share);
    for (std::size_t at = index * share; at < end;) {
      const std::size_t from = at % source.size();
      const std::size_t bytes = std::min({end - at, source.size() - from, MiB});
      if (kind == CopyKind::plain) {
        std::memcpy(into.data() + at, source.data() + from, bytes);
      } else {
        copy_nontemporal(into.data() + at, source.data() + from, bytes);
      }
      at += bytes;
    }
  });
}

}  // namespace gd2fs::bench
