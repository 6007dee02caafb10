#include "view.h"

#include <nanobind/stl/shared_ptr.h>

#include "fault.h"
#include "gil.h"
#include "modules.h"

namespace nb = nanobind;

namespace gd2fs::bindings {

namespace {

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  const auto* part = nb::inst_ptr<ViewPart>(nb::handle(self));
  if (part->owner->is_released()) {
    PyErr_SetString(PyExc_ValueError, "the view is released");
    view->obj = nullptr;
    return -1;
  }
  // Nobody writes through a buffer that says it is read-only.
  auto* const at = const_cast<std::byte*>(part->bytes.data());
  const auto bytes = static_cast<Py_ssize_t>(part->bytes.size());
  if (PyBuffer_FillInfo(view, self, at, bytes, 1, flags) != 0) return -1;
  part->owner->begin_export();
  return 0;
}

void release_buffer(PyObject* self, Py_buffer*) {
  nb::inst_ptr<ViewPart>(nb::handle(self))->owner->end_export();
}

PyType_Slot part_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                            {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                            {0, nullptr}};

nb::list parts_of(const std::shared_ptr<BoundView>& view) {
  nb::list parts;
  for (const View::Part& part : view->view().parts()) parts.append(ViewPart{view, part});
  return parts;
}

}  // namespace

BoundView::~BoundView() {
  // Parts hold this: none is left, and no buffer either.
  if (view_ == nullptr) return;
  GilReleased released;
  view_.reset();
}

const View& BoundView::view() const {
  if (view_ == nullptr) raise(FaultKind::closed, "the view is released", "look at the page anew");
  return *view_;
}

void BoundView::release() {
  if (exports_ > 0) {
    PyErr_Format(PyExc_BufferError,
                 "cannot release the view: arrays or slices of it are in use (%zu); delete them "
                 "first, or copy what has to stay",
                 exports_);
    throw nb::python_error();
  }
  ViewRef view = std::move(view_);
  view_ = nullptr;
  GilReleased released;
  view.reset();
}

void bind_view(nb::module_& module) {
  nb::class_<ViewPart>(module, "ViewPart", "One run of a view's bytes, as a read-only buffer.",
                       nb::type_slots(part_slots));
  nb::class_<BoundView>(module, "View", "Bytes of the cache, read where they lie.")
      .def("parts", &parts_of)
      .def_prop_ro("bytes", [](const BoundView& view) { return view.view().bytes(); })
      .def_prop_ro("is_copy", [](const BoundView& view) { return view.view().is_copy(); })
      .def_prop_ro("is_released", &BoundView::is_released)
      .def("release", &BoundView::release);
}

}  // namespace gd2fs::bindings
