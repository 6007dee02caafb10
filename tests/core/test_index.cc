#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "index.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "eviction/lru.h"
#include "name.h"
#include "store.h"

using namespace gd2fs;

namespace {

// Large enough that nothing is ever evicted: what is not dropped must be found.
std::unique_ptr<Store> open_store() {
  StoreOptions options;
  options.arena = {512 * MiB, Rung::plain, ""};
  options.evict_above = options.evict_below = 1;
  auto store = Store::open(options);
  REQUIRE(store);
  return std::move(*store);
}

// Names that differ little: a prefix, one byte, NULs, high bytes, another namespace.
std::string tricky_key(std::size_t i) {
  const std::string keys[] = {"a",    "ab",      std::string("a\0", 2), std::string("a\0b", 3),
                              "\xff", "\xff\xfe"};
  std::string key = keys[i % 6];
  for (std::size_t rest = i / 6; rest > 0; rest /= 4) key += static_cast<char>(rest % 4);
  return page_name(i % 5 == 0 ? "n" : "n2", key);
}

struct ModelPiece {
  std::uint64_t offset = 0, length = 0, seq = 0;
  bool is_live = false;

  bool has(std::uint64_t begin, std::uint64_t end) const {
    return is_live && offset <= begin && offset + length >= end;
  }
};

// What the pieces of one chunk should be, byte by byte.
class ModelChunk {
 public:
  std::map<std::uint64_t, ModelPiece> pieces;  // by tag

  void publish(std::uint64_t tag, std::uint64_t seq) {
    pieces[tag].is_live = true;
    pieces[tag].seq = seq;
    std::vector<std::uint64_t> covered;
    for (const auto& [other, piece] : pieces) {
      if (piece.is_live && is_covered(piece)) covered.push_back(other);
    }
    for (const std::uint64_t other : covered) pieces.erase(other);
  }

  std::uint64_t latest_seq(std::uint64_t offset, std::uint64_t length) const {
    std::uint64_t best = 0;
    for (const auto& [tag, piece] : pieces) {
      if (piece.has(offset, offset + length)) best = std::max(best, piece.seq);
    }
    return best;
  }

 private:
  bool is_covered(const ModelPiece& piece) const {
    for (std::uint64_t at = piece.offset; at < piece.offset + piece.length; ++at) {
      const auto covers = [&](const auto& other) {
        return other.second.seq > piece.seq && other.second.has(at, at + 1);
      };
      if (std::none_of(pieces.begin(), pieces.end(), covers)) return false;
    }
    return true;
  }
};

// A tag that is likely to be there, or was.
std::uint64_t recent(std::uint64_t tag, std::uint64_t back) { return tag - std::min(tag, back); }

}  // namespace

TEST_CASE("pages are found exactly under their full names, through growth and removal") {
  const auto store = open_store();
  std::map<std::string, std::uint64_t> model;
  std::mt19937_64 random(7);
  for (int step = 0; step < 60'000; ++step) {
    const std::string name = tricky_key(random() % 4000);
    const auto known = model.find(name);
    switch (random() % 4) {
      case 0: {
        PieceSpec spec;
        spec.name = name, spec.is_page = true, spec.length = 1 + random() % 4096;
        const Reserved reserved = store->reserve(spec);
        REQUIRE(reserved.status == (known == model.end() ? Status::ok : Status::have));
        if (reserved.piece == nullptr) break;
        REQUIRE(store->publish_page(reserved.piece) == Status::ok);
        model[name] = spec.length;
        break;
      }
      case 1: REQUIRE(store->drop_page(name) == (model.erase(name) == 1)); break;
      default: {
        const PieceRef found = store->find_page(name, random() % 2 == 0);
        REQUIRE((found != nullptr) == (known != model.end()));
        if (found != nullptr) REQUIRE(found->length() == known->second);
      }
    }
  }
  CHECK(store->counts().pages == model.size());
  std::size_t in_n = 0;
  for (const auto& [name, length] : model) in_n += namespace_of(name, true) == "n" ? 1 : 0;
  CHECK(store->clear("n") == in_n);
  CHECK(store->counts().pages == model.size() - in_n);
}

