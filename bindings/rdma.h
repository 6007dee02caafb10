// RDMA: how Python says what one-sided transfers a side takes part in.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "../core/rdma.h"
#include "fault.h"

namespace gd2fs::bindings {

/// Of `use` (auto, on, off), `library` and `transports`; what is not there stays as it is.
inline RdmaSettings rdma_of(const nanobind::dict& words) {
  namespace nb = nanobind;
  RdmaSettings settings;
  const auto text = [&](const char* key, const std::string& otherwise) {
    return words.contains(key) ? std::string(nb::str(words[key]).c_str()) : otherwise;
  };
  const std::string use = text("use", "auto");
  if (use != "auto" && use != "on" && use != "off")
    raise(FaultKind::invalid_request, "`" + use + "` is no way to use RDMA",
          "one of `auto`, `on`, `off`");
  settings.use = use == "on" ? Rdma::on : use == "off" ? Rdma::off : Rdma::automatic;
  settings.ucx.library = text("library", "");
  settings.ucx.transports = text("transports", settings.ucx.transports);
  return settings;
}

}  // namespace gd2fs::bindings
