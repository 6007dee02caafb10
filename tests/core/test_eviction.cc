// The orders in which pieces go, each against a simulation of its rules, and what rules of a
// namespace do about them.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <random>
#include <set>

#include "eviction/lru.h"
#include "store_setup.h"

using namespace gd2fs;

namespace {

constexpr std::uint64_t PAGE = 256 * KiB;

std::string name_in(const std::string& name_space, std::size_t i) {
  return page_name(name_space, "key" + std::to_string(i));
}

NamespaceRules with_policy(PolicyKind policy) {
  NamespaceRules rules;
  rules.policy = policy;
  return rules;
}

Status put_in_class(Store& store, const std::string& name, std::uint8_t eviction_class) {
  PieceSpec spec = page_spec(name, PAGE);
  spec.eviction_class = eviction_class;
  const Reserved reserved = store.reserve(spec);
  if (reserved.status != Status::ok) return reserved.status;
  fill(reserved.piece, 1);
  return store.publish_page(reserved.piece);
}

/// How many pages of PAGE bytes a store holds before the first one goes.
std::size_t capacity_of(std::size_t bytes) {
  const auto store = open_store(bytes);
  std::size_t count = 0;
  while (put_page(*store, key(count), PAGE, count) == Status::ok &&
         store->counts().evicted_pieces == 0)
    ++count;
  return count;
}

/// Keys as caches see them: few of them often, and now and then a long scan.
std::vector<std::size_t> sequence(std::size_t length, std::size_t keys, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::size_t> wanted;
  while (wanted.size() < length) {
    if (random() % 500 == 0) {
      const std::size_t first = keys + random() % keys;
      for (std::size_t i = 0; i < keys / 4; ++i) wanted.push_back(first + i);
    }
    const double share = static_cast<double>(random() % 1'000'000) / 1e6;
    wanted.push_back(static_cast<std::size_t>(share * share * share * static_cast<double>(keys)));
  }
  wanted.resize(length);
  return wanted;
}

std::size_t hits_of(Store& store, const std::vector<std::size_t>& wanted) {
  std::size_t hits = 0;
  for (const std::size_t i : wanted) {
    if (store.find_page(key(i), true) != nullptr) {
      ++hits;
    } else {
      REQUIRE(put_page(store, key(i), PAGE, i) == Status::ok);
    }
  }
  return hits;
}

std::size_t simulated_lru_hits(const std::vector<std::size_t>& wanted, std::size_t capacity) {
  std::list<std::size_t> order;  // the newest first
  std::map<std::size_t, std::list<std::size_t>::iterator> at;
  std::size_t hits = 0;
  for (const std::size_t i : wanted) {
    if (const auto found = at.find(i); found != at.end()) {
      ++hits;
      order.erase(found->second);
    } else if (order.size() == capacity) {
      at.erase(order.back());
      order.pop_back();
    }
    order.push_front(i);
    at[i] = order.begin();
  }
  return hits;
}

/// Algorithm 1 of the paper, word by word; all objects have one size.
class SimulatedS3Fifo {
 public:
  explicit SimulatedS3Fifo(std::size_t capacity) : capacity_(capacity) {}

  bool read(std::size_t key) {
    if (const auto found = uses_.find(key); found != uses_.end()) {
      found->second = std::min(found->second + 1, 3);
      return true;
    }
    while (small_.size() + main_.size() >= capacity_) evict();
    (take_ghost(key) ? main_ : small_).push_front(key);
    uses_[key] = 0;
    return false;
  }

 private:
  void evict() {
    if (small_.size() * 10 >= capacity_) return evict_small();
    evict_main();
  }

  void evict_small() {
    while (!small_.empty()) {
      const std::size_t key = small_.back();
      small_.pop_back();
      if (uses_[key] > 1) {
        uses_[key] = 0;
        main_.push_front(key);
        if (main_.size() * 10 > capacity_ * 9) return evict_main();
        continue;
      }
      uses_.erase(key);
      ghosts_.push_back(key);
      if (ghosts_.size() > capacity_ * 9 / 10) ghosts_.pop_front();
      return;
    }
  }

  void evict_main() {
    for (;;) {
      const std::size_t key = main_.back();
      main_.pop_back();
      if (uses_[key] == 0) {
        uses_.erase(key);
        return;
      }
      --uses_[key];
      main_.push_front(key);
    }
  }

  bool take_ghost(std::size_t key) {
    const auto found = std::find(ghosts_.begin(), ghosts_.end(), key);
    const bool is_ghost = found != ghosts_.end();
    if (is_ghost) *found = ~std::size_t{0};  // its place is taken until it would be too old
    return is_ghost;
  }

