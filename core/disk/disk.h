// Disk: a log of records on one or more devices, the tier below memory. It knows of records and
// their bytes, and nothing of stores, indexes or networks.
//
//   write -> DiskCopy -> read ... -> strike
//                     `-> the cleaner needs the room: lost
//
// All of it is asynchronous. What is handed over is called back exactly once, on the disk's own
// threads: never before the call has returned, never under a lock of the disk. Callbacks may call
// what they like but the disk's end, and should be short: each holds up the I/O that comes next.
// The calls themselves only queue, take one short lock, and may be made under locks of the caller.
//
// Runs of memory are grains of the arena: each starts at a multiple of GRAIN_BYTES, all but the
// last are whole grains long, and the rest of the last one's grain belongs to it too: it is written
// out with it, and a read leaves there whatever it likes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "../error.h"
#include "../limits.h"

namespace gd2fs {

namespace disk {
class DiskIo;  // the seam to the kernel, see io.h
}  // namespace disk

/// One folder, best on a device of its own.
struct DiskPlace {
  std::string folder;           // made when it is not there; one process at a time
  std::uint64_t bytes_max = 0;  // what all files in it may take; at least DISK_BYTES_MIN
};

enum class DiskIoKind : std::uint8_t {
  automatic,  // io_uring when the kernel allows it, else threads
  uring,      // or `open` fails
  threads,
};

struct DiskOptions {
  std::vector<DiskPlace> places;
  std::uint64_t segment_bytes = DISK_SEGMENT_BYTES;  // less where a place is small
  std::uint64_t write_bytes_per_s = 0;               // of callers and cleaner in all; 0: no limit
  DiskIoKind io = DiskIoKind::automatic;
  std::size_t depth = DISK_DEPTH;          // reads and writes in flight, of all places
  std::uint32_t retry_ms = DISK_RETRY_MS;  // after which a place that failed is tried again
  std::string node_name;                   // a folder that another node has written is refused
};

/// What a record says of a piece; names as in Piece.
struct DiskPiece {
  std::string name;
  bool is_page = false;
  std::uint64_t chunk = 0, tag = 0, seq = 0;
  std::uint64_t offset = 0;     // in the chunk
  std::uint64_t length = 0;     // bytes, 1 to CHUNK_BYTES_MAX
  std::int64_t expires_ms = 0;  // CLOCK_REALTIME; 0: never
  std::uint8_t replicas = 0;
  std::vector<std::uint64_t> hashes;  // XXH3-64 of each block of BLOCK_BYTES
};

/// One whole record on the disk. It stays the same one when the cleaner moves it. Letting go of the
/// last reference says nothing about the disk. A disk derives its own from it.
class DiskCopy {
 public:
  DiskCopy(const DiskCopy&) = delete;
  DiskCopy& operator=(const DiskCopy&) = delete;
  virtual ~DiskCopy() = default;

  /// Of the piece.
  std::uint64_t length() const noexcept { return length_; }
  /// What it takes of the disk, its header included.
  std::uint64_t disk_bytes() const noexcept { return disk_bytes_; }
  /// False: lost or struck, for good. True may be so no more a moment later.
  bool is_here() const noexcept { return is_here_.load(std::memory_order_acquire); }

 protected:
  DiskCopy(std::uint64_t length, std::uint64_t disk_bytes)
      : length_(length), disk_bytes_(disk_bytes) {}
  std::atomic<bool> is_here_{true};

