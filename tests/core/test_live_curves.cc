// Curves of a running node against caches of all sizes that are simulated.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "live_curves.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "wanted_blocks.h"

namespace gd2fs::serve {
namespace {

using sim::Block;
using sim::PrivateCache;
using testing::sequence;
using testing::share_found;
constexpr std::size_t LANE = 1;
constexpr std::uint64_t PIECE_BYTES = 2 * GRAIN_BYTES;

/// A hash of a name, as far as curves can tell.
std::uint64_t place_of(Block block) {
  return LiveCurves::place_of(0, block, 1) * 0x9E3779B97F4A7C15ull;
}

/// Of one namespace in LANE, with what its node counts.
struct Side {
  explicit Side(std::int64_t now_ms = 0, std::size_t looks_per_s_max = 1'000'000'000)
      : curves(now_ms, looks_per_s_max), counts(LANE + 1) {
    counts[LANE].name = "a";
  }

  /// As an engine asks: is it there; then it gets it, or puts it.
  void ask(Block block, bool is_probed) {
    NamespaceCounts& mine = counts[LANE];
    const LiveCurves::Key key{LANE, place_of(block), has_quota};
    const bool is_there = cache.has(block);
    const bool is_followed = curves.follows(key.place);
    if (is_probed) {
      ++(is_there ? mine.found : mine.lacking);
      if (is_followed) curves.probed(key);
    }
    if (is_there || !is_probed) {
      ++(is_there ? mine.wholes_found : mine.wholes_lacking);
      std::optional<std::uint64_t> bytes;
      if (is_there) bytes = PIECE_BYTES;
      if (is_followed) curves.got(key, bytes, true);
    }
    if (!is_there && is_followed) curves.stored(key, PIECE_BYTES);
    cache.use(block);
  }

  NamespaceCurve told() const {
    const auto all = curves.told(counts, 10);
    REQUIRE(all.size() == 1);
    return all.front();
  }

  LiveCurves curves;
  std::vector<NamespaceCounts> counts;
  PrivateCache cache{1'000};
  bool has_quota = false;
};

double share_of(const NamespaceCurve& curve, double pieces) {
  const double octaves = std::log2(pieces * (PIECE_BYTES / GRAIN_BYTES));
  const auto at = static_cast<std::size_t>(std::lround(octaves * NamespaceCurve::STEPS_PER_OCTAVE));
  return curve.shares[std::min(at, curve.shares.size() - 1)];
}

/// Sizes of which a step is: powers of two.
constexpr std::uint64_t SIZES[] = {64, 512, 1'024, 2'048, 4'096};

}  // namespace

TEST_CASE("it says what caches of other sizes find, however they are asked") {
  const auto wanted = sequence(60'000, 5'000, 1);
  for (const bool is_probed : {true, false}) {
    Side side;
    for (const Block block : wanted) side.ask(block, is_probed);
    const NamespaceCurve curve = side.told();

    CHECK(curve.looks == doctest::Approx(60'000));
    CHECK(curve.found / curve.looks == doctest::Approx(share_found(wanted, 1'000)));
    CHECK(curve.piece_bytes == PIECE_BYTES);
    for (const std::uint64_t size : SIZES) {
      CAPTURE(size);
      const double exact = share_found(wanted, size);
      CHECK(std::abs(share_of(curve, static_cast<double>(size)) - exact) < 0.01);
    }
  }
}

TEST_CASE("the more is asked in a second the fewer keys are followed, and it is nearly right") {
  Side side(0, CURVE_LOOKS_BURST);  // much less than comes in this second
  const auto wanted = sequence(400'000, 100'000, 2);
  for (const Block block : wanted) side.ask(block, false);
  const NamespaceCurve curve = side.told();

  CHECK(curve.followed < 400'000);
  CHECK(curve.looks == 400'000);
  for (const std::uint64_t size : {4'096u, 16'384u, 65'536u}) {
    CAPTURE(size);
    CHECK(std::abs(share_of(curve, static_cast<double>(size)) - share_found(wanted, size)) < 0.06);
  }
}

TEST_CASE("what has a quota is in its own order of uses") {
  Side side;
  side.has_quota = true;
  std::vector<NamespaceCounts>& counts = side.counts;
  counts.resize(3);
  counts[2].name = "b";
  for (int round = 0; round < 20; ++round) {
    for (Block block = 0; block < 16; ++block) side.ask(block, false);
    // Others use ten times as much in between.
    for (std::uint64_t other = 0; other < 160; ++other) {
      const LiveCurves::Key key{2, place_of(static_cast<Block>(100'000 + other)), false};
      ++counts[2].wholes_found;
      side.curves.got(key, PIECE_BYTES, true);
    }
  }
  const auto all = side.curves.told(counts, 10);
  REQUIRE(all.size() == 2);
  const auto& own = all[0].name == "a" ? all[0] : all[1];

  CHECK(share_of(own, 32) == doctest::Approx(19.0 / 20));
  CHECK(share_of(own, 8) == 0);
}

TEST_CASE("what is told is of this window and the one before") {
  Side side(1);
  for (Block block = 0; block < 100; ++block) side.ask(block, false);
  side.curves.turn(1 + CURVE_WINDOW_MS, side.counts);
  CHECK(side.told().looks == 100);
  CHECK(side.curves.since_ms() == 1);

  for (Block block = 0; block < 100; ++block) side.ask(block, false);
  CHECK(side.told().looks == 200);
  CHECK(side.told().shares.back() == doctest::Approx(0.5));
  CHECK_FALSE(side.curves.is_turn_due(2 * CURVE_WINDOW_MS));
  side.curves.turn(1 + 2 * CURVE_WINDOW_MS, side.counts);

  CHECK(side.told().looks == 100);
  CHECK(side.told().shares.back() == doctest::Approx(1));
  CHECK(side.curves.since_ms() == 1 + CURVE_WINDOW_MS);
  side.curves.turn(1 + 3 * CURVE_WINDOW_MS, side.counts);
  CHECK(side.curves.told(side.counts, 10).empty());
}

TEST_CASE("nothing is followed while it is off") {
  Side side;
  side.curves.set(false);

  CHECK_FALSE(side.curves.follows(place_of(1)));
  side.curves.set(true);
  CHECK(side.curves.follows(place_of(1)));
}

}  // namespace gd2fs::serve
