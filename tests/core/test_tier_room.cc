// What stays on the disk below memory, what goes from it, and what happens when memory has no room.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <atomic>
#include <random>

#include "sync.h"
#include "tier_setup.h"

using namespace gd2fs;

namespace {

constexpr std::uint64_t TAKEN = whole_grains(PAGE);

wire::ResponseItem sync(Store& store, const std::string& name) {
  wire::Request request;
  request.head.op = wire::Op::sync;
  wire::Item item;
  item.name = wire::Name::borrowed(name);
  item.flags = wire::ITEM_PAGE;
  request.items.push_back(std::move(item));
  std::promise<wire::ResponseItem> ended;
  serve::sync(store, std::move(request),
              [&](const std::vector<wire::ResponseItem>& answers) { ended.set_value(answers[0]); });
  return ended.get_future().get();
}

bool is_kept_on_disk(const wire::ResponseItem& answer) {
  return answer.status == Status::ok && answer.tier == static_cast<std::uint8_t>(KeptAt::disk);
}

bool is_on(FakePlatter& platter, const std::string& name) {
  const std::lock_guard lock(platter.mutex);
  return std::any_of(platter.records.begin(), platter.records.end(),
                     [&](const auto& each) { return each.second.piece.name == name; });
}

Store::SpaceCounts space_of(const Store& store, std::string_view name) {
  for (Store::SpaceCounts& each : store.spaces())
    if (each.name == name) return each;
  return {};
}

NamespaceRules quota_of(std::uint64_t bytes) {
  NamespaceRules rules;
  rules.quota_bytes = bytes;
  return rules;
}

NamespaceRules disk_quota_of(std::uint64_t bytes) {
  NamespaceRules rules;
  rules.disk_quota_bytes = bytes;
  return rules;
}

/// A store whose namespace has pins that take all of its quota, and cold pages.
struct PinnedFull {
  static constexpr std::size_t PINS = 10;
  Setup setup;
  std::unique_ptr<Store> store = setup.open();

  PinnedFull() {
    fill_over(*store, THREE_ARENAS);
    for (std::size_t i = 0; i < PINS; ++i) {
      const PieceRef page = get(*store, key(i));
      REQUIRE(page != nullptr);
      REQUIRE(store->pin(page) == Status::ok);
    }
    REQUIRE(is_all_clean_but_quarter());
    REQUIRE(store->set_rules("ns", quota_of((PINS - 2) * TAKEN)) == Status::ok);
    REQUIRE(wait_until([&] { return space_of(*store, "ns").bytes == PINS * TAKEN; }));
  }

  bool is_all_clean_but_quarter() {
    return wait_until([&] { return store->counts().dirty_bytes <= ARENA / 4; });
  }
  PieceRef cold() { return store->find_page(key(THREE_ARENAS / 2), false); }
  void unpin_all() {
    for (std::size_t i = 0; i < PINS; ++i) store->unpin(store->find_page(key(i), false));
  }
};

}  // namespace

TEST_CASE("exclusive: what was synced stays on disk when it is read, what was not goes") {
  Setup setup;
  setup.keep = DiskKeep::exclusive;
  auto store = setup.open();
  fill_over(*store, THREE_ARENAS);
  REQUIRE(is_on(*setup.platter, key(0)));
  REQUIRE(is_on(*setup.platter, key(1)));

  CHECK(is_kept_on_disk(sync(*store, key(0))));
  CHECK(is_filled_with(get(*store, key(0)), 0));
  CHECK(is_filled_with(get(*store, key(1)), 1));

  CHECK(is_on(*setup.platter, key(0)));
  CHECK_FALSE(is_on(*setup.platter, key(1)));
}

