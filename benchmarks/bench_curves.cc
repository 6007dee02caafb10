// What a node's curves cost: a comparison for each key that is not followed, and what following
// takes for one that is.
//
//   bench_curves
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <random>
#include <vector>

#include "live_curves.h"

using namespace gd2fs;

namespace {

constexpr std::size_t KEYS = 1 << 20;
constexpr std::size_t ENDLESS = 1'000'000'000;  // look-ups a second: all may be followed
constexpr int ROUNDS = 3;

// Of this thread: foreign load on the machine hardly shows in it.
double cpu_ns() {
  timespec spent{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) * 1e9 + static_cast<double>(spent.tv_nsec);
}

double took_ns(std::size_t count, const std::function<void()>& work) {
  const double start = cpu_ns();
  work();
  return (cpu_ns() - start) / static_cast<double>(count);
}

}  // namespace

int main() {
  serve::LiveCurves curves(0, ENDLESS);
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> places(KEYS), followed;
  for (std::uint64_t& place : places) place = random();
  const auto get = [&](std::uint64_t place) { curves.got({1, place, false}, GRAIN_BYTES, true); };
  for (const std::uint64_t place : places)
    if (curves.follows(place)) get(place);
  for (const std::uint64_t place : places)
    if (curves.follows(place)) followed.push_back(place);
  for (int round = 0; round < ROUNDS; ++round) {
    std::size_t count = 0;
    const double compared = took_ns(KEYS, [&] {
      for (const std::uint64_t place : places) count += curves.follows(place) ? 1 : 0;
    });
    const double got = took_ns(followed.size(), [&] {
      for (const std::uint64_t place : followed) get(place);
    });
    const double probed = took_ns(followed.size(), [&] {
      for (const std::uint64_t place : followed) curves.probed({1, place, false});
    });
    std::printf("%zu of %zu keys: %.2f ns to compare, %.0f ns to get one, %.0f ns to probe it\n",
                count, KEYS, compared, got, probed);
  }
}
