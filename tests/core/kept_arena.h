// A kept arena for tests: a file that goes with the test, and stores that are opened on it.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "store_setup.h"

namespace gd2fs {

class KeptArena {
 public:
  explicit KeptArena(std::size_t arena_bytes) : bytes(arena_bytes) {
    REQUIRE(mkdtemp(folder_.data()) != nullptr);
  }
  ~KeptArena() {
    ::unlink(path().c_str());
    ::rmdir(folder_.c_str());
  }
  KeptArena(const KeptArena&) = delete;
  KeptArena& operator=(const KeptArena&) = delete;

  std::string path() const { return folder_ + "/arena"; }

  StoreOptions options() const {
    StoreOptions options;
    options.arena = {bytes, Rung::file, path()};
    options.evict_above = options.evict_below = 1;
    options.cluster = "c1";
    options.node_name = "n1";
    options.boot = 7;
    return options;
  }
  std::unique_ptr<Store> open() const { return open(options()); }
  static std::unique_ptr<Store> open(const StoreOptions& options) {
    auto store = Store::open(options);
    if (!store) FAIL(store.error().message);
    return std::move(*store);
  }

  std::vector<char> read() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::vector<char>& content) const {
    std::ofstream file(path(), std::ios::binary | std::ios::trunc);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
  }

  const std::size_t bytes;

 private:
  std::string folder_ = "/dev/shm/gd2fs-test-XXXXXX";
};

/// Compares all its bytes with its hashes, as whoever reads it does first.
inline bool is_checked(const PieceRef& piece) {
  while (!piece->is_checked()) {
    if (!piece->check_some()) return false;
  }
  return true;
}

}  // namespace gd2fs
