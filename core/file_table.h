// FileTable: pieces of files by name, then chunk, then tag.
//
// Not thread-safe: a shard of the index owns one. A chunk seldom has more than a few hundred
// pieces, and at most PIECES_PER_CHUNK_MAX: they are kept in a plain list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cursor.h"
#include "piece.h"

namespace gd2fs {

// A record lists at most SEGMENTS_PER_CHUNK_MAX of them; the rest is staged, or no longer listed.
inline constexpr std::size_t PIECES_PER_CHUNK_MAX = 4 * SEGMENTS_PER_CHUNK_MAX;

class FileTable {
 public:
  struct Entry {
    std::uint64_t tag = 0;
    Piece* piece = nullptr;
  };
  using Chunk = std::vector<Entry>;
  using File = std::map<std::uint64_t, Chunk>;

  Piece* find(std::string_view name, std::uint64_t chunk, std::uint64_t tag) const;
  /// The live piece of the highest seq that covers the whole range, or nothing.
  Piece* find_latest(std::string_view name, std::uint64_t chunk, std::uint64_t offset,
                     std::uint64_t length) const;
  /// All pieces of a chunk, or nothing.
  const Chunk* chunk(std::string_view name, std::uint64_t chunk) const;
  /// The live pieces that live ones of a higher seq cover fully, now that `fresh` is one of them.
  std::vector<Piece*> covered_by(const Piece& fresh) const;
  /// Any `count_max` pieces of a file.
  std::vector<Piece*> some_of(std::string_view name, std::size_t count_max) const;
  /// The first file after `after`, in order of names, or nothing.
  const std::string* next_name(std::string_view after) const;
  /// Calls for the pieces from `place` on, by whole chunks, until there were `count_min` of them.
  /// Moves `place` on; false: that was the end.
  template <class Visitor>
  bool visit(FilePlace& place, std::size_t count_min, Visitor&& visitor) const {
    std::size_t count = 0;
    for (auto file = files_.lower_bound(place.name); file != files_.end(); ++file) {
      const bool is_begun = file->first == place.name;
      for (auto chunk = file->second.lower_bound(is_begun ? place.chunk : 0);
           chunk != file->second.end(); ++chunk) {
        if (count >= count_min) {
          place = {file->first, chunk->first};
          return true;
        }
        for (const Entry& entry : chunk->second) visitor(*entry.piece);
        count += chunk->second.size();
      }
    }
    return false;
  }

  void add(Piece& piece);
  void remove(Piece& piece);

 private:
  std::map<std::string, File, std::less<>> files_;
};

}  // namespace gd2fs
