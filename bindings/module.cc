// Module: gd2fs._core, the native half of the Python package.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "../core/cuda.h"
#include "../core/limits.h"
#include "../core/name.h"
#include "../core/placement.h"
#include "../core/transport/interface.h"
#include "call.h"
#include "fault.h"
#include "modules.h"

namespace nb = nanobind;

namespace gd2fs::bindings {

namespace {

std::string_view text_of(const nb::bytes& text) { return {text.c_str(), text.size()}; }

nb::bytes node_id_of(const std::string& node_name) {
  NodeId id = node_id(node_name);
  return nb::bytes(id.data(), id.size());
}

std::vector<std::uint32_t> order_of(const std::vector<std::string>& names,
                                    const std::vector<std::uint32_t>& weights, nb::bytes name,
                                    std::uint64_t chunk, std::size_t count) {
  if (names.size() != weights.size()) {
    raise(
        FaultKind::invalid_request,
        std::to_string(weights.size()) + " weights for " + std::to_string(names.size()) + " nodes",
        "give one weight per node");
  }
  std::vector<PlacedNode> nodes;
  for (std::size_t i = 0; i < names.size(); ++i) nodes.push_back({node_id(names[i]), weights[i]});
  return placement_order(nodes, text_of(name), chunk, count);
}

/// Name and address of each interface that is up, but for loopback.
std::vector<std::pair<std::string, std::string>> addresses() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const tcp::Interface& each : tcp::interfaces())
    out.emplace_back(each.name, tcp::host_text(each.address));
  return out;
}

void bind_names(nb::module_& module) {
  module.def(
      "is_device_memory",
      [](std::uint64_t address, std::size_t bytes) {
        // The caller names memory by its number; nothing follows it here.
        return cuda::is_device_memory(reinterpret_cast<const void*>(address), bytes);
      },
      nb::arg("address"), nb::arg("bytes"),
      "Is all of this memory of a GPU, of a driver that this process has loaded?");
  module.def("interface_addresses", &addresses,
             "(interface, address) of this machine, but for loopback, of those that are up.");
  module.def(
      "path_fault", [](nb::bytes path) { return path_fault(text_of(path)); }, nb::arg("path"),
      "What is wrong with this path, or an empty text.");
  module.def(
      "namespace_fault", [](nb::bytes name) { return namespace_fault(text_of(name)); },
      nb::arg("namespace"), "What is wrong with this namespace, or an empty text.");
  module.def(
      "key_fault", [](nb::bytes key) { return key_fault(text_of(key)); }, nb::arg("key"),
      "What is wrong with this key of a page, or an empty text.");
  module.def("node_id", &node_id_of, nb::arg("node_name"),
             "The 16 bytes that placement hashes for a node of this name.");
  module.def("placement_order", &order_of, nb::arg("names"), nb::arg("weights"), nb::arg("name"),
             nb::arg("chunk"), nb::arg("count"),
             "Indexes of the nodes that hold this chunk of `name`, best first.");
}

void bind_limits(nb::module_& module) {
  module.attr("BATCH_ITEMS_MAX") = BATCH_ITEMS_MAX;
  module.attr("PAGE_BUFFERS_MAX") = PAGE_BUFFERS_MAX;
  module.attr("BATCH_BUFFERS_MAX") = BATCH_BUFFERS_MAX;
  module.attr("CHUNK_BYTES_DEFAULT") = CHUNK_BYTES_DEFAULT;
  module.attr("CHUNK_BYTES_MIN") = CHUNK_BYTES_MIN;
  module.attr("CHUNK_BYTES_MAX") = CHUNK_BYTES_MAX;
  module.attr("CLUSTER_BYTES_MAX") = CLUSTER_BYTES_MAX;
  module.attr("FILE_BYTES_MAX") = FILE_BYTES_MAX;
  module.attr("KEY_BYTES_MAX") = KEY_BYTES_MAX;
  module.attr("NAMESPACE_BYTES_MAX") = NAMESPACE_BYTES_MAX;
  module.attr("NODES_MAX") = NODES_MAX;
  module.attr("REPLICAS_MAX") = REPLICAS_MAX;
  module.attr("NODE_NAME_BYTES_MAX") = NODE_NAME_BYTES_MAX;
  module.attr("PAGE_BYTES_MAX") = PAGE_BYTES_MAX;
  module.attr("PATH_BYTES_MAX") = PATH_BYTES_MAX;
  module.attr("PORT_DEFAULT") = PORT_DEFAULT;
}

}  // namespace

}  // namespace gd2fs::bindings

NB_MODULE(_core, module) {
  using namespace gd2fs::bindings;
  module.doc() = "The native half of gd2fs: client, server and placement.";
  // Operations of a process that ends are not worth a warning each.
  nb::set_leak_warnings(false);
  bind_limits(module);
  bind_names(module);
  bind_call(module);
  bind_view(module);
  bind_client(module);
  bind_rdma(module);
  bind_server(module);
  bind_bench(module);
  bind_simulation(module);
}
