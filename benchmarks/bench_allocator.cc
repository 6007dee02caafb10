// Measures the allocator alone: how full the arena is when eviction must begin, how much one
// allocation evicts, how many extents a piece has, and what allocate and free cost. No memory is
// touched: the arena is 16 GiB of offsets.
//
//   bench_allocator [ARENA_GIB] [TURNOVERS]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "../core/limits.h"  // the system has a limits.h of its own
#include "extent.h"

using namespace gd2fs;

namespace {

using Random = std::mt19937_64;
using Sizes = std::function<std::uint64_t(Random&, double progress)>;

struct Workload {
  const char* name;
  Sizes sizes;
};

std::uint64_t log_uniform(Random& random, std::uint64_t least, std::uint64_t most) {
  const double share = std::uniform_real_distribution<double>()(random);
  const double ratio = static_cast<double>(most) / static_cast<double>(least);
  return static_cast<std::uint64_t>(static_cast<double>(least) * std::pow(ratio, share));
}

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all = {
      {"log-uniform 64 KiB to 16 MiB",
       [](Random& random, double) { return log_uniform(random, 64 * KiB, 16 * MiB); }},
      {"80 % 64 to 256 KiB, 15 % 4 MiB, tails",
       [](Random& random, double) -> std::uint64_t {
         const auto dice = random() % 100;
         if (dice < 80) return 64 * KiB + random() % (192 * KiB);
         return dice < 95 ? 4 * MiB : 4 * KiB + random() % (4 * MiB);
       }},
      {"pages of four models",
       [](Random& random, double) -> std::uint64_t {
         constexpr std::uint64_t PAGES[] = {20 * KiB, 128 * KiB, 576 * KiB, 2560 * KiB};
         return PAGES[random() % 4];
       }},
      {"epochs of small, then of 2 to 16 MiB",
       [](Random& random, double progress) {
         const bool is_small = static_cast<std::uint64_t>(progress) % 2 == 0;
         return is_small ? log_uniform(random, 20 * KiB, 512 * KiB)
                         : log_uniform(random, 2 * MiB, 16 * MiB);
       }},
  };
  return all;
}

std::uint64_t grains_of(const std::vector<Extent>& extents) {
  std::uint64_t bytes = 0;
  for (const Extent& extent : extents) bytes += whole_grains(extent.bytes);
  return bytes;
}

struct Measured {
  double fill_least = 1, fill_sum = 0;
  std::uint64_t evictions = 0, evicted_worst = 0, pieces = 0, extents = 0, bytes = 0;
  std::chrono::nanoseconds spent{0};
};

// One arena under one workload; `reserve` bytes are kept free, as the background eviction does.
class Simulation {
 public:
  Simulation(std::uint64_t arena, std::uint64_t reserve)
      : arena_(arena), reserve_(reserve), allocator_(0, arena) {}

  Measured run(const Workload& workload, double turnovers) {
    while (static_cast<double>(measured_.bytes) < turnovers * static_cast<double>(arena_)) {
      const double progress = static_cast<double>(measured_.bytes) / static_cast<double>(arena_);
      put(workload.sizes(random_, progress));
    }
    return measured_;
  }

 private:
  void put(std::uint64_t bytes) {
    use_one();
    if (random_() % 10 == 0) drop_one();
    evict_for(bytes);
    std::vector<Extent> extents;
    timed([&] { allocator_.allocate(bytes, extents); });
    live_ += grains_of(extents);
    measured_.extents += extents.size();
    measured_.pieces += 1;
    measured_.bytes += bytes;
    pieces_.push_back(std::move(extents));
  }

  void use_one() {
    if (pieces_.empty() || random_() % 10 != 0) return;
    pieces_.push_back(std::move(pieces_.front()));
    pieces_.pop_front();
  }

  void drop_one() {
    if (pieces_.empty()) return;
    auto& dropped = pieces_[random_() % pieces_.size()];
    live_ -= grains_of(dropped);
    timed([&] { allocator_.free(dropped); });
    dropped.clear();
  }

  void evict_for(std::uint64_t bytes) {
    const std::uint64_t wanted = whole_grains(bytes) + reserve_;
    if (allocator_.free_bytes() >= wanted) return;
    const double fill = static_cast<double>(live_) / static_cast<double>(arena_);
    measured_.fill_least = std::min(measured_.fill_least, fill);
    measured_.fill_sum += fill;
    measured_.evictions += 1;
    std::uint64_t evicted = 0;
    while (allocator_.free_bytes() < wanted) {
      evicted += grains_of(pieces_.front());
      timed([&] { allocator_.free(pieces_.front()); });
      pieces_.pop_front();
    }
    live_ -= evicted;
    measured_.evicted_worst = std::max(measured_.evicted_worst, evicted - std::min(evicted, bytes));
  }

  void timed(const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    measured_.spent += std::chrono::steady_clock::now() - start;
  }

  std::uint64_t arena_, reserve_, live_ = 0;
  Allocator allocator_;
  Random random_{42};
  std::deque<std::vector<Extent>> pieces_;
  Measured measured_;
};

void report(const Workload& workload, const char* reserve, const Measured& m) {
  const auto pieces = static_cast<double>(m.pieces);
  const auto spent = static_cast<double>(m.spent.count());
  std::printf("%-40s %4s  %6.2f %% (%5.2f)  %7.1f MiB  %6.2f  %6.0f ns  %4.0f ns\n", workload.name,
              reserve,
              100 * m.fill_sum / static_cast<double>(std::max<std::uint64_t>(m.evictions, 1)),
              100 * m.fill_least, static_cast<double>(m.evicted_worst) / MiB,
              static_cast<double>(m.extents) / pieces, spent / pieces,
              spent / static_cast<double>(m.extents));
}

}  // namespace

int main(int count, char** arguments) {
  const std::uint64_t arena = (count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 16) * GiB;
  const double turnovers = count > 2 ? std::strtod(arguments[2], nullptr) : 12;
  std::printf("%-40s %4s  %16s  %11s  %6s  %9s  %7s\n", "workload", "free", "fill mean (least)",
              "evicted for", "parts", "a piece", "a part");
  for (const Workload& workload : workloads()) {
    report(workload, "0 %", Simulation(arena, 0).run(workload, turnovers));
    report(workload, "3 %", Simulation(arena, arena / 100 * 3).run(workload, turnovers));
  }
  return 0;
}
