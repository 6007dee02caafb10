// DiskIo: the one seam between the log and the kernel. Tests put short, failing, slow and torn
// calls behind it.
//
// Reads and writes are submitted and called back. At most `depth` are on their way, the others
// wait in order; reads go first, but one in four is a write while any waits.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../error.h"
#include "disk.h"

namespace gd2fs::disk {

enum class IoKind : std::uint8_t { read, write, sync };  // sync: fdatasync

struct IoRequest {
  IoKind kind = IoKind::read;
  int file = -1;
  std::uint64_t offset = 0;
  std::vector<iovec> runs;                 // at most RUNS_MAX; the memory lives until `done`
  std::function<void(std::int64_t)> done;  // bytes moved, maybe fewer than asked for; or -errno
};

class DiskIo {
 public:
  static constexpr std::size_t RUNS_MAX = 1024;  // the kernel takes no more at once

  DiskIo() = default;
  DiskIo(const DiskIo&) = delete;
  DiskIo& operator=(const DiskIo&) = delete;
  /// Nothing may be on its way any more.
  virtual ~DiskIo() = default;

  // The answers are 0 or above, or -errno. They may take their time: never under a lock.
  virtual int open(const std::string& path, int flags);
  virtual void close(int file) noexcept;
  /// Sets the length, and takes the blocks where the file system can.
  virtual int allocate(int file, std::uint64_t bytes);
  virtual int remove(const std::string& path);

  /// From any thread. `done` runs on a thread of the seam; never before this has returned, and with
  /// no lock held.
  virtual void submit(IoRequest request) = 0;
  virtual bool is_uring() const noexcept { return false; }
};

std::unique_ptr<DiskIo> make_thread_io(std::size_t depth);
/// Null, and why, when the kernel or the container does not allow it.
std::unique_ptr<DiskIo> make_uring_io(std::size_t depth, std::string& why_not);
/// What was asked for, or an error.
Result<std::unique_ptr<DiskIo>> make_io(DiskIoKind kind, std::size_t depth);

/// The plain system call that a request stands for.
std::int64_t carry_out(const IoRequest& request) noexcept;

}  // namespace gd2fs::disk
