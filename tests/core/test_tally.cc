#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "tally.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "name.h"

namespace gd2fs::serve {
namespace {

std::string page_of(const std::string& name_space) { return page_name(name_space, "key"); }

std::uint64_t hits_of(const Tallies& tallies, const std::string& name) {
  const auto counts = tallies.namespaces();
  const auto found = std::find_if(counts.begin(), counts.end(),
                                  [&](const NamespaceCounts& each) { return each.name == name; });
  return found == counts.end() ? 0 : found->hits[0];
}

void hit(Tally& tally, const std::string& name_space) {
  tally.hit(tally.of(page_of(name_space), true), FoundIn::memory);
}

TEST_CASE("what takes as long as a bound says is in its bucket") {
  Histogram histogram;
  histogram.add(0);
  histogram.add(50'000);
  histogram.add(50'001);
  histogram.add(10'000'000'000);
  histogram.add(10'000'000'001);

  Histogram::Sum sum;
  histogram.add_to(sum);

  CHECK(sum.counts.front() == 2);
  CHECK(sum.counts[1] == 1);
  CHECK(sum.counts[Histogram::BUCKETS - 2] == 1);
  CHECK(sum.counts.back() == 1);
  CHECK(sum.took_ns == 20'000'100'002);
}

TEST_CASE("a page and a file of one namespace are counted together") {
  Tallies tallies;
  Tally& tally = tallies.open();
  NamespaceTally& space = tally.of(page_of("a"), true);

  CHECK(&tally.of("/a/file", false) == &space);
  CHECK(&tally.of("/ab/file", false) != &space);
  CHECK(&tally.of(page_of("ab"), true) != &space);
  CHECK(&tally.of("/a/other/file", false) == &space);
}

TEST_CASE("namespaces beyond the first thousand share their counts, in every thread") {
  Tallies tallies;
  Tally& first = tallies.open();
  Tally& second = tallies.open();
  for (std::size_t at = 0; at < COUNTED_NAMESPACES_MAX + 50; ++at)
    hit(first, "space" + std::to_string(at));

  hit(second, "space0");
  hit(second, "one more");

  CHECK(tallies.namespaces().size() == COUNTED_NAMESPACES_MAX + 1);
  CHECK(hits_of(tallies, "space0") == 2);
  CHECK(hits_of(tallies, "space999") == 1);
  CHECK(hits_of(tallies, "") == 51);
  CHECK(tallies.totals().hits == COUNTED_NAMESPACES_MAX + 52);
}

TEST_CASE("a namespace with rules has counts of its own from then on, however many there are") {
  Tallies tallies;
  Tally& tally = tallies.open();
  for (std::size_t at = 0; at < COUNTED_NAMESPACES_MAX; ++at)
    hit(tally, "space" + std::to_string(at));
  hit(tally, "ruled");

  tallies.book.reserve("ruled");
  hit(tally, "ruled");
  hit(tally, "ruled");

  CHECK(hits_of(tallies, "ruled") == 2);
  CHECK(hits_of(tallies, "") == 1);
}

TEST_CASE("no more namespaces are told apart than there is room for") {
  NamespaceBook book;
  NamespaceBook::Copy copy;
  for (std::size_t at = 0; at < 2 * NamespaceBook::NUMBERS; ++at)
    book.reserve("ruled" + std::to_string(at));

  book.learn("seen", copy);

  CHECK(book.names().size() == NamespaceBook::NUMBERS);
  CHECK_FALSE(copy.numbers.contains("seen"));
}

TEST_CASE("counts of threads that go on are summed while they do") {
  Tallies tallies;
  Tally& first = tallies.open();
  Tally& second = tallies.open();
  constexpr std::size_t COUNT = 20'000;
  std::atomic<int> working{2};
  const auto work = [&](Tally& tally) {
    for (std::size_t at = 0; at < COUNT; ++at) {
      tally.miss(tally.of(page_of("space" + std::to_string(at % 100)), true), Miss::absent);
      tally.took(wire::Op::get, Transport::tcp, at);
      tally.moved(Transport::tcp, Direction::out, 2);
    }
    --working;
  };

  std::thread one([&] { work(first); }), other([&] { work(second); });
  std::uint64_t last = 0;
  bool is_growing = true;
  while (working > 0) {
    std::uint64_t now = 0;
    for (const NamespaceCounts& each : tallies.namespaces()) now += each.misses[0];
    is_growing = is_growing && now >= last;
    last = now;
  }
  one.join();
  other.join();

  CHECK(is_growing);
  CHECK(tallies.totals().misses == 2 * COUNT);
  CHECK(tallies.totals().bytes_of(Direction::out) == 4 * COUNT);
  CHECK(tallies.took().at(0).op == "get");
}

TEST_CASE("every op has a name of its own, and what is none of them is unknown") {
  CHECK(op_name(op_index(wire::Op::exists)) == "exists");
  CHECK(op_name(op_index(wire::Op::move)) == "move");
  CHECK(op_name(op_index(static_cast<wire::Op>(200))) == "unknown");
}

TEST_CASE("the reason of a miss is one word") {
  CHECK(miss_name(miss_of(Cause::ending)) == "absent");
  CHECK(miss_name(miss_of(Cause::over_quota)) == "over_quota");
  CHECK(miss_name(miss_of(Cause::disk_lost)) == "lost_by_the_disk");
  CHECK(miss_name(Miss::no_room) == "no_room");
}

TEST_CASE("what went last of a name is known without its ring, and nothing of other names") {
  Departures departures(1024);
  departures.note("kept", 0, 1, 10, PolicyKind::lru, {Cause::evicted});
  departures.note("kept", 1, 1, 10, PolicyKind::lru, {Cause::dropped});
  departures.note("kept", 0, 2, 10, PolicyKind::lru, {Cause::expired});

  CHECK(departures.last_cause_of("kept", 0) == Cause::expired);
  CHECK(departures.last_cause_of("kept", 1) == Cause::dropped);
  CHECK(departures.last_cause_of("kept", 2) == Cause::ending);
  CHECK(departures.last_cause_of("unknown", 0) == Cause::ending);
  CHECK(departures.counts()[static_cast<std::size_t>(Cause::evicted)].bytes == 10);
}

}  // namespace
}  // namespace gd2fs::serve