 private:
  const std::uint64_t length_, disk_bytes_;
};
using DiskCopyRef = std::shared_ptr<DiskCopy>;

struct DiskPlaceCounts {
  std::string folder;
  bool is_failed = false;  // not written to for now; tried again every DISK_RETRY_MS
  bool is_direct = false;  // direct I/O; false: the file system refuses it (tmpfs)
  int error = 0;           // the errno of its last error, kept until a write goes well
  std::uint64_t bytes_max = 0;
  std::uint64_t usable_bytes = 0;  // of these, for records: the rest is kept in hand
  std::uint64_t file_bytes = 0;    // what its segments take
  std::uint64_t live_bytes = 0;    // of records that can be read, headers included
  std::uint64_t write_errors = 0, read_errors = 0;
};

/// Sums since `open`, but for what says that it is of now.
struct DiskCounts {
  std::uint64_t records = 0;                                    // now
  std::uint64_t live_bytes = 0, file_bytes = 0, bytes_max = 0;  // now, of all places
  std::uint64_t usable_bytes = 0;                               // of bytes_max
  std::uint64_t queued_bytes = 0;                        // now: accepted, not yet on their way
  std::uint64_t written_records = 0, written_bytes = 0;  // for callers; headers, strikes included
  std::uint64_t moved_records = 0, moved_bytes = 0;      // by the cleaner
  std::uint64_t read_records = 0, read_bytes = 0;        // for callers
  std::uint64_t struck_records = 0;
  std::uint64_t lost_records = 0, lost_bytes = 0;  // let go by the cleaner for want of room
  std::uint64_t refused_writes = 0;                // retry: the queue was full
  std::uint64_t write_errors = 0, read_errors = 0, sync_errors = 0, full_errors = 0;  // ENOSPC too
  std::uint64_t corrupt_headers = 0, torn_records = 0;  // found by the scan, or by the cleaner
  std::uint64_t expired_records = 0;                    // found by the scan, not visited
  std::uint64_t scanned_records = 0, scanned_bytes = 0, scan_ms = 0;  // bytes: of the log
  std::uint64_t failed_places = 0;                                    // now
  bool is_uring = false;
  std::vector<DiskPlaceCounts> places;
};

class Disk {
 public:
  using Visit = std::function<void(DiskPiece&&, DiskCopyRef)>;
  using Written = std::function<void(Status, DiskCopyRef)>;
  using Done = std::function<void(Status)>;
  using Runs = std::vector<std::span<std::byte>>;
  using ConstRuns = std::vector<std::span<const std::byte>>;

  /// Takes the folders and reads what is there: `visit` is called on this thread, once per whole
  /// record that was neither struck nor is expired, in the order of writing. So of two with one
  /// name the later call has the newer one; the caller strikes the other.
  ///
  /// Fails with `invalid` when a folder cannot be made or read, belongs to another process or node,
  /// or is given less than DISK_BYTES_MIN. A folder that can only be read is taken as failed.
  static Result<std::unique_ptr<Disk>> open(const DiskOptions& options, const Visit& visit);
  /// The same over another seam (tests).
  static Result<std::unique_ptr<Disk>> open(const DiskOptions& options, const Visit& visit,
                                            std::unique_ptr<disk::DiskIo> io);
  /// What is in flight ends first; what only waits is called back with `cancelled`.
  virtual ~Disk() = default;

  /// Puts a record at the end of the log. `runs` hold `piece.length` bytes, and stay as they are
  /// until `done`; `keep` lives until then.
  ///
  /// ok: it is on the device's side of the kernel (`flush` for a power cut), and readable.
  /// retry: too much waits already, the device or the rate limit is slower than the callers.
  /// full: larger than a place can ever take. unavailable: no place can be written to, or the write
  /// failed. cancelled: the disk is being closed.
  virtual void write(DiskPiece piece, ConstRuns runs, std::shared_ptr<const void> keep,
                     Written done) = 0;

  /// Reads `runs`' bytes from `offset` of a piece on, a multiple of GRAIN_BYTES. They come as they
  /// are: the caller verifies the hashes. miss: the copy was lost or struck, or reading failed.
  virtual void read(const DiskCopyRef& copy, std::uint64_t offset, Runs runs,
                    std::shared_ptr<void> keep, Done done) = 0;

  /// Never again, not after a restart either once `done` has said ok (it may be empty). ok: also
  /// when the copy was lost before. unavailable: the device refuses; it is tried again when it is
  /// written to again, and until then a restart may bring the record back.
  virtual void strike(const DiskCopyRef& copy, Done done) = 0;
  void strike(const DiskCopyRef& copy) { strike(copy, {}); }

  /// All that was written and struck by calls before this one is on the device, as far as it says
  /// the truth. unavailable: a place did not sync.
  virtual void flush(Done done) = 0;

  /// Its bytes were of use: the cleaner lets go of others first. Takes no lock.
  virtual void used(const DiskCopyRef& copy) noexcept = 0;
  /// What `lost` gets with the copy; the last one given counts. Held weakly.
  virtual void set_owner(const DiskCopyRef& copy, std::weak_ptr<void> owner) = 0;
  /// Called when the cleaner has let a copy go, or found it damaged. Set once, before the first
  /// write; none is let go before that.
  using Lost = std::function<void(DiskCopyRef, std::shared_ptr<void> owner)>;
  virtual void set_lost(Lost lost) = 0;

  /// At once; 0: no limit.
  virtual void set_write_rate(std::uint64_t bytes_per_s) = 0;
  virtual DiskCounts counts() const = 0;
};

}  // namespace gd2fs