TEST_CASE("warming is no use, holds nothing and finds its way among names that are not there") {
  const auto store = open_store();
  std::vector<std::string> names;
  // Twice as many as fit the caches: with few pages nothing is warmed.
  for (std::size_t i = 0; i < 2 * 70'000; ++i) {
    names.push_back(i < 500 ? tricky_key(i) : page_name("n", std::to_string(i)));
    PieceSpec spec;
    spec.name = names.back(), spec.is_page = true, spec.length = 1;
    const Reserved reserved = store->reserve(spec);
    if (reserved.piece != nullptr && i % 2 == 0) store->publish_page(reserved.piece);
  }
  const std::uint64_t pages = store->counts().pages;

  store->warm_pages(std::vector<std::string_view>(names.begin(), names.end()));
  store->warm_pages({});

  CHECK(store->counts().pages == pages);
  CHECK(store->clear("n") + store->clear("n2") == pages);
  CHECK(store->counts().zombie_bytes == 0);
}

TEST_CASE("pieces of files agree with a model of every byte") {
  const auto store = open_store();
  std::map<std::string, ModelChunk[2]> model;
  std::mt19937_64 random(21);
  std::uint64_t last = 0;
  for (int step = 0; step < 10'000; ++step) {
    const std::string name = "/ns/f" + std::to_string(random() % 3);
    const std::uint64_t chunk = random() % 2, offset = random() % 40, length = 1 + random() % 20;
    const std::uint64_t tag = recent(last, random() % 16);
    ModelChunk& expected = model[name][chunk];
    switch (random() % 8) {
      case 0:
      case 1:
      case 2: {
        PieceSpec spec{name, false, chunk, ++last, offset, length, 0};
        const Reserved reserved = store->reserve(spec);
        REQUIRE(reserved.status == Status::ok);
        REQUIRE(store->stage(reserved.piece) == Status::ok);
        expected.pieces[last] = {offset, length, 0, false};
        break;
      }
      case 3:
      case 4: {
        const bool is_there = expected.pieces.contains(tag);
        const std::uint64_t seq = 1 + random() % 4 + last;
        REQUIRE(store->publish(name, chunk, tag, seq) == (is_there ? Status::ok : Status::miss));
        if (is_there && !expected.pieces[tag].is_live) expected.publish(tag, seq);
        break;
      }
      case 5:
        REQUIRE(store->drop_piece(name, chunk, tag) == (expected.pieces.erase(tag) == 1));
        break;
      case 6: {
        const PieceRef found = store->find_latest(name, chunk, offset, length, true);
        REQUIRE((found == nullptr ? 0 : found->seq()) == expected.latest_seq(offset, length));
        break;
      }
      default:
        REQUIRE((store->find_piece(name, chunk, tag, true) != nullptr) ==
                expected.pieces.contains(tag));
    }
    if (step % 500 != 499) continue;
    REQUIRE(store->drop_file(name) == model[name][0].pieces.size() + model[name][1].pieces.size());
    model.erase(name);
  }
  std::ptrdiff_t live = 0;
  for (const auto& [name, chunks] : model) {
    for (const ModelChunk& chunk : chunks) {
      live += std::count_if(chunk.pieces.begin(), chunk.pieces.end(),
                            [](const auto& one) { return one.second.is_live; });
    }
  }
  CHECK(store->counts().pieces == static_cast<std::uint64_t>(live));
}

TEST_CASE("a listing sees every page that stays while others come and go") {
  const auto store = open_store();
  const auto put = [&](const std::string& name) {
    PieceSpec spec;
    spec.name = name, spec.is_page = true, spec.length = 10;
    const Reserved reserved = store->reserve(spec);
    if (reserved.piece != nullptr) store->publish_page(reserved.piece);
  };
  std::set<std::string> stays;
  for (int i = 0; i < 3000; ++i) {
    put(page_name("ns", "stay" + std::to_string(i)));
    stays.insert("stay" + std::to_string(i));
  }
  std::atomic<bool> is_done{false};
  std::thread busy([&] {
    for (int i = 0; !is_done; ++i) {
      put(page_name("ns", "come" + std::to_string(i % 20'000)));
      store->drop_page(page_name("ns", "come" + std::to_string((i + 10'000) % 20'000)));
    }
  });
  bool is_complete = true;
  for (int round = 0; round < 5; ++round) {
    bool more = false;
    std::set<std::string> seen;
    for (const auto& entry : store->list_pages("ns", "s", 10'000, more)) seen.insert(entry.name);
    is_complete = is_complete && seen == stays;
  }
  is_done = true;
  busy.join();

  CHECK(is_complete);
}
