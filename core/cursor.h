// Cursor: a place in a walk through all that a store has. The walk goes shard by shard, first the
// pages, then the files; what comes or goes meanwhile may be missed, or be met twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace gd2fs {

/// From this chunk of this file on; files are in the order of their names.
struct FilePlace {
  std::string name;
  std::uint64_t chunk = 0;
};

struct Cursor {
  std::size_t shard = 0;
  std::size_t bucket = 0;   // of the shard's pages
  std::size_t buckets = 0;  // how many there were: with more of them the shard begins anew
  bool is_in_files = false;
  FilePlace file;
  bool is_over = false;
};

}  // namespace gd2fs
