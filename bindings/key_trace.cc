#include "key_trace.h"

#include <cstring>

#include "fault.h"

namespace nb = nanobind;

namespace gd2fs::bindings {

serve::KeyTrace::Naming naming_of(const nb::bytes& key, std::string name_space) {
  serve::KeyTrace::Naming naming;
  if (key.size() != sizeof naming.key) {
    raise(FaultKind::invalid_request,
          "the key of a recording is " + std::to_string(key.size()) + " bytes, not 16", "");
  }
  std::memcpy(naming.key.data(), key.c_str(), sizeof naming.key);  // as long as was checked
  naming.name_space = std::move(name_space);
  return naming;
}

nb::tuple taken_tuple(const serve::KeyTrace::Taken& taken) {
  // Entries have no padding: what Python reads is what src/gd2fs/key_trace/entries.py says.
  const auto* bytes = reinterpret_cast<const char*>(taken.entries.data());
  const std::size_t count = taken.entries.size() * sizeof(serve::KeyTrace::Entry);
  return nb::make_tuple(nb::bytes(bytes, count), taken.is_more, taken.dropped);
}

}  // namespace gd2fs::bindings