  const std::size_t capacity_;
  std::deque<std::size_t> small_, main_, ghosts_;
  std::map<std::size_t, int> uses_;
};

std::size_t count_in(Store& store, const std::string& name_space, std::size_t end) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < end; ++i)
    count += store.find_page(name_in(name_space, i), false) != nullptr ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("what comes with an age goes first when it is older than nearly all") {
  Board board;
  Lru lru(board, 0);
  EvictionHook hooks[6];
  const auto add = [&](std::size_t at, std::uint64_t now_ns, std::uint64_t used_ns) {
    lru.add(hooks[at], now_ns, used_ns);
  };
  add(0, 100, 100);
  add(1, 150, 150);
  add(2, 200, 50);  // older than all
  CHECK(lru.head(0) == &hooks[2]);
  add(3, 1'000, 60);  // within the oldest tenth of 50 to 1000
  CHECK(lru.head(0) == &hooks[3]);
  add(4, 1'000, 900);
  add(5, 1'000, 1'000);
  lru.remove(hooks[3]);
  lru.remove(hooks[2]);
  for (const std::size_t next : {0u, 1u, 4u, 5u}) {
    CHECK(lru.head(0) == &hooks[next]);
    lru.remove(hooks[next]);
  }
}

TEST_CASE("an LRU hands out the oldest, and what is used or passed over goes to the back") {
  Board board;
  Lru lru(board, 0);
  EvictionHook hooks[4];
  for (int i = 0; i < 4; ++i) lru.add(hooks[i], 10 + std::uint64_t(i), 10 + std::uint64_t(i));
  lru.use(hooks[0], 20);
  CHECK(lru.head(0) == &hooks[1]);
  lru.passed_over(hooks[1], 21);
  CHECK(lru.head(0) == &hooks[2]);
  lru.remove(hooks[2]);
  lru.remove(hooks[3]);

  CHECK(lru.head(0) == &hooks[0]);
  CHECK(lru.head(0)->used_ns == 20);
  lru.remove(hooks[0]);
  lru.remove(hooks[1]);
  CHECK(lru.head(0) == nullptr);
}

TEST_CASE("LRU hits as often as a simulation of the same sequence") {
  const std::size_t capacity = capacity_of(32 * MiB);
  const auto wanted = sequence(20'000, capacity * 3, 1);
  const auto store = open_store(32 * MiB);

  const std::size_t hits = hits_of(*store, wanted);

  CHECK(hits == simulated_lru_hits(wanted, capacity));
  CHECK(store->counts().evicted_pieces > capacity);
}

TEST_CASE("S3-FIFO hits as often as the paper's algorithm on the same sequence") {
  const std::size_t capacity = capacity_of(32 * MiB);
  const auto wanted = sequence(20'000, capacity * 3, 2);
  const auto store = open_store(32 * MiB);
  REQUIRE(store->set_rules("ns", with_policy(PolicyKind::s3_fifo)) == Status::ok);
  SimulatedS3Fifo simulated(capacity);
  std::size_t simulated_hits = 0;
  for (const std::size_t i : wanted) simulated_hits += simulated.read(i) ? 1 : 0;

  const std::size_t hits = hits_of(*store, wanted);

  CHECK(hits == simulated_hits);
  CHECK(hits > simulated_lru_hits(wanted, capacity));  // scans pass it by
}

TEST_CASE("of priority classes the lowest goes first, however lately it was used") {
  const auto store = open_store(16 * MiB);
  REQUIRE(store->set_rules("ns", with_policy(PolicyKind::priority)) == Status::ok);
  for (std::size_t i = 0; i < 20; ++i) REQUIRE(put_in_class(*store, key(i), 5) == Status::ok);
  std::size_t end = 20;
  for (; store->counts().evicted_pieces < 10; ++end)
    REQUIRE(put_in_class(*store, key(end), 2) == Status::ok);

  CHECK(count_in(*store, "ns", 20) == 20);
  CHECK(count_in(*store, "ns", end) == end - store->counts().evicted_pieces);
}

TEST_CASE("a namespace over its quota evicts its own first") {
  const auto store = open_store(32 * MiB);
  NamespaceRules rules;
  rules.quota_bytes = 10 * PAGE;
  REQUIRE(store->set_rules("small", rules) == Status::ok);
  for (std::size_t i = 0; i < 20; ++i)
    REQUIRE(put_page(*store, name_in("other", i), PAGE, i) == Status::ok);

  for (std::size_t i = 0; i < 50; ++i)
    REQUIRE(put_page(*store, name_in("small", i), PAGE, i) == Status::ok);

  CHECK(count_in(*store, "other", 20) == 20);
  CHECK(count_in(*store, "small", 50) == 10);
  CHECK(count_in(*store, "small", 40) == 0);  // its oldest
  CHECK(store->departures().find(name_in("small", 0), 1).front().cause == Cause::over_quota);
}

TEST_CASE("what is larger than its namespace's quota is refused, and leaves all others alone") {
  const auto store = open_store(16 * MiB);
  NamespaceRules rules;
  rules.quota_bytes = PAGE;
  REQUIRE(store->set_rules("small", rules) == Status::ok);
  REQUIRE(put_page(*store, name_in("small", 0), PAGE, 0) == Status::ok);

  CHECK(put_page(*store, name_in("small", 1), PAGE + 1, 1) == Status::full);
  CHECK(count_in(*store, "small", 1) == 1);
  CHECK(store->departures().find(name_in("small", 1), 1).front().cause == Cause::over_quota);
}

TEST_CASE("a quota that is lowered, or set for what is there already, holds soon") {
  const auto store = open_store(32 * MiB);
  for (std::size_t i = 0; i < 30; ++i)
    REQUIRE(put_page(*store, name_in("ns", i), PAGE, i) == Status::ok);
  NamespaceRules rules;
  rules.quota_bytes = 5 * PAGE;

  REQUIRE(store->set_rules("ns", rules) == Status::ok);

  CHECK(wait_until([&] { return store->spaces().at(1).bytes <= 5 * PAGE; }));
  CHECK(count_in(*store, "ns", 30) == 5);
  CHECK(count_in(*store, "ns", 25) == 0);
  CHECK(store->spaces().at(0).bytes == 0);
}

TEST_CASE("quotas are counted for what is half-written, and given back with it") {
  const auto store = open_store(16 * MiB);
  NamespaceRules rules;
  rules.quota_bytes = 2 * PAGE;
  REQUIRE(store->set_rules("ns", rules) == Status::ok);
  Reserved first = store->reserve(page_spec(name_in("ns", 0), PAGE));
  const Reserved second = store->reserve(page_spec(name_in("ns", 1), PAGE));
  REQUIRE(second.status == Status::ok);

  CHECK(store->reserve(page_spec(name_in("ns", 2), PAGE)).status == Status::retry);
  first.piece.reset();
  CHECK(store->reserve(page_spec(name_in("ns", 2), PAGE)).status == Status::ok);
}

TEST_CASE("what is pinned never goes for lack of room, until it is unpinned") {
  const auto store = open_store(16 * MiB);
  REQUIRE(put_page(*store, key(0), PAGE, 0) == Status::ok);
  REQUIRE(store->pin(store->find_page(key(0), false)) == Status::ok);

  for (std::size_t i = 1; i < 300; ++i) REQUIRE(put_page(*store, key(i), PAGE, i) == Status::ok);
  CHECK(store->find_page(key(0), false) != nullptr);
  CHECK(store->spaces().at(0).pinned_bytes == PAGE);

  store->unpin(store->find_page(key(0), false));
  CHECK(store->spaces().at(0).pinned_bytes == 0);
  for (std::size_t i = 300; i < 600; ++i) REQUIRE(put_page(*store, key(i), PAGE, i) == Status::ok);
  CHECK(store->find_page(key(0), false) == nullptr);
}

TEST_CASE("pins have a quota, of their namespace and of the node, and give it back when they go") {
  const auto store = open_store(16 * MiB);
  NamespaceRules rules;
  rules.pin_bytes_max = 2 * PAGE;
  REQUIRE(store->set_rules("few", rules) == Status::ok);
  const auto pin = [&](const std::string& name) {
    return store->pin(store->find_page(name, false));
  };
  for (std::size_t i = 0; i < 3; ++i)
    REQUIRE(put_page(*store, name_in("few", i), PAGE, i) == Status::ok);
  CHECK(pin(name_in("few", 0)) == Status::ok);
  CHECK(pin(name_in("few", 1)) == Status::ok);
  CHECK(pin(name_in("few", 2)) == Status::full);
  CHECK(pin(name_in("few", 1)) == Status::ok);  // it is already
  REQUIRE(store->drop_page(name_in("few", 0)));
  CHECK(pin(name_in("few", 2)) == Status::ok);

  std::size_t pinned = 0;
  for (std::size_t i = 0; i < 60; ++i) {
    REQUIRE(put_page(*store, key(i), PAGE, i) == Status::ok);
    if (pin(key(i)) == Status::ok) ++pinned;
  }
  CHECK(pinned == 16 * MiB / 2 / PAGE - 2);
}

TEST_CASE("a pinned page follows its namespace into rules of its own") {
  const auto store = open_store(16 * MiB);
  REQUIRE(put_page(*store, key(0), PAGE, 0) == Status::ok);
  REQUIRE(store->pin(store->find_page(key(0), false)) == Status::ok);

  REQUIRE(store->set_rules("ns", with_policy(PolicyKind::s3_fifo)) == Status::ok);

  CHECK(store->spaces().at(0).pinned_bytes == 0);
  CHECK(store->spaces().at(1).pinned_bytes == PAGE);
  CHECK(store->spaces().at(1).bytes == PAGE);
}

TEST_CASE("a policy that changes at run time keeps the order that was") {
  for (const PolicyKind policy : {PolicyKind::lru, PolicyKind::s3_fifo, PolicyKind::priority}) {
    const auto store = open_store(16 * MiB);
    for (std::size_t i = 0; i < 10; ++i) REQUIRE(put_page(*store, key(i), PAGE, i) == Status::ok);
    REQUIRE(store->set_rules("ns", with_policy(policy)) == Status::ok);
    NamespaceRules rules = with_policy(PolicyKind::priority);
    rules.eviction_class = 6;
    rules.quota_bytes = 5 * PAGE;

    REQUIRE(store->set_rules("ns", rules) == Status::ok);

    CHECK(wait_until([&] { return store->spaces().at(1).bytes <= 5 * PAGE; }));
    CHECK(count_in(*store, "ns", 5) == 0);
    CHECK(count_in(*store, "ns", 10) == 5);
  }
}

TEST_CASE("between namespaces the lower class goes first") {
  const auto store = open_store(16 * MiB);
  NamespaceRules low, high;
  low.eviction_class = 1;
  high.eviction_class = 6;
  REQUIRE(store->set_rules("low", low) == Status::ok);
  REQUIRE(store->set_rules("high", high) == Status::ok);
  for (std::size_t i = 0; i < 10; ++i)
    REQUIRE(put_page(*store, name_in("high", i), PAGE, i) == Status::ok);
  for (std::size_t i = 0; i < 10; ++i) REQUIRE(put_page(*store, key(i), PAGE, i) == Status::ok);

  for (std::size_t i = 0; store->counts().evicted_pieces < 20; ++i)
    REQUIRE(put_page(*store, name_in("low", i), PAGE, i) == Status::ok);

  CHECK(count_in(*store, "high", 10) == 10);
  CHECK(count_in(*store, "ns", 10) == 10);
}

TEST_CASE("a namespace's time to live is that of what comes without one") {
  const auto store = open_store(16 * MiB);
  NamespaceRules rules;
  rules.ttl_s = 100;
  REQUIRE(store->set_rules("ns", rules) == Status::ok);
  const std::string name = key(1);
  PieceSpec own = page_spec(name, PAGE);
  own.ttl_s = 7;

  const Reserved without = store->reserve(page_spec(key(0), PAGE));
  const Reserved with = store->reserve(own);
  const Reserved elsewhere = store->reserve(page_spec(name_in("other", 0), PAGE));

  CHECK(without.piece->ttl_left_s() == 100);
  CHECK(with.piece->ttl_left_s() == 7);
  CHECK(elsewhere.piece->ttl_left_s() == 0);
}

TEST_CASE("rules of their own have so many namespaces and no more") {
  const auto store = open_store(16 * MiB);
  for (std::size_t i = 0; i < RULED_NAMESPACES_MAX; ++i)
    REQUIRE(store->set_rules("ns" + std::to_string(i), {}) == Status::ok);

  CHECK(store->set_rules("one too many", {}) == Status::full);
  CHECK(store->set_rules("ns7", with_policy(PolicyKind::priority)) == Status::ok);
  CHECK(store->set_rules("", with_policy(PolicyKind::s3_fifo)) == Status::ok);
}

TEST_CASE("every grain is counted once while rules, pins and pieces come and go") {
  const auto store = open_store(8 * MiB);
  std::mt19937_64 random(5);
  const std::vector<std::string> spaces{"a", "b", "c"};
  for (int step = 0; step < 5'000; ++step) {
    const std::string& name_space = spaces[random() % spaces.size()];
    const std::string name = name_in(name_space, random() % 40);
    switch (random() % 8) {
      case 0:
      case 1:
      case 2:
        put_in_class(*store, name, static_cast<std::uint8_t>(random() % (EVICTION_CLASSES + 1)));
        break;
      case 3: store->find_page(name, true); break;
      case 4:
        if (const PieceRef page = store->find_page(name, false)) store->pin(page);
        break;
      case 5:
        if (const PieceRef page = store->find_page(name, false)) store->unpin(page);
        break;
      case 6: store->drop_page(name); break;
      case 7: {
        if (step % 20 != 0) break;
        NamespaceRules rules = with_policy(static_cast<PolicyKind>(random() % 3));
        rules.quota_bytes = random() % 2 == 0 ? 0 : (4 + random() % 20) * PAGE;
        REQUIRE(store->set_rules(random() % 4 == 0 ? "" : name_space, rules) == Status::ok);
      }
    }
    const StoreCounts counts = store->counts();
    REQUIRE(sum(counts) == counts.arena_bytes);
  }
  const auto is_even = [&] {  // the evictor may hold one just now
    std::uint64_t in_spaces = 0;
    for (const auto& space : store->spaces()) in_spaces += space.bytes;
    return in_spaces == store->counts().live_bytes;
  };
  CHECK(wait_until(is_even));

  for (const std::string& each : spaces) store->clear(each);
  CHECK(wait_until(is_even));
  for (const auto& space : store->spaces()) {
    CHECK(space.bytes == 0);
    CHECK(space.pinned_bytes == 0);
  }
}

TEST_CASE(
    "departures tell what went, when, why and for whom, the newest first, until overwritten") {
  Departures departures(3);
  departures.note("a", 0, 1, 10, PolicyKind::lru, {Cause::evicted, "other"});
  departures.note("b", 2, 3, 20, PolicyKind::s3_fifo, {Cause::expired});
  departures.note("a", 0, 4, 30, PolicyKind::lru, {Cause::dropped});

  const auto found = departures.find("a", 10);
  REQUIRE(found.size() == 2);
  CHECK(found[0].cause == Cause::dropped);
  CHECK(found[1].cause == Cause::evicted);
  CHECK(found[1].for_whom == "other");
  CHECK(found[1].bytes == 10);
  CHECK(found[0].when_ms >= found[1].when_ms);
  CHECK(departures.find("a", 1).size() == 1);
  CHECK(departures.find("c", 10).empty());

  departures.note("c", 0, 5, 40, PolicyKind::lru, {Cause::corrupt});
  CHECK(departures.find("a", 10).size() == 1);
  CHECK(departures.since_ms() >= found[1].when_ms);
}

TEST_CASE("what a node lets go by itself is told in groups, the newest first") {
  using namespace std::string_literals;
  Departures departures(8);
  departures.note("/chat/a", 0, 1, 10, PolicyKind::lru, {Cause::evicted, "batch"});
  departures.note("chat\0key"s, 0, 2, 20, PolicyKind::lru, {Cause::evicted, "batch"});
  departures.note("/chat/b", 0, 3, 30, PolicyKind::lru, {Cause::dropped});
  departures.note("/other/a", 0, 4, 40, PolicyKind::s3_fifo, {Cause::expired});

  const auto groups = departures.recent(10);
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].name_space == "other");
  CHECK(groups[0].cause == Cause::expired);
  CHECK(groups[1].name_space == "chat");
  CHECK(groups[1].for_whom == "batch");
  CHECK(groups[1].pieces == 2);
  CHECK(groups[1].bytes == 30);
  CHECK(groups[1].first_ms <= groups[1].last_ms);
  CHECK(departures.recent(1).size() == 1);
}

TEST_CASE("an eviction says by which policy and for which namespace") {
  const auto store = open_store(16 * MiB);
  REQUIRE(store->set_rules("ns", with_policy(PolicyKind::s3_fifo)) == Status::ok);
  REQUIRE(put_page(*store, key(0), PAGE, 0) == Status::ok);
  for (std::size_t i = 0; store->find_page(key(0), false) != nullptr; ++i)
    REQUIRE(put_page(*store, name_in("pushy", i), PAGE, i) == Status::ok);

  const auto found = store->departures().find(key(0), 1);

  REQUIRE(found.size() == 1);
  CHECK(found[0].cause == Cause::evicted);
  CHECK(found[0].policy == PolicyKind::s3_fifo);
  CHECK(found[0].for_whom == "pushy");
}
