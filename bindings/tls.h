// TLS: its settings as Python gives them, one dict.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "../core/transport/tls.h"

namespace gd2fs::bindings {

/// Keys: cert, key, ca, name (texts), are_clients_required; all may be left out.
inline tls::Settings tls_of(const nanobind::dict& words) {
  namespace nb = nanobind;
  tls::Settings settings;
  const auto text = [&](const char* key) {
    return words.contains(key) ? std::string(nb::str(words[key]).c_str()) : std::string();
  };
  settings.cert = text("cert");
  settings.key = text("key");
  settings.ca = text("ca");
  settings.name = text("name");
  settings.are_clients_required =
      words.contains("are_clients_required") && nb::cast<bool>(words["are_clients_required"]);
  return settings;
}

}  // namespace gd2fs::bindings
