// Planted faults: what the checks of the whole system have to find. Only in a build with
// -DGD2FS_PLANTED_FAULTS=ON, and only the one that GD2FS_PLANTED_FAULT names.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace gd2fs {

#ifdef GD2FS_PLANTED_FAULTS
inline bool is_planted(std::string_view fault) {
  static const char* const named = std::getenv("GD2FS_PLANTED_FAULT");
  return named != nullptr && fault == named;
}
#else
constexpr bool is_planted(std::string_view) { return false; }
#endif

/// True for one call in `each` of a planted fault: most of what is done goes well.
inline bool is_planted_now(std::string_view fault, std::uint32_t each) {
  if (!is_planted(fault)) return false;
  static std::atomic<std::uint32_t> calls{0};
  return calls.fetch_add(1, std::memory_order_relaxed) % each == each - 1;
}

}  // namespace gd2fs
