#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <future>
#include <random>

#include "tier_setup.h"

using namespace gd2fs;

namespace {

/// How many pieces have gone for that.
std::uint64_t departed(const Store& store, Cause cause) {
  return store.departures().counts()[static_cast<std::size_t>(cause)].pieces;
}

}  // namespace

TEST_CASE("three times the arena is all there, byte for byte, again and again") {
  Setup setup;
  const auto store = setup.open();
  fill_over(*store, THREE_ARENAS);

  std::size_t hits = 0;
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < THREE_ARENAS; ++i) {
      const PieceRef page = get(*store, key(i));
      REQUIRE(page != nullptr);
      REQUIRE(page->is_whole());
      REQUIRE(is_filled_with(page, i));
      ++hits;
    }
    const StoreCounts counts = store->counts();
    REQUIRE(sum(counts) == counts.arena_bytes);
  }

  CHECK(hits == 3 * THREE_ARENAS);
  const StoreCounts counts = store->counts();
  CHECK(counts.pages == THREE_ARENAS);
  CHECK(counts.cold_pieces > THREE_ARENAS / 2);
  CHECK(counts.undemoted_pieces == 0);
}

TEST_CASE("a cold page is found, listed and had, and nothing is read for that") {
  Setup setup;
  const auto store = setup.open();
  fill_over(*store, THREE_ARENAS);
  const PieceRef first = store->find_page(key(0), true);
  REQUIRE(first != nullptr);
  REQUIRE(!first->is_whole());
  CHECK(first->taken_bytes() == 0);

  CHECK(store->reserve(page_spec(key(0), PAGE)).status == Status::have);
  bool more = false;
  CHECK(store->list_pages("ns", "", 10'000, more).size() == THREE_ARENAS);
  CHECK(setup.platter->reads == 0);
}

TEST_CASE("a page is read once, however many ask for it at once") {
  Setup setup;
  const auto store = setup.open();
  fill_over(*store, THREE_ARENAS);
  const PieceRef cold = store->find_page(key(0), true);
  setup.platter->is_held = true;
  std::atomic<int> right{0};

  for (int i = 0; i < 50; ++i) {
    store->load(cold, LoadRank::demand, nullptr, [&](Status status, const PieceRef& page) {
      if (status == Status::ok && is_filled_with(page, 0)) ++right;
    });
  }
  setup.platter->is_held = false;

  CHECK(wait_until([&] { return right == 50; }));
  CHECK(setup.platter->reads == 1);
}

TEST_CASE("pieces of files keep their seq through the disk, and go when they are covered") {
  Setup setup;
  const auto store = setup.open();
  REQUIRE(put_piece(*store, file_spec("/ns/f", 0, 11, 0, PAGE), 3) == Status::ok);
  REQUIRE(put_piece(*store, file_spec("/ns/f", 0, 12, PAGE, PAGE), 4) == Status::ok);
  fill_over(*store, THREE_ARENAS);
  const PieceRef cold = store->find_latest("/ns/f", 0, 10, 100, true);
  REQUIRE(cold != nullptr);
  REQUIRE(!cold->is_whole());

  Status status = Status::ok;
  const PieceRef warm = load(*store, cold, status);
  REQUIRE(warm != nullptr);
  CHECK(warm->tag() == 11);
  CHECK(warm->seq() == 3);
  CHECK(is_filled_with(warm, 11));
  CHECK(store->find_piece("/ns/f", 0, 11, false) == warm);

  const PieceRef other = store->find_piece("/ns/f", 0, 12, false);
  REQUIRE(!other->is_whole());
  const std::uint64_t strikes = setup.platter->strikes;
  Status put = Status::retry;
  REQUIRE(wait_until([&] {
    put = put_piece(*store, file_spec("/ns/f", 0, 13, 0, 2 * PAGE), 5);
    return put != Status::retry;
  }));
  CHECK(put == Status::ok);
  CHECK(store->find_piece("/ns/f", 0, 12, false) == nullptr);
  CHECK(store->find_piece("/ns/f", 0, 11, false) == nullptr);
  CHECK(setup.platter->strikes >= strikes + 2);
}

TEST_CASE("a new process finds what reached the disk, and nothing that was dropped") {
  Setup setup;
  {
    const auto store = setup.open();
    fill_over(*store, THREE_ARENAS);
    REQUIRE(put_piece(*store, file_spec("/ns/f", 7, 11, 64, 1000), 3) == Status::ok);
    store->drop_page(key(1));                 // cold
    store->drop_page(key(THREE_ARENAS - 1));  // in memory
    store->stop_tier(std::chrono::seconds(10));
  }
  const auto store = setup.open();

  CHECK(store->counts().recovered_pieces == THREE_ARENAS - 2 + 1);
  CHECK(store->find_page(key(1), false) == nullptr);
  CHECK(store->find_page(key(THREE_ARENAS - 1), false) == nullptr);
  const PieceRef page = get(*store, key(0));
  REQUIRE(page != nullptr);
  CHECK(is_filled_with(page, 0));
  const PieceRef piece = store->find_latest("/ns/f", 7, 100, 10, false);
  REQUIRE(piece != nullptr);
  CHECK(piece->seq() == 3);
}

TEST_CASE("a time to live goes on on the disk") {
  Setup setup;
  setup.demote = Demote::through;
  {
    const auto store = setup.open();
    const std::string name = key(1);
    PieceSpec spec = page_spec(name, PAGE, 1);
    spec.ttl_s = 1;
    const Reserved reserved = store->reserve(spec);
    fill(reserved.piece, 1);
    store->publish_page(reserved.piece);
    REQUIRE(is_all_clean(*store));
    REQUIRE(setup.platter->count() == 1);
  }
  const auto store = setup.open();

  CHECK(wait_until([&] { return store->find_page(key(1), false) == nullptr; }));
  CHECK(wait_until([&] { return setup.platter->count() == 0; }));
}

TEST_CASE("flipped bits are a miss, counted, and never seen again") {
  Setup setup;
  const auto store = setup.open();
  fill_over(*store, THREE_ARENAS);
  setup.platter->flip_all();

  CHECK(get(*store, key(0)) == nullptr);
  CHECK(store->find_page(key(0), true) == nullptr);
  CHECK(store->counts().corrupt_pieces == 1);
  CHECK(departed(*store, Cause::corrupt) == 1);
  CHECK(put_until(*store, key(0), PAGE, 5) == Status::ok);
  CHECK(is_filled_with(get(*store, key(0)), 5));
}

TEST_CASE("what cannot be read is a miss") {
  Setup setup;
  const auto store = setup.open();
  fill_over(*store, THREE_ARENAS);
  setup.platter->reads_fail = true;

  CHECK(get(*store, key(0)) == nullptr);
  CHECK(store->counts().failed_loads == 1);
  CHECK(departed(*store, Cause::corrupt) == 0);
  CHECK(departed(*store, Cause::disk_lost) == 1);
  CHECK(is_filled_with(get(*store, key(THREE_ARENAS - 1)), THREE_ARENAS - 1));
}

TEST_CASE("without a disk that takes anything the memory serves on as a cache") {
  Setup setup;
  const auto store = setup.open();
  setup.platter->writes_fail = true;

  fill_over(*store, THREE_ARENAS);

  const StoreCounts counts = store->counts();
  CHECK(counts.undemoted_pieces > 0);
  CHECK(counts.failed_demotions > 0);
  CHECK(is_filled_with(get(*store, key(THREE_ARENAS - 1)), THREE_ARENAS - 1));
  setup.platter->writes_fail = false;
  REQUIRE(wait_until([&] { return store->counts().demoted_pieces > 0; }));
}

TEST_CASE("a copy that the cleaner lets go of is no copy any more") {
  Setup setup;
  const auto store = setup.open();
  fill_over(*store, THREE_ARENAS);
  const PieceRef warm = get(*store, key(THREE_ARENAS / 2));
  REQUIRE(warm != nullptr);

  setup.disk->lose_all();

  CHECK(store->find_page(key(0), true) == nullptr);
  CHECK(store->counts().cold_pieces == 0);
  CHECK(is_filled_with(get(*store, key(THREE_ARENAS / 2)), THREE_ARENAS / 2));
  CHECK(flush(*store, warm) == Status::ok);  // it was dirty again
}

TEST_CASE("exclusive: what is in memory is not on disk, and goes there anew") {
  Setup setup;
  setup.keep = DiskKeep::exclusive;
  const auto store = setup.open();
  fill_over(*store, THREE_ARENAS);

  CHECK(get(*store, key(0)) != nullptr);
  CHECK(setup.platter->strikes == 1);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < THREE_ARENAS; ++i) {
      const PieceRef page = get(*store, key(i));
      REQUIRE(page != nullptr);
      REQUIRE(is_filled_with(page, i));
    }
  }
}

