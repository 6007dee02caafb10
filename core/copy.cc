#include "copy.h"

#include <cstdint>
#include <cstring>

#include "copy_kernel.h"

namespace gd2fs {
namespace {

constexpr std::size_t LINE_BYTES = 64;
constexpr std::size_t STEP_BYTES = 256;  // of every kernel, or a multiple of its step

kernel::Stream choose() noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return kernel::stream_avx512;
  if (__builtin_cpu_supports("avx2")) return kernel::stream_avx2;
#endif
  return nullptr;
}

kernel::Stream chosen() noexcept {
  static const kernel::Stream stream = choose();
  return stream;
}

}  // namespace

void copy_bytes(std::byte* to, std::span<const std::byte> from) noexcept {
  const kernel::Stream stream = from.size() < COPY_STREAM_BYTES ? nullptr : chosen();
  if (stream == nullptr) {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());  // apart, by contract
    return;
  }
  // Head and tail by memcpy: the kernel wants whole lines and whole steps.
  const std::size_t head =
      (LINE_BYTES - reinterpret_cast<std::uintptr_t>(to) % LINE_BYTES) % LINE_BYTES;
  const std::size_t body = (from.size() - head) / STEP_BYTES * STEP_BYTES;
  std::memcpy(to, from.data(), head);
  stream(to + head, from.data() + head, body);
  const std::size_t done = head + body;
  std::memcpy(to + done, from.data() + done, from.size() - done);
}

void copy_fence() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}

}  // namespace gd2fs
