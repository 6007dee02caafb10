// Fault: raises the classes of gd2fs.errors from C++.
#pragma once

#include <string>

#include "../core/error.h"

namespace gd2fs::bindings {

enum class FaultKind { invalid_request, unavailable, closed };

/// Both need the GIL. They set the Python exception and throw nanobind's carrier of it.
[[noreturn]] void raise(FaultKind kind, const std::string& message, const std::string& hint);
[[noreturn]] void raise(const Error& error);

}  // namespace gd2fs::bindings