TEST_CASE("write-through: it is on disk soon, though memory is empty") {
  Setup setup;
  setup.demote = Demote::through;
  const auto store = setup.open();

  REQUIRE(put_page(*store, key(1), PAGE, 1) == Status::ok);

  CHECK(wait_until([&] { return setup.platter->count() == 1; }));
}

TEST_CASE("write-back: nothing is written while there is room") {
  Setup setup;
  const auto store = setup.open();

  REQUIRE(put_page(*store, key(1), PAGE, 1) == Status::ok);
  CHECK(store->counts().dirty_bytes == whole_grains(PAGE));
  CHECK(setup.platter->writes == 0);

  CHECK(flush(*store, store->find_page(key(1), false)) == Status::ok);
  CHECK(setup.platter->count() == 1);
  CHECK(store->counts().dirty_bytes == 0);
  CHECK(flush(*store, store->find_page(key(1), false)) == Status::ok);
  CHECK(setup.platter->writes == 1);
}

TEST_CASE("what never goes to disk is evicted as ever, and says so when it is asked to") {
  Setup setup;
  setup.demote = Demote::none;
  const auto store = setup.open();
  fill_over(*store, THREE_ARENAS);

  CHECK(setup.platter->writes == 0);
  CHECK(store->find_page(key(0), true) == nullptr);
  CHECK(flush(*store, store->find_page(key(THREE_ARENAS - 1), false)) == Status::denied);
}

