#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "store_setup.h"

#include <algorithm>
#include <atomic>
#include <random>

using namespace gd2fs;

TEST_CASE("a page is found with its bytes once it is published, not before") {
  const auto store = open_store(16 * MiB);
  const Reserved reserved = store->reserve(page_spec(key(1), 100'000));
  REQUIRE(reserved.status == Status::ok);
  fill(reserved.piece, 42);
  CHECK(store->find_page(key(1), true) == nullptr);

  CHECK(store->publish_page(reserved.piece) == Status::ok);

  const PieceRef found = store->find_page(key(1), true);
  REQUIRE(found != nullptr);
  CHECK(found->length() == 100'000);
  CHECK(is_filled_with(found, 42));
}

TEST_CASE("the first complete page wins and the second is told so") {
  const auto store = open_store(16 * MiB);
  const Reserved slow = store->reserve(page_spec(key(1), 8 * KiB, 1));
  fill(slow.piece, 1);
  REQUIRE(put_page(*store, key(1), 8 * KiB, 2) == Status::ok);

  CHECK(store->publish_page(slow.piece) == Status::have);
  CHECK(store->reserve(page_spec(key(1), 8 * KiB, 3)).status == Status::have);
  CHECK(is_filled_with(store->find_page(key(1), true), 2));
}

TEST_CASE("what is let go unpublished gives its memory back") {
  const auto store = open_store(16 * MiB);
  const std::uint64_t before = store->counts().free_bytes;

  { const Reserved reserved = store->reserve(page_spec(key(1), 1 * MiB)); }

  CHECK(store->counts().free_bytes == before);
}

TEST_CASE("every grain is in exactly one state, whatever happens") {
  const auto store = open_store(8 * MiB);
  std::mt19937_64 random(11);
  std::vector<PieceRef> held;
  std::uint64_t tag = 0;

  for (int step = 0; step < 20'000; ++step) {
    ++tag;
    const std::uint64_t i = random() % 64;
    const std::string path = "/ns/file" + std::to_string(i % 4);
    const std::uint64_t length = 1 + random() % (random() % 8 == 0 ? 1 * MiB : 40 * KiB);
    switch (random() % 9) {
      case 0:
      case 1: put_page(*store, key(i), length, i); break;
      case 2: put_piece(*store, file_spec(path, i % 3, tag, random() % MiB, length), tag); break;
      case 3: store->drop_page(key(i)); break;
      case 4: store->drop_file(path); break;
      case 5: {
        Reserved reserved = store->reserve(file_spec(path, i % 3, tag, 0, length));
        if (reserved.piece != nullptr && random() % 2 == 0) store->stage(reserved.piece);
        held.push_back(std::move(reserved.piece));
        break;
      }
      case 6: held.push_back(store->find_page(key(i), random() % 2 == 0)); break;
      case 7: held.clear(); break;
      case 8:
        if (step % 50 == 0) store->clear("ns");
    }
    const StoreCounts counts = store->counts();
    REQUIRE(sum(counts) == counts.arena_bytes);
  }

  held.clear();
  store->clear("ns");
  const StoreCounts end = store->counts();
  CHECK(end.free_bytes + end.record_bytes == end.arena_bytes);
}

TEST_CASE("the least recently used page goes first, and a probe is no use") {
  const auto store = open_store(16 * MiB);
  for (std::size_t i = 0; i < 7; ++i) REQUIRE(put_page(*store, key(i), 2 * MiB, i) == Status::ok);
  store->find_page(key(0), true);
  store->find_page(key(1), false);

  REQUIRE(put_page(*store, key(7), 2 * MiB, 7) == Status::ok);

  CHECK(store->find_page(key(0), false) != nullptr);
  CHECK(store->find_page(key(1), false) == nullptr);
  CHECK(store->counts().evicted_pieces == 1);
}

TEST_CASE("what is read, written or young and staged is never evicted") {
  const auto store = open_store(16 * MiB);
  REQUIRE(put_page(*store, key(0), 2 * MiB, 0) == Status::ok);
  const PieceRef read = store->find_page(key(0), true);
  const PieceRef filling = store->reserve(page_spec(key(1), 1 * MiB)).piece;
  fill(filling, 1);
  {
    const PieceRef staged = store->reserve(file_spec("/ns/f", 0, 5, 0, 1 * MiB)).piece;
    fill(staged, 5);
    REQUIRE(store->stage(staged) == Status::ok);
  }

  for (std::size_t i = 2; i < 100; ++i) REQUIRE(put_page(*store, key(i), 1 * MiB, i) == Status::ok);

  CHECK(is_filled_with(read, 0));
  CHECK(is_filled_with(filling, 1));
  CHECK(store->find_page(key(0), false) == read);
  CHECK(is_filled_with(store->find_piece("/ns/f", 0, 5, false), 5));
}

TEST_CASE("what is moved here makes no room for itself but from what is older") {
  const auto store = open_store(16 * MiB);
  for (std::size_t i = 0; put_page(*store, key(i), 256 * KiB, i) == Status::ok; ++i)
    if (store->counts().evicted_pieces > 0) break;
  const StoreCounts before = store->counts();
  const std::string name = key(1'000);
  PieceSpec spec = page_spec(name, 256 * KiB);
  spec.is_moved = true;
  spec.idle_ms = 3'600'000;
  CHECK(store->reserve(spec).status == Status::full);
  CHECK(store->counts().evicted_pieces == before.evicted_pieces);
  spec.idle_ms = 0;
  CHECK(store->reserve(spec).status == Status::ok);
}

TEST_CASE("a walk in small steps meets every page and piece that stays, and looks at no other") {
  constexpr std::size_t COUNT = 3'000;
  const auto store = open_store(64 * MiB);
  for (std::size_t i = 0; i < COUNT; ++i) REQUIRE(put_page(*store, key(i), 64, i) == Status::ok);
  for (std::size_t i = 0; i < COUNT; ++i) {
    const std::string path = "/ns/file" + std::to_string(i % 7);
    REQUIRE(put_piece(*store, file_spec(path, i / 7, i + 1, 0, 64), 1) == Status::ok);
  }
  const Reserved staged = store->reserve(file_spec("/ns/staged", 0, 1, 0, 64));
  fill(staged.piece, 1);
  REQUIRE(store->stage(staged.piece) == Status::ok);
  std::map<const Piece*, std::size_t> seen;
  std::size_t most = 0;
  for (Cursor cursor; !cursor.is_over;) {
    std::size_t count = 0;
    store->walk(cursor, [&](const PieceRef& piece, std::uint64_t used_ns) {
      CHECK(used_ns <= steady_ns());
      ++seen[piece.get()];
      ++count;
    });
    most = std::max(most, count);
  }
  CHECK(seen.size() == 2 * COUNT);
  CHECK(most < 1'000);
  CHECK(std::all_of(seen.begin(), seen.end(), [](const auto& each) { return each.second == 1; }));
}

TEST_CASE("live pieces of a chunk are found by the range that they touch") {
  const auto store = open_store(16 * MiB);
  REQUIRE(put_piece(*store, file_spec("/ns/a", 3, 1, 0, 100), 1) == Status::ok);
  REQUIRE(put_piece(*store, file_spec("/ns/a", 3, 2, 100, 100), 2) == Status::ok);
  REQUIRE(put_piece(*store, file_spec("/ns/a", 4, 3, 0, 100), 3) == Status::ok);
  const auto count = [&](std::uint64_t tag, std::uint64_t offset, std::uint64_t length) {
    return store->find_live("/ns/a", 3, tag, offset, length).size();
  };
  CHECK(count(0, 0, CHUNK_BYTES_MAX) == 2);
  CHECK(count(0, 0, 100) == 1);
  CHECK(count(0, 99, 2) == 2);
  CHECK(count(2, 0, CHUNK_BYTES_MAX) == 1);
  CHECK(count(2, 0, 100) == 0);
  CHECK(count(3, 0, CHUNK_BYTES_MAX) == 0);
  CHECK(count(0, ~std::uint64_t{0}, ~std::uint64_t{0}) == 0);
  CHECK(store->find_live("/ns/b", 3, 0, 0, 100).empty());
}

TEST_CASE("when everything is held a writer is told to come again, and gets in once it is let go") {
  const auto store = open_store(16 * MiB);
  std::vector<PieceRef> held;
  for (std::size_t i = 0; i < 7; ++i) {
    REQUIRE(put_page(*store, key(i), 2 * MiB, i) == Status::ok);
    held.push_back(store->find_page(key(i), true));
  }
  CHECK(put_page(*store, key(9), 2 * MiB, 9) == Status::retry);

  held.clear();

  CHECK(put_page(*store, key(9), 2 * MiB, 9) == Status::ok);
}

TEST_CASE("eviction gets past any number of held pages in a few tries") {
  const auto store = open_store(64 * MiB);
  std::vector<PieceRef> held;
  std::size_t pages = 0;
  for (; store->counts().free_bytes >= 256 * KiB; ++pages) {
    REQUIRE(store->publish_page(store->reserve(page_spec(key(pages), 4 * KiB)).piece) ==
            Status::ok);
  }
  REQUIRE(pages > 14'000);
  for (std::size_t i = 0; i < pages - 1000; ++i) held.push_back(store->find_page(key(i), false));

  int tries = 1;
  while (store->reserve(page_spec(key(pages), 1 * MiB)).status != Status::ok && tries < 10) ++tries;

  CHECK(tries < 10);
  CHECK(store->find_page(key(0), false) != nullptr);
}

TEST_CASE("a dropped page keeps its bytes for those who hold it, and nobody else finds it") {
  const auto store = open_store(16 * MiB);
  REQUIRE(put_page(*store, key(0), 1 * MiB, 33) == Status::ok);
  const PieceRef held = store->find_page(key(0), true);

  CHECK(store->drop_page(key(0)));

  CHECK(store->find_page(key(0), true) == nullptr);
  CHECK(store->counts().zombie_bytes == 1 * MiB);
  for (std::size_t i = 1; i < 40; ++i) REQUIRE(put_page(*store, key(i), 1 * MiB, i) == Status::ok);
  CHECK(is_filled_with(held, 33));
}

TEST_CASE("half-written bytes are limited to an eighth, but one piece is always let in") {
  const auto store = open_store(64 * MiB);
  {
    const Reserved large = store->reserve(page_spec(key(0), 40 * MiB));
    CHECK(large.status == Status::ok);
    CHECK(store->reserve(page_spec(key(1), 4 * KiB)).status == Status::retry);
  }
  std::vector<PieceRef> filling;
  for (std::size_t i = 0; i < 8; ++i) {
    filling.push_back(store->reserve(page_spec(key(i), 1 * MiB)).piece);
    REQUIRE(filling.back() != nullptr);
  }

  CHECK(store->reserve(page_spec(key(9), 4 * KiB)).status == Status::retry);
}

TEST_CASE("a piece that can never fit is refused for good") {
  const auto store = open_store(16 * MiB);

  CHECK(store->reserve(page_spec(key(0), 16 * MiB)).status == Status::full);
  CHECK(store->reserve(page_spec(key(0), 2 * GiB)).status == Status::full);
  CHECK(store->reserve(page_spec(key(0), 0)).status == Status::full);
  CHECK(store->reserve(page_spec(key(0), 16 * MiB - 64 * KiB)).status == Status::ok);
}

TEST_CASE("one allocation evicts at most its size and 64 MiB") {
  const auto store = open_store(512 * MiB);
  std::mt19937_64 random(5);
  const auto put = [&](std::size_t i, std::uint64_t length) {
    const Reserved reserved = store->reserve(page_spec(key(i), length));
    REQUIRE(reserved.status == Status::ok);
    REQUIRE(store->publish_page(reserved.piece) == Status::ok);
  };
  for (std::size_t i = 0; i < 20'000; ++i) put(i, 4 * KiB + random() % (60 * KiB));

  for (std::size_t i = 20'000; i < 20'300; ++i) {
    const std::uint64_t before = store->counts().evicted_bytes;
    const std::uint64_t length = 2 * MiB + random() % (14 * MiB);
    put(i, length);
    REQUIRE(store->counts().evicted_bytes - before <= length + EVICT_SLACK_BYTES);
  }
  CHECK(store->counts().live_bytes >= 512 * MiB / 100 * 94);
}

TEST_CASE("the background keeps the use between its marks") {
  const auto store = open_store(64 * MiB, 0.5, 0.25);
  for (std::size_t i = 0; i < 200; ++i)
    REQUIRE(put_page(*store, key(i), 256 * KiB, i) == Status::ok);

  CHECK(wait_until([&] { return store->counts().free_bytes >= 32 * MiB; }));
  CHECK(store->find_page(key(199), false) != nullptr);
}

TEST_CASE("what has outlived its time is a miss, and its memory comes back") {
  const auto store = open_store(16 * MiB);
  const std::uint64_t before = store->counts().free_bytes;
  const std::string name = key(0);
  PieceSpec spec = page_spec(name, 100);
  spec.ttl_s = 1;
  REQUIRE(store->publish_page(store->reserve(spec).piece) == Status::ok);
  PieceSpec other = file_spec("/ns/f", 0, 1, 0, 100);
  other.ttl_s = 1;
  REQUIRE(put_piece(*store, other, 1) == Status::ok);
  REQUIRE(store->find_page(key(0), true) != nullptr);

  CHECK(wait_until([&] { return store->find_page(key(0), true) == nullptr; }));
  CHECK(wait_until([&] { return store->counts().expired_pieces == 2; }));
  CHECK(store->counts().live_bytes == 0);
  CHECK(before - store->counts().free_bytes <= 2 * 64 * KiB);
}

TEST_CASE("a corrupt copy is dropped and counted once") {
  const auto store = open_store(16 * MiB);
  REQUIRE(put_page(*store, key(0), 200'000, 1) == Status::ok);
  const PieceRef page = store->find_page(key(0), true);
  CHECK(page->hash_of(65'536, 65'536) == page->hashes()[1]);
  std::vector<std::span<std::byte>> runs;
  page->runs(70'000, 1, runs);
  runs[0][0] ^= std::byte{1};
  CHECK(page->hash_of(65'536, 65'536) != page->hashes()[1]);

  store->quarantine(page);
  store->quarantine(page);

  CHECK(store->find_page(key(0), true) == nullptr);
  CHECK(store->counts().corrupt_pieces == 1);
}

TEST_CASE("runs give every range of a scattered piece, in order") {
  const auto store = open_store(16 * MiB);
  for (std::size_t i = 0; i < 3000; ++i)
    REQUIRE(put_page(*store, key(i), 4 * KiB, i) == Status::ok);
  for (std::size_t i = 0; i < 3000; i += 2) REQUIRE(store->drop_page(key(i)));
  const PieceRef piece = store->reserve(page_spec(key(9999), 6 * MiB + 5)).piece;
  REQUIRE(piece != nullptr);
  std::vector<std::span<std::byte>> runs;
  piece->runs(0, piece->length(), runs);
  CHECK(runs.size() > 3);
  std::string flat;
  for (const auto run : runs) {
    for (std::byte& byte : run) {
      byte = static_cast<std::byte>(flat.size() * 31 >> 3);
      flat.push_back(static_cast<char>(byte));
    }
  }
  REQUIRE(flat.size() == piece->length());

  std::mt19937_64 random(3);
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t offset = random() % flat.size();
    const std::uint64_t length =
        random() % std::min<std::uint64_t>(flat.size() - offset + 1, 200'000);
    CHECK(piece->hash_of(offset, length) == XXH3_64bits(flat.data() + offset, length));
  }
}

TEST_CASE("threads that put, read, hold and drop never see foreign bytes") {
  const auto store = open_store(16 * MiB, 0.9, 0.8);
  std::atomic<std::uint64_t> wrong{0}, hits{0}, unbalanced{0}, tags{0};
  const auto work = [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<PieceRef> held;
    const auto check = [&](const PieceRef& piece, std::uint64_t mark) {
      if (piece == nullptr) return;
      ++hits;
      if (!is_filled_with(piece, mark)) ++wrong;
      if (random() % 4 == 0) held.push_back(piece);
    };
    for (int step = 0; step < 1000; ++step) {
      const std::uint64_t i = random() % 48;
      const std::uint64_t length = 4 * KiB + random() % (384 * KiB);
      const std::string path = "/ns/file" + std::to_string(i % 4);
      switch (random() % 8) {
        case 0:
        case 1: put_page(*store, key(i), length, i); break;
        case 2: {
          const std::uint64_t tag = ++tags;
          if (put_piece(*store, file_spec(path, 0, tag, 0, length), tag) == Status::ok) {
            check(store->find_piece(path, 0, tag, true), tag);
          }
          break;
        }
        case 3: store->drop_page(key(i)); break;
        case 4: {
          const PieceRef piece = store->find_latest(path, 0, 0, 4 * KiB, true);
          check(piece, piece == nullptr ? 0 : piece->tag());
          break;
        }
        case 5: held.clear(); break;
        case 6: {
          const StoreCounts counts = store->counts();
          if (sum(counts) != counts.arena_bytes) ++unbalanced;
          break;
        }
        default: check(store->find_page(key(i), true), i);
      }
      if (held.size() > 8) held.clear();
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
  for (auto& thread : threads) thread.join();

  CHECK(wrong == 0);
  CHECK(unbalanced == 0);
  CHECK(hits > 500);
  store->clear("ns");
  const auto is_empty = [&] {
    const StoreCounts counts = store->counts();
    return counts.free_bytes + counts.record_bytes == counts.arena_bytes;
  };
  CHECK(wait_until(is_empty));
}
