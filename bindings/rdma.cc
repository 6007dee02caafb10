// RDMA: what a libucp is, for whoever shows it.
#include "rdma.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "../core/transport/ucx_cards.h"
#include "gil.h"
#include "modules.h"

namespace nb = nanobind;

namespace gd2fs::bindings {

namespace {

nb::tuple open_ucx(const std::string& path) {
  auto library = [&] {
    GilReleased released;
    return ucx::Library::open(path);
  }();
  if (!library) raise(library.error());
  return nb::make_tuple((*library)->path(), (*library)->version(), ucx::knows_cards(**library));
}

}  // namespace

void bind_rdma(nb::module_& module) { module.def("open_ucx", &open_ucx, nb::arg("path")); }

}  // namespace gd2fs::bindings