TEST_CASE("a load that nobody wants any more is not begun") {
  Setup setup;
  const auto store = setup.open();
  fill_over(*store, THREE_ARENAS);
  setup.platter->is_held = true;
  const auto stop = std::make_shared<std::atomic<bool>>(false);
  std::atomic<int> begun{0}, cancelled{0};
  const std::size_t wanted = ARENA / PAGE;

  for (std::size_t i = 0; i < wanted; ++i) {
    const PieceRef page = store->find_page(key(i), false);
    store->load(page, LoadRank::advised, stop, [&](Status status, const PieceRef&) {
      ++(status == Status::cancelled ? cancelled : begun);
    });
  }
  *stop = true;
  setup.platter->is_held = false;

  CHECK(wait_until([&] { return static_cast<std::size_t>(begun + cancelled) == wanted; }));
  CHECK(cancelled > 0);
}

TEST_CASE("exactly the blocks of a range leave memory, and come back from disk") {
  Setup setup;
  setup.demote = Demote::through;
  const auto store = setup.open();
  constexpr std::uint64_t BYTES = 5 * MiB + 100;  // over extents
  REQUIRE(put_page(*store, key(1), BYTES, 7) == Status::ok);
  REQUIRE(is_all_clean(*store));
  PieceRef page = store->find_page(key(1), true);
  REQUIRE(wait_until([&] { return page.use_count() == 2; }));
  const std::uint64_t live = store->counts().live_bytes;

  CHECK(store->shed(page, 3 * BLOCK_BYTES - 1, 40 * BLOCK_BYTES + 1).bytes == 37 * BLOCK_BYTES);

  CHECK(live - store->counts().live_bytes == 37 * BLOCK_BYTES);
  CHECK(!page->is_whole());
  CHECK(page->has(0, 3 * BLOCK_BYTES));
  CHECK(!page->has(0, 3 * BLOCK_BYTES + 1));
  CHECK(!page->has(20 * BLOCK_BYTES, 1));
  CHECK(page->has(40 * BLOCK_BYTES, BYTES - 40 * BLOCK_BYTES));
  CHECK(store->shed(page, 0, BYTES).bytes == BYTES - 37 * BLOCK_BYTES);
  CHECK(store->counts().live_bytes == 0);
  CHECK(store->counts().cold_pieces == 1);
  page = get(*store, key(1));
  REQUIRE(page != nullptr);
  CHECK(is_filled_with(page, 7));
  CHECK(sum(store->counts()) == store->counts().arena_bytes);
}

