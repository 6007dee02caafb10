// DiskReader: the disk tier's engine alone, as a node uses it: records of one size, written once,
// read in random order into a node's kind of memory, several at a time, each verified as it comes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../arena.h"
#include "../disk/disk.h"

namespace gd2fs::bench {

struct DiskReaderOptions {
  DiskOptions disk;                // one place; its bytes_max is set here
  std::uint64_t bytes = 0;         // of all records
  std::uint64_t record_bytes = 0;  // of one
  ArenaOptions arena;              // its bytes are set here: one record for each read in flight
};

class DiskReader {
 public:
  /// Fills the log and flushes it.
  static Result<std::unique_ptr<DiskReader>> make(DiskReaderOptions options);

  /// Reads for so long; the bytes that came in each second, or 0 when a read failed or was wrong.
  double read(double seconds, bool is_verifying);
  /// What filling took: bytes in each second, with the flush.
  double written_bytes_per_s() const noexcept { return written_bytes_per_s_; }
  /// Closes the disk and opens it again: records, bytes of the log and the time are in its counts.
  Result<DiskCounts> scan();
  bool is_uring() const;
  bool is_direct() const;

 private:
  struct Reading;
  DiskReader(DiskReaderOptions options, Arena arena);
  Result<bool> open();
  Status write_all();
  Status write_round(std::size_t slots, std::uint64_t first);
  std::span<std::byte> slot(std::size_t each) const;
  void next(Reading& reading, std::size_t each);

  DiskReaderOptions options_;
  Arena arena_;
  std::unique_ptr<Disk> disk_;
  struct Record {
    DiskCopyRef copy;
    std::vector<std::uint64_t> hashes;
  };
  std::vector<Record> records_;
  double written_bytes_per_s_ = 0;
};

}  // namespace gd2fs::bench
