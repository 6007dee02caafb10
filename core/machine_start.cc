#include "machine_start.h"

#include <time.h>

#include <fstream>
#include <string>

namespace gd2fs {
namespace {

std::int64_t clock_ms(clockid_t clock) noexcept {
  timespec now{};
  clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

int digit_of(char letter) noexcept {
  if (letter >= '0' && letter <= '9') return letter - '0';
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

}  // namespace

MachineStart MachineStart::now() {
  MachineStart start;
  start.began_ms = clock_ms(CLOCK_REALTIME) - clock_ms(CLOCK_BOOTTIME);
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  std::size_t digits = 0;
  for (const char letter : text) {
    const int digit = digit_of(letter);
    if (digit < 0 || digits == 2 * start.id.size()) continue;
    std::uint8_t& byte = start.id[digits++ / 2];
    byte = static_cast<std::uint8_t>(byte << 4 | digit);
  }
  if (digits != 2 * start.id.size()) start.id.fill(0);
  return start;
}

}  // namespace gd2fs
