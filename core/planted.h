// Planted faults: what the checks of the whole system have to find. Only in a build with
// -DGD2FS_PLANTED_FAULTS=ON, and only the one that GD2FS_PLANTED_FAULT names.
#pragma once

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

}  // namespace gd2fs
