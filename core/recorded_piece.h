// Recorded piece: what the records of an arena say of one piece, and how it is put together from
// the records of its extents.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "extent.h"
#include "ledger.h"

namespace gd2fs {

struct RecordedPiece {
  std::string name;
  bool is_page = false;
  std::uint8_t replicas = 0;
  std::uint8_t eviction_class = EVICTION_CLASSES;
  std::uint64_t chunk = 0, tag = 0, seq = 0, offset = 0, length = 0;
  std::int64_t expires_ms = 0;  // CLOCK_BOOTTIME; 0: never
  std::vector<Extent> extents;  // in the order of the piece
  std::vector<std::uint64_t> hashes;
};

/// Takes records in any order, and hands out pieces once they are whole.
class RecordJoiner {
 public:
  using Visitor = std::function<void(RecordedPiece&&)>;
  /// Called with the number of a record that is of no use.
  using Useless = std::function<void(std::uint32_t record)>;

  explicit RecordJoiner(Useless useless) : useless_(std::move(useless)) {}

  void add(const ExtentRecord& record, const Visitor& visit);
  /// Ends it: pieces of which extents are missing are given up. How many.
  std::size_t end();

 private:
  struct Parts {
    std::map<std::uint64_t, std::pair<Extent, std::vector<std::uint64_t>>> by_place;
    std::int64_t expires_ms = 0;
    std::uint8_t replicas = 0;
    std::uint8_t eviction_class = 0;
    std::uint64_t bytes = 0;
  };
  // name, is_page, chunk, tag, seq, offset, length: two pieces never agree in all of them.
  using Key = std::tuple<std::string, bool, std::uint64_t, std::uint64_t, std::uint64_t,
                         std::uint64_t, std::uint64_t>;

  static bool is_whole(const Parts& parts, std::uint64_t length);
  static RecordedPiece join(const Key& key, Parts& parts);
  void give_up(const Parts& parts) const;

  const Useless useless_;
  std::map<Key, Parts> open_;  // pieces of which some extents are still to come
  std::size_t given_up_ = 0;
};

}  // namespace gd2fs
