// Curves of misses against caches that are simulated, whole and sampled.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "miss_curve.h"
#include "wanted_blocks.h"

using gd2fs::MissCurve;
using gd2fs::sim::Block;
using gd2fs::testing::sequence;
using gd2fs::testing::share_found;

namespace {

MissCurve curve_of(const std::vector<Block>& wanted, std::size_t samples, std::uint64_t seed = 0) {
  MissCurve curve(samples, seed);
  for (const Block block : wanted) {
    curve.look(block);
    curve.use(block);
  }
  return curve;
}

}  // namespace

TEST_CASE("a curve of all keys is what caches of every size find") {
  const auto wanted = sequence(60'000, 5'000, 1);
  const MissCurve curve = curve_of(wanted, 10'000);

  CHECK(curve.sampled_share() == 1.0);
  for (const std::uint64_t capacity : {1u, 8u, 64u, 512u, 1'000u, 2'000u, 4'000u}) {
    const double exact = share_found(wanted, capacity);
    CHECK(std::abs(curve.share_within(static_cast<double>(capacity)) - exact) < 0.003);
  }
}

TEST_CASE("a sampled curve is nearly that, in as much memory as it may have") {
  const auto wanted = sequence(400'000, 100'000, 2);
  const std::vector<std::uint64_t> capacities{2'000, 8'000, 20'000, 50'000, 90'000};
  std::vector<double> exact;
  for (const std::uint64_t capacity : capacities) exact.push_back(share_found(wanted, capacity));
  for (const std::uint64_t seed : {0u, 1u, 2u}) {
    const MissCurve curve = curve_of(wanted, 4'000, seed);
    CHECK(curve.samples() <= 4'000);
    CHECK(curve.sampled_share() < 0.1);
    for (std::size_t at = 0; at < capacities.size(); ++at)
      CHECK(std::abs(curve.share_within(static_cast<double>(capacities[at])) - exact[at]) < 0.03);
  }
}

TEST_CASE("what was never used is found nowhere, and nothing is found in nothing") {
  MissCurve curve(100, 0);
  for (std::uint64_t key = 0; key < 1'000; ++key) {
    curve.look(key);
    curve.use(key);
  }

  CHECK(curve.share_within(1e9) < 0.05);
  CHECK(curve.share_within(0) == 0.0);
  CHECK(MissCurve(100, 0).share_within(10) == 0.0);
}
