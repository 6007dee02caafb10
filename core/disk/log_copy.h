// LogCopy: what the log knows of one of its records while the process lives.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "disk.h"

namespace gd2fs::disk {

class Segment;

class LogCopy final : public DiskCopy {
 public:
  LogCopy(std::uint64_t length, std::uint64_t serial, std::uint32_t header_bytes)
      : DiskCopy(length, header_bytes + whole_grains(length)),
        serial(serial),
        header_bytes(header_bytes) {}

  void let_go() noexcept { is_here_.store(false, std::memory_order_release); }

  const std::uint64_t serial;
  const std::uint32_t header_bytes;
  std::atomic<std::uint32_t> used_s{0};  // of the steady clock

  // Guarded by the lock of the log.
  enum class Move : std::uint8_t { none, copying, copied };
  Move move = Move::none;  // copied: whole in both places, and struck in both
  bool is_struck = false;
  Segment* segment = nullptr;       // null: nothing of it can be found on the disk
  std::uint64_t offset = 0;         // of its header there
  Segment* next_segment = nullptr;  // where the cleaner takes it
  std::uint64_t next_offset = 0;
  std::weak_ptr<void> owner;
};
using LogCopyRef = std::shared_ptr<LogCopy>;

}  // namespace gd2fs::disk
