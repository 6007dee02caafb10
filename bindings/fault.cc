#include "fault.h"

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace gd2fs::bindings {

namespace {

const char* class_name(FaultKind kind) {
  switch (kind) {
    case FaultKind::invalid_request: return "InvalidRequest";
    case FaultKind::unavailable: return "Unavailable";
    case FaultKind::closed: return "Closed";
  }
  return "GD2FSError";
}

}  // namespace

void raise(FaultKind kind, const std::string& message, const std::string& hint) {
  nb::object type = nb::module_::import_("gd2fs.errors").attr(class_name(kind));
  nb::object error = type(message.c_str(), nb::arg("hint") = hint.c_str());
  PyErr_SetObject(type.ptr(), error.ptr());
  throw nb::python_error();
}

void raise(const Error& error) {
  bool is_lasting = error.status == Status::invalid || error.status == Status::denied;
  raise(is_lasting ? FaultKind::invalid_request : FaultKind::unavailable, error.message,
        error.hint);
}

}  // namespace gd2fs::bindings
