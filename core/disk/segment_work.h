// Segment work: what keeper and cleaner both do to segments. Each is called with the lock of the
// log held, lets go of it for the I/O, and has it again when it returns.
#pragma once

#include <mutex>

#include "log.h"

namespace gd2fs::disk {

using LogLock = std::unique_lock<std::mutex>;

/// Takes a blank segment, or makes a file, and gives it a new id: then it is `busy` and the
/// caller's. Null: there is no room, or the place fails.
Segment* make_ready(Log& log, Place& place, std::uint64_t bytes, LogLock& lock);

/// A blank one: its file goes.
void remove_file(Log& log, Segment& segment, LogLock& lock);

/// Says on the disk that no record of it counts any more. What the cleaner has copied is found at
/// its new place from then on; what is still here is lost, and called so. False: the place fails.
bool make_void(Log& log, Segment& segment, LogLock& lock);

/// Says on the disk where its records end. All of them are there.
bool write_seal(Log& log, Segment& segment, LogLock& lock);

}  // namespace gd2fs::disk
