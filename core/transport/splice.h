// Splice: pages of the arena on their way into a socket without being copied.
//
// vmsplice puts references to pages into a pipe, splice moves them into the socket. What the reader
// receives is what the pages hold when it receives them: who splices keeps them as they are until
// the reader has said that it has the bytes (holds.h).
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tcp.h"

namespace gd2fs {

/// One pipe with 1 MiB of room, or as much as the system gives.
class Pipe {
 public:
  /// Nothing when the system gives no pipe, or only a small one, which is slower than a copy.
  static std::unique_ptr<Pipe> open();

  /// Takes references to the front of `runs`. How many bytes; < 0: errno says why not.
  ssize_t fill(std::span<const iovec> runs);
  /// Moves what it can into the socket. < 0: errno. `is_more`: other bytes follow at once.
  ssize_t drain(int socket, bool is_more);
  std::size_t filled() const noexcept { return filled_; }

 private:
  Pipe() = default;
  tcp::Descriptor in_, out_;
  std::size_t filled_ = 0;  // bytes in it
};

/// The pipes of one node. The system counts their memory per user, over all its processes.
class PipePool {
 public:
  static constexpr std::size_t PIPES_MAX = 16;

  /// Nothing when all are taken, or no more can be had.
  std::unique_ptr<Pipe> take();
  /// One that still has bytes in it is closed: they belong to a stream that is gone.
  void give(std::unique_ptr<Pipe> pipe);

 private:
  std::mutex mutex_;  // Guards: below. Held while a pipe is made, a few times in a node's life.
  std::vector<std::unique_ptr<Pipe>> idle_;
  std::size_t count_ = 0;
};

/// Splices `memory` (at least 4 KiB of the arena, used by nobody; overwritten) through a socket of
/// this machine and changes it before it is read. Empty: the reader saw the change, so nothing is
/// copied. Else why splicing is not worth it here.
std::string splice_fault(std::span<std::byte> memory);

}  // namespace gd2fs
