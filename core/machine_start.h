// Machine start: which start of this machine it is, and when that was.
//
// Times to live are noted by a clock that begins anew with the machine. What is kept longer notes
// the machine's start beside them.
#pragma once

#include <array>
#include <cstdint>

namespace gd2fs {

struct MachineStart {
  std::array<std::uint8_t, 16> id{};  // the kernel's; all zero: not known
  std::int64_t began_ms = 0;          // CLOCK_REALTIME when CLOCK_BOOTTIME was 0

  static MachineStart now();
  bool is_same(const MachineStart& other) const noexcept { return id == other.id && is_known(); }
  bool is_known() const noexcept { return id != std::array<std::uint8_t, 16>{}; }
  /// A time of `other`'s CLOCK_BOOTTIME on that of this start.
  std::int64_t time_of(std::int64_t boottime_ms, const MachineStart& other) const noexcept {
    return boottime_ms + (is_same(other) ? 0 : other.began_ms - began_ms);
  }
};

}  // namespace gd2fs
