// Transfer: all bytes of some runs, however many calls that takes.
#pragma once

#include <functional>
#include <vector>

#include "io.h"

namespace gd2fs::disk {

/// Reads into or writes from `runs`, whole grains each. Goes on after short calls, from the last
/// whole grain; the end of the file is an error (EIO). `done` gets 0 or an errno, once, on a thread
/// of the seam.
void transfer(DiskIo& io, IoKind kind, int file, std::uint64_t offset, std::vector<iovec> runs,
              std::function<void(int error)> done);
void sync(DiskIo& io, int file, std::function<void(int error)> done);

/// The same, waited for: 0 or an errno. Not on a thread of the seam.
int transfer_now(DiskIo& io, IoKind kind, int file, std::uint64_t offset, iovec run);
int sync_now(DiskIo& io, int file);

}  // namespace gd2fs::disk
