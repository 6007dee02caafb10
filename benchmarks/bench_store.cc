// Measures the store's own work, without moving bytes: what a put, a find, a probe and an evicting
// put cost, and how much memory beside the arena a page takes.
//
//   bench_store [PAGES] [PAGE_BYTES]
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "name.h"
#include "store.h"

using namespace gd2fs;

namespace {

constexpr std::size_t BATCH = 128;

std::string key_of(std::size_t i) {
  std::string key(32, '\0');
  std::mt19937_64 random(i);
  for (char& byte : key) byte = static_cast<char>(random());
  return page_name("model-a", key);
}

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * 4096;
}

// Of all threads: foreign load on the machine hardly shows in it.
double cpu_ns() {
  timespec spent{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) * 1e9 + static_cast<double>(spent.tv_nsec);
}

void measure(const char* what, std::size_t count, std::size_t threads,
             const std::function<void(std::size_t begin, std::size_t end)>& work) {
  const auto start = std::chrono::steady_clock::now();
  const double cpu_start = cpu_ns();
  std::vector<std::thread> running;
  for (std::size_t i = 0; i < threads; ++i) {
    running.emplace_back([&, i] { work(count * i / threads, count * (i + 1) / threads); });
  }
  for (auto& thread : running) thread.join();
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
  std::printf("%-28s %zu threads  %7.0f CPU ns an operation, %6.2f M/s\n", what, threads,
              (cpu_ns() - cpu_start) / static_cast<double>(count),
              static_cast<double>(count) * 1e3 / spent.count());
}

}  // namespace

int main(int argument_count, char** arguments) {
  const std::size_t pages =
      argument_count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 1'000'000;
  const std::uint64_t bytes =
      argument_count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 4 * KiB;
  StoreOptions options;
  options.arena = {pages * bytes / 10 * 11 + 64 * MiB, Rung::plain, ""};
  options.evict_above = options.evict_below = 1;
  auto opened = Store::open(options);
  if (!opened) return std::fprintf(stderr, "error: %s\n", opened.error().message.c_str()), 1;
  Store& store = **opened;
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < 2 * pages; ++i) keys.push_back(key_of(i));
  std::vector<std::size_t> order(pages);
  for (std::size_t i = 0; i < pages; ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
  const auto put = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      PieceSpec spec;
      spec.name = keys[i], spec.is_page = true, spec.tag = i, spec.length = bytes;
      const Reserved reserved = store.reserve(spec);
      if (reserved.piece != nullptr) store.publish_page(reserved.piece);
    }
  };
  const auto find = [&](bool is_use) {
    return [&, is_use](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        if (store.find_page(keys[order[i]], is_use) == nullptr) std::abort();
      }
    };
  };
  const auto find_warmed = [&](bool is_use) {
    return [&, is_use](std::size_t begin, std::size_t end) {
      std::vector<std::string_view> batch;
      for (std::size_t i = begin; i < end; i += BATCH) {
        batch.clear();
        for (std::size_t at = i; at < std::min(end, i + BATCH); ++at)
          batch.push_back(keys[order[at]]);
        store.warm_pages(batch);
        for (const auto name : batch) {
          if (store.find_page(name, is_use) == nullptr) std::abort();
        }
      }
    };
  };
  const std::uint64_t before = resident_bytes();
  measure("put", pages, 1, put);
  const std::uint64_t records = store.counts().record_bytes;
  std::printf("beside the arena: %llu B a page; records in the arena: %llu B a page\n",
              static_cast<unsigned long long>((resident_bytes() - before - records) / pages),
              static_cast<unsigned long long>(records / pages));
  for (const std::size_t threads : {1, 2}) {
    measure("find", pages, threads, find(true));
    measure("find, warmed", pages, threads, find_warmed(true));
    measure("probe", pages, threads, find(false));
    measure("probe, warmed", pages, threads, find_warmed(false));
    measure("probe, a miss", pages, threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) store.find_page(keys[pages + order[i]], false);
    });
  }
  measure("put, evicting", pages, 1,
          [&](std::size_t begin, std::size_t end) { put(pages + begin, pages + end); });
  std::printf("evicted %llu pages\n",
              static_cast<unsigned long long>(store.counts().evicted_pieces));
  return 0;
}
