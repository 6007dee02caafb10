#include "checksum.h"

namespace gd2fs {
namespace {

kernel::Sum choose() noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return kernel::sum_avx512;
  if (__builtin_cpu_supports("avx2")) return kernel::sum_avx2;
#endif
  return kernel::sum_plain;
}

kernel::Sum chosen() noexcept {
  static const kernel::Sum sum = choose();
  return sum;
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes) noexcept {
  const ChecksumRun run{bytes.data(), bytes.size()};
  return chosen()(&run, 1);
}

std::uint64_t checksum(std::span<const ChecksumRun> runs) noexcept {
  return chosen()(runs.data(), runs.size());
}

}  // namespace gd2fs
