// A store to test, what is put into it, and what must come out.
#pragma once

#include <doctest/doctest.h>
#include <xxhash.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "name.h"
#include "store.h"

namespace gd2fs {

inline std::unique_ptr<Store> open_store(std::size_t bytes, double above = 1.0,
                                         double below = 1.0) {
  StoreOptions options;
  options.arena = {bytes, Rung::plain, ""};
  options.evict_above = above;
  options.evict_below = below;
  options.node_name = "n1";
  options.boot = 7;
  auto store = Store::open(options);
  REQUIRE(store);
  return std::move(*store);
}

inline std::string key(std::size_t i) { return page_name("ns", "key" + std::to_string(i)); }

inline PieceSpec page_spec(std::string_view name, std::uint64_t length, std::uint64_t tag = 1) {
  PieceSpec spec;
  spec.name = name;
  spec.is_page = true;
  spec.tag = tag;
  spec.length = length;
  return spec;
}

inline PieceSpec file_spec(std::string_view name, std::uint64_t chunk, std::uint64_t tag,
                           std::uint64_t offset, std::uint64_t length) {
  PieceSpec spec;
  spec.name = name;
  spec.chunk = chunk;
  spec.tag = tag;
  spec.offset = offset;
  spec.length = length;
  return spec;
}

// Every 8 bytes say which write they belong to: a foreign byte shows.
inline void fill(const PieceRef& piece, std::uint64_t mark) {
  std::vector<std::span<std::byte>> runs;
  piece->runs(0, piece->length(), runs);
  for (const auto run : runs) {
    for (std::size_t i = 0; i < run.size(); i += 8) {
      std::memcpy(run.data() + i, &mark, std::min<std::size_t>(8, run.size() - i));
    }
  }
  for (std::size_t block = 0; block < piece->hashes().size(); ++block) {
    const std::uint64_t at = block * BLOCK_BYTES;
    piece->set_hash(block, piece->hash_of(at, std::min(BLOCK_BYTES, piece->length() - at)));
  }
}

inline bool is_filled_with(const PieceRef& piece, std::uint64_t mark) {
  std::vector<std::span<std::byte>> runs;
  piece->runs(0, piece->length(), runs);
  for (const auto run : runs) {
    for (std::size_t i = 0; i < run.size(); i += 8) {
      if (std::memcmp(run.data() + i, &mark, std::min<std::size_t>(8, run.size() - i)) != 0) {
        return false;
      }
    }
  }
  return true;
}

inline Status put_page(Store& store, std::string_view name, std::uint64_t length,
                       std::uint64_t mark) {
  const Reserved reserved = store.reserve(page_spec(name, length, mark));
  if (reserved.status != Status::ok) return reserved.status;
  fill(reserved.piece, mark);
  return store.publish_page(reserved.piece);
}

inline Status put_piece(Store& store, const PieceSpec& spec, std::uint64_t seq) {
  const Reserved reserved = store.reserve(spec);
  if (reserved.status != Status::ok) return reserved.status;
  fill(reserved.piece, spec.tag);
  const Status staged = store.stage(reserved.piece);
  return staged == Status::ok ? store.publish(spec.name, spec.chunk, spec.tag, seq) : staged;
}

inline std::uint64_t sum(const StoreCounts& c) {
  return c.free_bytes + c.filling_bytes + c.staged_bytes + c.live_bytes + c.zombie_bytes +
         c.loading_bytes + c.record_bytes;
}

inline bool wait_until(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace gd2fs
