// Devices: how Python says in which way bytes of GPUs travel.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "../core/client.h"

namespace gd2fs::bindings {

/// Of `bounce_bytes`, `is_load_direct`, `is_save_direct` and `checked_one_in`; what is not there
/// stays as it is.
inline DeviceSettings devices_of(const nanobind::dict& words) {
  namespace nb = nanobind;
  DeviceSettings settings;
  const auto take = [&]<class Kind>(const char* key, Kind& value) {
    if (words.contains(key)) value = nb::cast<Kind>(words[key]);
  };
  take("bounce_bytes", settings.bounce_bytes);
  take("is_load_direct", settings.is_load_direct);
  take("is_save_direct", settings.is_save_direct);
  take("checked_one_in", settings.checked_one_in);
  return settings;
}

}  // namespace gd2fs::bindings
