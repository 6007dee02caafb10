#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "checksum.h"

#include <doctest/doctest.h>
#include <xxhash.h>

#include <random>
#include <vector>

using namespace gd2fs;

TEST_CASE("every kernel that this machine runs answers XXH3-64, in one run or in many") {
  std::vector<kernel::Sum> kernels = {kernel::sum_plain};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) kernels.push_back(kernel::sum_avx2);
  if (__builtin_cpu_supports("avx512f")) kernels.push_back(kernel::sum_avx512);
#endif
  std::mt19937_64 random(1);
  std::vector<std::byte> bytes(70'000);
  for (std::byte& each : bytes) each = static_cast<std::byte>(random());

  for (const std::size_t length : {0, 1, 16, 17, 240, 241, 1'024, 4'096, 65'535, 65'536, 70'000}) {
    const std::uint64_t expected = XXH3_64bits(bytes.data(), length);
    const std::size_t cut = length / 3;
    const std::vector<ChecksumRun> runs = {
        {bytes.data(), cut}, {bytes.data() + cut, 0}, {bytes.data() + cut, length - cut}};
    const ChecksumRun whole{bytes.data(), length};
    for (const kernel::Sum sum : kernels) {
      CHECK(sum(&whole, 1) == expected);
      CHECK(sum(runs.data(), runs.size()) == expected);
    }
    CHECK(checksum(std::span(bytes).first(length)) == expected);
    CHECK(checksum(runs) == expected);
  }
}
