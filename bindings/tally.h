// Tally: what a node counts, as Python gets it.
#pragma once

#include <nanobind/nanobind.h>

#include "../core/server.h"

namespace gd2fs::bindings {

/// See `Server.tally` in _core.pyi.
nanobind::dict tally_dict(const ServerTally& tally);
/// Tuples of op, transport, microseconds and trace; and how many there was no room for.
nanobind::dict curves_dict(const ServerCurves& curves);
nanobind::tuple slow_tuple(const serve::SlowRequests::Taken& taken);

}  // namespace gd2fs::bindings