TEST_CASE(
    "exclusive: what was synced in memory is on disk from then on, however often it is read") {
  Setup setup;
  setup.keep = DiskKeep::exclusive;
  const auto store = setup.open();
  REQUIRE(put_page(*store, key(0), PAGE, 0) == Status::ok);
  REQUIRE_FALSE(is_on(*setup.platter, key(0)));

  CHECK(is_kept_on_disk(sync(*store, key(0))));
  for (std::size_t i = 1; i < 3 * THREE_ARENAS; ++i) {
    REQUIRE(put_until(*store, key(i), PAGE, i) == Status::ok);
    if (i % THREE_ARENAS != 0) continue;
    REQUIRE(!store->find_page(key(0), false)->is_whole());
    REQUIRE(is_filled_with(get(*store, key(0)), 0));
    REQUIRE(is_on(*setup.platter, key(0)));
  }

  CHECK(store->drop_page(key(0)));
  CHECK(wait_until([&] { return !is_on(*setup.platter, key(0)); }));
}

TEST_CASE("exclusive: what a start finds on disk stays there, for it may have been synced") {
  Setup setup;
  setup.keep = DiskKeep::exclusive;
  auto store = setup.open();
  REQUIRE(put_page(*store, key(0), PAGE, 0) == Status::ok);
  REQUIRE(is_kept_on_disk(sync(*store, key(0))));
  store = nullptr;
  store = setup.open();

  CHECK(is_filled_with(get(*store, key(0)), 0));

  CHECK(is_on(*setup.platter, key(0)));
}

TEST_CASE("exclusive: a sync holds while others read the same pages from disk all the time") {
  Setup setup;
  setup.keep = DiskKeep::exclusive;
  const auto store = setup.open();
  fill_over(*store, THREE_ARENAS);
  std::atomic<bool> is_over{false};
  std::thread reader([&] {
    std::mt19937 random(1);
    while (!is_over) get(*store, key(random() % THREE_ARENAS));
  });

  for (std::size_t i = 0; i < THREE_ARENAS; ++i) {
    const wire::ResponseItem answer = sync(*store, key(i));
    CHECK(is_kept_on_disk(answer));
    CHECK(is_on(*setup.platter, key(i)));
  }
  for (std::size_t i = 0; i < THREE_ARENAS; ++i) CHECK(is_on(*setup.platter, key(i)));

  is_over = true;
  reader.join();
}

TEST_CASE("pins that take all of a quota: a load and a put are told so at once") {
  PinnedFull full;
  REQUIRE(full.cold() != nullptr);
  REQUIRE_FALSE(full.cold()->is_whole());
  const std::uint64_t reads = full.setup.platter->reads;

  Status status = Status::ok;
  CHECK(load(*full.store, full.cold(), status) == nullptr);
  CHECK(status == Status::full);
  CHECK(full.setup.platter->reads == reads);
  CHECK(put_page(*full.store, key(THREE_ARENAS), PAGE, 1) == Status::full);
  CHECK(space_of(*full.store, "ns").pinned_bytes == PinnedFull::PINS * TAKEN);

  full.unpin_all();
  CHECK(is_filled_with(load(*full.store, full.cold(), status), THREE_ARENAS / 2));
  CHECK(put_until(*full.store, key(THREE_ARENAS), PAGE, 1) == Status::ok);
}

TEST_CASE("when all of memory is held a load is told to come again, and then it finds room") {
  Setup setup;
  const auto store = setup.open();
  fill_over(*store, THREE_ARENAS);
  std::vector<PieceRef> held;
  for (std::size_t i = 0; i < THREE_ARENAS; ++i)
    if (PieceRef page = store->find_page(key(i), false); page->is_whole()) held.push_back(page);
  std::vector<PieceRef> cold;
  for (std::size_t i = 0; cold.size() < 40; ++i)
    if (PieceRef page = store->find_page(key(i), false); !page->is_whole()) cold.push_back(page);

  std::vector<std::promise<Status>> told(cold.size());
  for (std::size_t at = 0; at < cold.size(); ++at)
    store->load(cold[at], LoadRank::demand, nullptr,
                [&told, at](Status status, const PieceRef&) { told[at].set_value(status); });

  std::size_t ok = 0;  // a little is free, and what is dirty goes when it is written
  for (auto& each : told) {
    const Status status = each.get_future().get();
    CHECK((status == Status::retry || status == Status::ok));
    ok += status == Status::ok ? 1 : 0;
  }
  CHECK(ok < cold.size());

  held.clear();
  Status status = Status::retry;
  CHECK(wait_until([&] { return load(*store, cold.back(), status) != nullptr; }));
}

