// Scan: what one file of the log says, read from its headers alone where a seal vouches for the
// rest, and whole where none does.
//
// Whatever is wrong ends nothing: the search goes on at the next header that carries the id of this
// segment and the place at which it is found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io.h"
#include "layout.h"

namespace gd2fs::disk {

struct ScannedSegment {
  std::uint64_t id = 0;   // 0: void
  std::string node_name;  // who has written it; empty when its head does not say
  bool is_sealed = false;
  std::uint64_t end = FRONT_BYTES;  // of the last record
  std::uint64_t serial_max = 0;
  std::vector<RecordHead> records;  // whole, not struck, in the order of the file
  std::vector<RecordHead> torn;     // their payload is not what the header says
  struct Hole {
    std::uint64_t offset, bytes;
  };
  std::vector<Hole> holes;  // of a segment without a seal: between two records
  std::uint64_t corrupt_headers = 0;
  std::uint64_t read_errors = 0;  // what lay there is not known, so nothing of it is settled
};

ScannedSegment scan_segment(DiskIo& io, int file, std::uint64_t bytes);

/// Makes a segment that had no seal like any other: what is torn is struck, holes are closed, and
/// a seal is written. 0 or an errno: then it stays as it was.
int settle_segment(DiskIo& io, int file, const ScannedSegment& scanned);

}  // namespace gd2fs::disk