TEST_CASE("a piece of which a part is in memory is read there, loaded whole, evicted, dropped") {
  Setup setup;
  setup.demote = Demote::through;
  const auto store = setup.open();
  for (std::size_t i = 0; i < 4; ++i) REQUIRE(put_page(*store, key(i), 4 * PAGE, i) == Status::ok);
  REQUIRE(is_all_clean(*store));
  for (std::size_t i = 0; i < 4; ++i) {
    const PieceRef page = store->find_page(key(i), false);
    REQUIRE(wait_until([&] { return page.use_count() == 2; }));
    REQUIRE(store->shed(page, 0, BLOCK_BYTES).bytes == BLOCK_BYTES);
  }

  CHECK(is_filled_with(get(*store, key(0)), 0));
  CHECK(store->drop_page(key(1)));
  for (std::size_t i = 10; i < 10 + ARENA / PAGE; ++i)
    REQUIRE(put_until(*store, key(i), PAGE, i) == Status::ok);
  CHECK(store->find_page(key(2), false)->taken_bytes() == 0);
  CHECK(is_filled_with(get(*store, key(2)), 2));
  CHECK(is_filled_with(get(*store, key(3)), 3));
  CHECK(sum(store->counts()) == store->counts().arena_bytes);
}

TEST_CASE("without a disk what is let go is lost, and may be put anew") {
  const auto store = open_store(16 * MiB);
  REQUIRE(put_page(*store, key(1), 4 * BLOCK_BYTES, 1) == Status::ok);
  REQUIRE(put_page(*store, key(2), 4 * BLOCK_BYTES, 2) == Status::ok);
  const PieceRef page = store->find_page(key(1), false);

  CHECK(store->shed(page, BLOCK_BYTES, 2 * BLOCK_BYTES).bytes == BLOCK_BYTES);

  CHECK(!store->is_complete(*page));
  Status status = Status::ok;
  CHECK(load(*store, page, status) == nullptr);
  CHECK(put_page(*store, key(1), 4 * BLOCK_BYTES, 3) == Status::ok);
  CHECK(is_filled_with(store->find_page(key(1), false), 3));
  CHECK(store->shed(store->find_page(key(2), false), 0, 4 * BLOCK_BYTES).status == Status::ok);
  CHECK(store->find_page(key(2), false) == nullptr);
}

TEST_CASE("what is read or pinned does not leave memory") {
  Setup setup;
  const auto store = setup.open();
  REQUIRE(put_page(*store, key(1), PAGE, 1) == Status::ok);
  PieceRef page = store->find_page(key(1), false);
  const PieceRef reader = page;

  CHECK(store->shed(page, 0, PAGE).status == Status::retry);
  CHECK(store->pin(page) == Status::ok);
  CHECK(store->shed(page, 0, PAGE).status == Status::denied);
  CHECK(is_filled_with(reader, 1));
}

