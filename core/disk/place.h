// Place: the segments of one folder. Bookkeeping alone: all I/O is done by those who call it, and
// all of it is guarded by the lock of the log.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "segment.h"

namespace gd2fs::disk {

class Place {
 public:
  Place(std::string folder, std::uint64_t bytes_max, std::uint64_t segment_bytes_wanted);

  std::string path_of(std::uint64_t number) const;
  /// The number that a file's name says, or nothing.
  static std::optional<std::uint64_t> number_of(const std::string& name);

  /// A record of so many bytes gets a segment of its own.
  bool is_large(std::uint64_t record_bytes) const noexcept {
    return record_bytes > segment_bytes - FRONT_BYTES;
  }
  bool can_ever_take(std::uint64_t record_bytes) const noexcept {
    return record_bytes <= std::max(segment_bytes - FRONT_BYTES, bytes_max / 4);
  }
  /// Not a large one while the file system is full.
  bool can_take(std::uint64_t record_bytes) const noexcept {
    return !is_failed && can_ever_take(record_bytes) && (growth_ms == 0 || !is_large(record_bytes));
  }
  /// The segment that takes a record of so many bytes now, or null: then its keeper has to see to
  /// it. A segment that is full now is marked so.
  Segment* room_for(std::uint64_t record_bytes);

  /// Segments that could be had at once, or soon.
  std::size_t spare() const;
  std::size_t spare_min() const;
  /// What records may fill in the long run: all segments but those kept spare, and one that is
  /// ready to take the open one's place.
  std::uint64_t usable_bytes() const;
  /// Whether a file of so many bytes may be made.
  bool may_grow(std::uint64_t bytes, std::int64_t now_ms) const;
  Segment* blank_of(std::uint64_t bytes);
  Segment* first_in(Segment::State state);
  /// What the cleaner should take next: the one with the least live bytes, and the one whose
  /// records were used the longest ago.
  Segment* emptiest();
  Segment* coldest();

  Segment* add(std::uint64_t number, std::uint64_t bytes, int file);
  void remove(Segment* segment);

  const std::string folder;
  const std::uint64_t bytes_max;
  const std::uint64_t segment_bytes;

  int folder_file = -1;  // locked while the log is open
  bool is_direct = true;
  bool is_failed = false;
  int error = 0;
  std::int64_t retry_ms = 0;   // a failed one is tried again then
  std::int64_t growth_ms = 0;  // the file system was full: no new file before
  std::uint64_t number_next = 1;
  std::uint64_t file_bytes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t write_errors = 0, read_errors = 0;
  std::uint64_t on_way_bytes = 0;  // records of callers that are being written
  std::uint32_t on_way = 0;
  std::uint64_t large_wanted = 0;  // a record of so many bytes waits for a segment of its own
  Segment* open = nullptr;         // takes what callers write
  Segment* ready = nullptr;        // takes its place
  Segment* large = nullptr;        // made for `large_wanted`
  Segment* moved = nullptr;        // takes what the cleaner moves
  std::vector<std::unique_ptr<Segment>> segments;
  std::vector<LogCopyRef> owed;  // struck, but the device has refused so far
  struct Doubt {                 // a write that failed may have left a whole header there
    Segment* segment;
    std::uint64_t id, offset, length;
    std::uint32_t header_bytes;
  };
  std::vector<Doubt> doubts;

 private:
  bool may_clean(const Segment& segment) const;
};

}  // namespace gd2fs::disk
