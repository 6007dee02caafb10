// Key trace: how Python begins a recording of what is asked, and what it takes.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "../core/key_trace.h"

namespace gd2fs::bindings {

/// `key`: 16 random bytes. Raises InvalidRequest.
serve::KeyTrace::Naming naming_of(const nanobind::bytes& key, std::string name_space);
/// entries as bytes, are there more, how many keys were left out
nanobind::tuple taken_tuple(const serve::KeyTrace::Taken& taken);

}  // namespace gd2fs::bindings