TEST_CASE("loads, drops, publications and evictions at once: the right bytes or none") {
  Setup setup;
  const auto store = setup.open();
  std::atomic<std::uint64_t> wrong{0}, hits{0};
  constexpr std::size_t KEYS = 160;
  constexpr std::size_t STEPS = 3'000;

  const auto work = [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (std::size_t step = 0; step < STEPS; ++step) {
      const std::size_t i = random() % KEYS;
      const std::string path = "/ns/f" + std::to_string(i % 8);
      switch (random() % 9) {
        case 8: {
          const PieceRef page = store->find_page(key(i), false);
          if (page != nullptr && !store->is_dirty(*page)) store->shed(page, random() % PAGE, PAGE);
          break;
        }
        case 0:
        case 1: put_page(*store, key(i), PAGE + i, i); break;
        case 2: {
          const std::uint64_t tag = random() | 1;
          put_piece(*store, file_spec(path, i % 4, tag, 0, PAGE), seed * STEPS + step);
          break;
        }
        case 3: {
          const PieceRef piece = store->find_latest(path, i % 4, 0, PAGE, true);
          if (piece == nullptr) break;
          Status status = Status::ok;
          const PieceRef warm = load(*store, piece, status);
          if (warm != nullptr && !is_filled_with(warm, warm->tag())) ++wrong;
          break;
        }
        case 4:
          if (step % 4 == 0) store->drop_page(key(i));
          break;
        case 5:
          if (step % 16 == 0) store->drop_file(path);
          break;
        default: {
          const PieceRef page = get(*store, key(i));
          if (page == nullptr) break;
          ++hits;
          if (page->length() != PAGE + i || !is_filled_with(page, i)) ++wrong;
        }
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& each : threads) each.join();

  CHECK(wrong == 0);
  CHECK(hits > STEPS / 10);
  CHECK(store->counts().loaded_pieces > 0);
  CHECK(store->counts().corrupt_pieces == 0);
  store->clear("ns");
  store->stop_tier(std::chrono::seconds(10));
  CHECK(wait_until([&] {
    const StoreCounts now = store->counts();
    return now.free_bytes + now.record_bytes == now.arena_bytes;
  }));
  const StoreCounts counts = store->counts();
  CHECK(sum(counts) == counts.arena_bytes);
  CHECK(counts.cold_pieces == 0);
  CHECK(counts.cold_bytes == 0);
  CHECK(counts.dirty_bytes == 0);
  CHECK(setup.platter->count() == 0);
}

TEST_CASE("a load that is asked for ahead and then at once is begun once") {
  Setup setup;
  const auto store = setup.open();
  fill_over(*store, THREE_ARENAS);
  std::atomic<std::size_t> ended{0}, wrong{0};
  const auto ask = [&](LoadRank rank) {
    for (int round = 0; round < 20; ++round) {
      for (std::size_t i = 0; i < THREE_ARENAS; ++i) {
        const PieceRef page = store->find_page(key(i), false);
        store->load(page, rank, nullptr, [&, i](Status status, const PieceRef& loaded) {
          // `retry`: on a busy machine nothing could go for it in the time that a load may wait.
          if (status == Status::ok ? !is_filled_with(loaded, i) : status != Status::retry) ++wrong;
          ++ended;
        });
      }
    }
  };

  std::thread ahead([&] { ask(LoadRank::ahead); });
  std::thread advised([&] { ask(LoadRank::advised); });
  ask(LoadRank::demand);
  ahead.join();
  advised.join();

  CHECK(wait_until([&] { return ended == 3 * 20 * THREE_ARENAS; }));
  CHECK(wrong == 0);
}
