// Modules: what each file of this folder adds to gd2fs._core.
#pragma once

#include <nanobind/nanobind.h>

namespace gd2fs::bindings {

void bind_bench(nanobind::module_& module);
void bind_client(nanobind::module_& module);
void bind_view(nanobind::module_& module);
void bind_rdma(nanobind::module_& module);
void bind_server(nanobind::module_& module);
void bind_simulation(nanobind::module_& module);

}  // namespace gd2fs::bindings
