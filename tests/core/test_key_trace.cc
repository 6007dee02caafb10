// What is recorded of what is asked: whole batches, under numbers that only their key explains.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "key_trace.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "name.h"

namespace gd2fs::serve {
namespace {

using wire::Op;
using Entry = KeyTrace::Entry;
constexpr SipKey KEY{7, 11};

std::string page_of(std::size_t number, const std::string& name_space = "a") {
  return page_name(name_space, "key" + std::to_string(number));
}

/// A batch of `count` pages that were found.
void note(KeyTrace& trace, std::size_t first, std::size_t count,
          const std::string& name_space = "a") {
  trace.note(Op::get, [&](KeyTrace::Batch& batch) {
    for (std::size_t at = 0; at < count; ++at)
      batch.add(page_of(first + at, name_space), true, 0, 0, 4096, KeyTrace::Outcome::hit);
  });
}

/// Keys in whole batches; a batch that is cut fails.
std::vector<Entry> keys_of(const std::vector<Entry>& entries) {
  std::vector<Entry> keys;
  for (std::size_t at = 0; at < entries.size(); ++at) {
    REQUIRE(entries[at].op == Op::get);
    const std::size_t count = entries[at].size;
    REQUIRE(at + count < entries.size());
    for (std::size_t key = 0; key < count; ++key) keys.push_back(entries[++at]);
  }
  return keys;
}

}  // namespace

TEST_CASE("numbers are those of the published function") {
  std::array<std::uint64_t, 2> key{0x0706050403020100, 0x0f0e0d0c0b0a0908};
  std::string text(15, '\0');
  std::iota(text.begin(), text.end(), '\0');

  CHECK(siphash(key, text) == 0xa129ca6149be45e5);
  CHECK(siphash(key, "") == 0x726fdb47dd0e0e31);
  CHECK(siphash(key, text.substr(0, 8)) == 0x93f5f5799a932462);
}

TEST_CASE("nothing is noted until somebody records, and nothing after that") {
  KeyTrace trace;
  note(trace, 0, 1);
  trace.begin({KEY, ""});
  CHECK(trace.take(100).entries.empty());

  note(trace, 0, 2);
  CHECK(keys_of(trace.take(100).entries).size() == 2);
  trace.end();
  note(trace, 0, 1);

  CHECK_FALSE(trace.is_on());
  CHECK(trace.take(100).entries.empty());
}

TEST_CASE("equal names have equal numbers in one recording, and others in the next") {
  KeyTrace trace;
  trace.begin({KEY, ""});
  note(trace, 1, 2);
  note(trace, 2, 1);
  const auto first = keys_of(trace.take(100).entries);
  trace.begin({SipKey{8, 11}, ""});
  note(trace, 1, 2);
  const auto second = keys_of(trace.take(100).entries);

  CHECK(first[1].number == first[2].number);
  CHECK(first[0].number != first[1].number);
  CHECK(first[0].number != second[0].number);
  CHECK(first[0].outcome == KeyTrace::Outcome::hit);
  CHECK(first[0].size == 4096);
}

TEST_CASE("pieces of one file differ by chunk and tag") {
  KeyTrace trace;
  trace.begin({KEY, ""});
  trace.note(Op::get, [](KeyTrace::Batch& batch) {
    for (const auto& [chunk, tag] : {std::pair(0, 1), std::pair(1, 1), std::pair(0, 2)}) {
      batch.add("/a/file", false, static_cast<std::uint64_t>(chunk),
                static_cast<std::uint64_t>(tag), 1, KeyTrace::Outcome::miss);
    }
  });
  const auto keys = keys_of(trace.take(100).entries);

  CHECK(keys[0].number != keys[1].number);
  CHECK(keys[0].number != keys[2].number);
  CHECK(keys[1].number != keys[2].number);
}

TEST_CASE("of one namespace only what belongs to it is noted") {
  KeyTrace trace;
  trace.begin({KEY, "a"});
  note(trace, 0, 3, "ab");
  note(trace, 0, 2, "a");

  CHECK(keys_of(trace.take(100).entries).size() == 2);
}

TEST_CASE("what is taken in parts is whole batches in their order") {
  KeyTrace trace;
  trace.begin({KEY, ""});
  for (std::size_t at = 0; at < 10; ++at) note(trace, 10 * at, 9);
  std::vector<Entry> all;
  KeyTrace::Taken taken;
  std::size_t turns = 0;
  do {
    taken = trace.take(35);
    CHECK(keys_of(taken.entries).size() == (turns < 3 ? 27 : 9));
    all.insert(all.end(), taken.entries.begin(), taken.entries.end());
    ++turns;
  } while (taken.is_more);

  CHECK(turns == 4);
  CHECK(keys_of(all).size() == 90);
}

TEST_CASE("what there is no room for is counted, and the rest is whole") {
  KeyTrace trace;
  trace.begin({KEY, ""});
  constexpr std::size_t LANE_ENTRIES = KEY_TRACE_BYTES_MAX / 16 / sizeof(Entry);
  constexpr std::size_t BATCH = 1'000;
  const std::size_t fit = LANE_ENTRIES / (BATCH + 1);
  for (std::size_t at = 0; at < fit + 3; ++at) note(trace, 0, BATCH);

  const auto taken = trace.take(LANE_ENTRIES);

  CHECK(taken.dropped == 3 * BATCH);
  CHECK(keys_of(taken.entries).size() == fit * BATCH);
  note(trace, 0, 1);
  CHECK(keys_of(trace.take(100).entries).size() == 1);
}

TEST_CASE("a recording that nobody takes from ends by itself") {
  KeyTrace trace;
  trace.begin({KEY, ""}, -1);

  note(trace, 0, 1);

  CHECK_FALSE(trace.is_on());
}

TEST_CASE("threads note while one takes, and no key is lost or told twice") {
  KeyTrace trace;
  trace.begin({KEY, ""});
  constexpr std::size_t THREADS = 3, BATCHES = 2'000, BATCH = 7;
  std::atomic<std::size_t> working{THREADS};
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < THREADS; ++thread) {
    threads.emplace_back([&trace, &working, thread] {
      for (std::size_t at = 0; at < BATCHES; ++at) note(trace, thread * 1'000'000 + at * 10, BATCH);
      --working;
    });
  }
  std::size_t keys = 0;
  bool is_last = false;
  for (bool is_more = true; is_more;) {
    is_last = working == 0;
    const auto taken = trace.take(500);
    keys += keys_of(taken.entries).size();
    is_more = taken.is_more || !is_last;
  }
  for (std::thread& each : threads) each.join();

  CHECK(keys == THREADS * BATCHES * BATCH);
}

}  // namespace gd2fs::serve
