// Measures the ways to move a block out of shared memory: memcpy, `rep movsb`, copy_bytes, and a
// sum of each 64 KiB block before the copy, after it, or in small steps beside it.
//
//   bench_copy [MIB] [THREADS]
//
// Source and target lie on huge pages where the machine has them. Cases run in turn; medians.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <xxhash.h>

#include "../core/limits.h"  // the system has a limits.h of its own
#include "checksum.h"
#include "copy.h"

using namespace gd2fs;

namespace {

constexpr std::size_t ROUNDS = 21;

std::byte* memory_of(std::size_t bytes) {
  constexpr int PROT = PROT_READ | PROT_WRITE;
  void* at = mmap(nullptr, bytes, PROT, MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (at == MAP_FAILED) at = mmap(nullptr, bytes, PROT, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) std::abort();
  std::memset(at, 7, bytes);
  return static_cast<std::byte*>(at);
}

void move_string(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__x86_64__)
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  std::memcpy(to, from, bytes);
#endif
}

volatile std::uint64_t sink = 0;

struct Case {
  const char* name;
  std::function<void(std::byte*, const std::byte*, std::size_t)> block;
  std::vector<double> seconds;
};

/// In steps of 4 KiB: what is copied was just read for the sum.
void sum_beside_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t STEP = 4 * KiB;
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (std::size_t at = 0; at < bytes; at += STEP) {
    XXH3_64bits_update(&state, from + at, STEP);
    std::memcpy(to + at, from + at, STEP);
  }
  sink = XXH3_64bits_digest(&state);
}

double run(const Case& each, std::byte* to, const std::byte* from, std::size_t bytes,
           std::size_t threads) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> others;
  const std::size_t share = bytes / threads / BLOCK_BYTES * BLOCK_BYTES;
  const auto work = [&](std::size_t thread) {
    for (std::size_t at = thread * share; at < (thread + 1) * share; at += BLOCK_BYTES)
      each.block(to + at, from + at, BLOCK_BYTES);
  };
  for (std::size_t thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
  work(0);
  for (std::thread& other : others) other.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main(int count, char** arguments) {
  const std::size_t bytes = (count > 1 ? std::stoul(arguments[1]) : 64) * MiB;
  const std::size_t threads = count > 2 ? std::stoul(arguments[2]) : 1;
  std::byte* const from = memory_of(bytes);
  std::byte* const to = memory_of(bytes);
  std::vector<Case> cases = {
      {"memcpy", [](auto* t, const auto* f, std::size_t n) { std::memcpy(t, f, n); }, {}},
      {"rep movsb", move_string, {}},
      {"copy_bytes",
       [](auto* t, const auto* f, std::size_t n) {
         copy_bytes(t, {f, n});
       },
       {}},
      {"sum only",
       [](auto*, const auto* f, std::size_t n) {
         sink = checksum({f, n});
       },
       {}},
      {"sum, copy_bytes",
       [](auto* t, const auto* f, std::size_t n) {
         sink = checksum({f, n});
         copy_bytes(t, {f, n});
       },
       {}},
      {"memcpy, sum of the copy",
       [](auto* t, const auto* f, std::size_t n) {
         std::memcpy(t, f, n);
         sink = checksum({t, n});
       },
       {}},
      {"sum beside memcpy, 4 KiB steps", sum_beside_copy, {}},
  };
  for (std::size_t round = 0; round < ROUNDS; ++round)
    for (Case& each : cases) each.seconds.push_back(run(each, to, from, bytes, threads));
  std::printf("%zu MiB in blocks of 64 KiB, %zu thread(s)\n", bytes / MiB, threads);
  for (Case& each : cases) {
    std::sort(each.seconds.begin(), each.seconds.end());
    const auto rate = [&](double seconds) { return static_cast<double>(bytes) / seconds / 1e9; };
    std::printf("%-32s %6.2f GB/s, best %6.2f\n", each.name, rate(each.seconds[ROUNDS / 2]),
                rate(each.seconds.front()));
  }
  return 0;
}