TEST_CASE("over its disk quota a namespace lets go of its own coldest, and only of those") {
  constexpr std::size_t KEPT = 40;
  Setup setup;
  setup.demote = Demote::through;
  const auto store = setup.open();
  const std::string other = page_name("other", "page");
  REQUIRE(store->set_rules("ns", disk_quota_of(KEPT * PAGE)) == Status::ok);
  REQUIRE(put_page(*store, other, PAGE, 7) == Status::ok);

  fill_over(*store, THREE_ARENAS);

  CHECK(is_all_clean(*store));
  CHECK(wait_until([&] { return space_of(*store, "ns").disk_bytes <= KEPT * PAGE; }));
  CHECK(is_on(*setup.platter, other));
  const PieceRef first = store->find_page(key(0), false);
  CHECK(first == nullptr);
  CHECK(store->departures().find(key(0), 1).at(0).cause == Cause::over_quota);
  CHECK(get(*store, key(THREE_ARENAS - 1)) != nullptr);
}

TEST_CASE("a page that is used stays on disk longer than one that is not") {
  constexpr std::size_t KEPT = 2 * ARENA / PAGE;
  Setup setup;
  const auto store = setup.open();
  REQUIRE(store->set_rules("ns", disk_quota_of(KEPT * PAGE)) == Status::ok);
  for (std::size_t i = 0; i < 2 * THREE_ARENAS; ++i) {
    REQUIRE(put_until(*store, key(i), PAGE, i) == Status::ok);
    if (i % 20 == 0) REQUIRE(get(*store, key(0)) != nullptr);
  }

  CHECK(is_filled_with(get(*store, key(0)), 0));
  CHECK(store->find_page(key(1), false) == nullptr);
  const StoreCounts counts = store->counts();
  CHECK(sum(counts) == counts.arena_bytes);
}

TEST_CASE("a disk quota that is lowered is kept soon") {
  Setup setup;
  const auto store = setup.open();
  REQUIRE(store->set_rules("ns", disk_quota_of(THREE_ARENAS * PAGE)) == Status::ok);
  fill_over(*store, THREE_ARENAS);
  REQUIRE(space_of(*store, "ns").disk_bytes > 10 * PAGE);
  const std::uint64_t warm = store->counts().live_bytes;

  REQUIRE(store->set_rules("ns", disk_quota_of(ARENA)) == Status::ok);

  CHECK(wait_until([&] { return space_of(*store, "ns").disk_bytes <= ARENA; }));
  CHECK(store->counts().live_bytes >= warm - ARENA / 4);  // what is in memory stays there
}

TEST_CASE("rules that come later: what is on disk is counted once, and in its order") {
  Setup setup;
  setup.demote = Demote::through;
  const auto store = setup.open();
  fill_over(*store, THREE_ARENAS);
  REQUIRE(is_all_clean(*store));
  REQUIRE(store->set_rules("other", quota_of(0)) == Status::ok);
  const std::uint64_t on_disk = setup.platter->count() * PAGE;
  REQUIRE(wait_until([&] { return space_of(*store, "").disk_bytes == on_disk; }));

  REQUIRE(store->set_rules("ns", quota_of(0)) == Status::ok);
  CHECK(space_of(*store, "ns").disk_bytes == on_disk);
  CHECK(space_of(*store, "").disk_bytes == 0);

  const PieceRef coldest = store->find_page(key(0), false);
  REQUIRE(store->set_rules("ns", disk_quota_of(on_disk - 1)) == Status::ok);
  CHECK(wait_until([&] { return store->find_page(key(1), false) == nullptr; }));
  CHECK(store->find_page(key(0), false) == coldest);  // somebody has it: another one went
}
