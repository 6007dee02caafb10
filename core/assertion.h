// Assertion: a check of our own reasoning, never of input. It stays on in production: a broken rule
// ends the process before it can give out wrong bytes.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace gd2fs {

[[noreturn]] inline void assertion_failed(const char* rule, const char* file, int line) noexcept {
  std::fprintf(stderr, "gd2fs: broken rule `%s` at %s:%d\n", rule, file, line);
  std::abort();
}

}  // namespace gd2fs

#define GD2FS_ASSERT(rule) \
  (static_cast<bool>(rule) ? void(0) : ::gd2fs::assertion_failed(#rule, __FILE__, __LINE__))
