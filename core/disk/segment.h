// Segment: one file of the log, from its first record to the moment at which all of it is void.
//
//   blank -> ready -> open -> full -> closed -> doomed -> blank
//
// Only what happens to an open one and to its records is hot; the keeper of its place does the
// rest.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "layout.h"
#include "log_copy.h"

namespace gd2fs::disk {

class Place;

class Segment {
 public:
  enum class State : std::uint8_t {
    blank,   // void on the disk; nobody reads it any more
    busy,    // its keeper has it in hand
    ready,   // its head says a new id
    open,    // takes records
    full,    // takes no more; some may be on their way
    closed,  // all of them have arrived
    doomed,  // no record counts any more; void, once that is written
  };

  Segment(Place& place, std::uint64_t number, std::uint64_t bytes, int file)
      : place(place), number(number), bytes(bytes), file(file) {}

  bool has_room(std::uint64_t wanted) const noexcept { return wanted <= bytes - end; }
  /// Where the next record of so many bytes goes; has_room was asked.
  std::uint64_t take(std::uint64_t wanted) noexcept {
    const std::uint64_t at = end;
    end += wanted;
    ++writes;
    ++pins;
    return at;
  }
  void add(LogCopyRef copy, std::uint64_t at) {
    copy->segment = this;
    copy->offset = at;
    if (copy->is_here()) live_bytes += copy->disk_bytes();
    copies.push_back(std::move(copy));
  }
  double live_share() const noexcept {
    return static_cast<double>(live_bytes) / static_cast<double>(bytes);
  }

  Place& place;
  const std::uint64_t number;  // of its file's name
  const std::uint64_t bytes;
  const int file;

  // Guarded by the lock of the log.
  State state = State::blank;
  std::uint64_t id = 0;
  std::uint64_t end = FRONT_BYTES;  // of the last record that was given a place
  std::uint64_t live_bytes = 0;
  std::uint32_t pins = 0;      // calls to the kernel on their way
  std::uint32_t writes = 0;    // of these, records
  std::uint32_t arrivals = 0;  // records that the cleaner has brought, and that are elsewhere too
  bool is_void = true;         // so says its head
  bool is_dirty = false;       // written to since the last sync
  bool is_sealable = true;     // no write has failed: a seal would vouch for all
  std::vector<LogCopyRef> copies;  // all that were written whole since it has this id
  std::vector<std::function<void(Status)>> void_waiters;
};

}  // namespace gd2fs::disk
