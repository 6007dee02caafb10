// Simulation: gd2fs.sim's inner loop: engines, a balancer, and the product's own placement and
// eviction, over the arrays of a trace.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>
#include <vector>

#include "../core/miss_curve.h"
#include "../core/sim/fleet.h"
#include "fault.h"
#include "modules.h"

namespace nb = nanobind;

namespace gd2fs::bindings {

namespace {

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> span_of(const Array<T>& array) {
  return {array.data(), array.size()};
}

template <class T>
T get(const nb::dict& from, const char* name) {
  return nb::cast<T>(from[name]);
}

[[noreturn]] void refuse(const std::string& message) {
  raise(FaultKind::invalid_request, message, "this is a mistake of gd2fs.sim: report it");
}

/// -1: unlimited.
std::uint64_t blocks_of(const nb::dict& from, const char* name) {
  const auto blocks = get<std::int64_t>(from, name);
  return blocks < 0 ? sim::PrivateCache::UNLIMITED : static_cast<std::uint64_t>(blocks);
}

PolicyKind policy_of(const std::string& name) {
  for (const PolicyKind kind : {PolicyKind::lru, PolicyKind::s3_fifo, PolicyKind::priority})
    if (policy_name(kind) == name) return kind;
  refuse("no policy is called " + name);
}

sim::Balance balance_of(const std::string& name) {
  constexpr std::string_view NAMES[] = {"round-robin", "random", "least-loaded", "sticky",
                                        "cache-aware"};
  const auto found = std::find(std::begin(NAMES), std::end(NAMES), name);
  if (found == std::end(NAMES)) refuse("no balancer is called " + name);
  return static_cast<sim::Balance>(found - std::begin(NAMES));  // in the order of the enum
}

sim::EngineRates rates_of(const nb::dict& from) {
  sim::EngineRates rates;
  rates.token_s = get<double>(from, "token_s");
  rates.attention_s = get<double>(from, "attention_s");
  rates.prompt_s = get<double>(from, "prompt_s");
  rates.step_s = get<double>(from, "step_s");
  rates.step_request_s = get<double>(from, "step_request_s");
  rates.step_token_s = get<double>(from, "step_token_s");
  rates.chunk_tokens = get<std::uint32_t>(from, "chunk_tokens");
  rates.requests_max = get<std::uint32_t>(from, "requests_max");
  rates.tokens_max = get<std::uint64_t>(from, "tokens_max");
  return rates;
}

sim::ClusterOptions cluster_of(const nb::dict& from) {
  sim::ClusterOptions store;
  store.nodes = get<std::vector<std::string>>(from, "nodes");
  store.weights = get<std::vector<std::uint32_t>>(from, "weights");
  if (store.nodes.empty() || store.nodes.size() != store.weights.size())
    refuse("a store needs nodes, and a weight for each");
  store.name_space = get<std::string>(from, "namespace");
  store.policy = policy_of(get<std::string>(from, "policy"));
  store.memory_blocks = blocks_of(from, "memory_blocks");
  store.disk_blocks = blocks_of(from, "disk_blocks");
  store.replicas = get<std::uint32_t>(from, "replicas");
  store.may_die = get<bool>(from, "may_die");
  store.node_bytes_per_s = get<double>(from, "node_bytes_per_s");
  store.disk_read_bytes_per_s = get<double>(from, "disk_read_bytes_per_s");
  store.disk_write_bytes_per_s = get<double>(from, "disk_write_bytes_per_s");
  return store;
}

sim::FleetOptions fleet_of(const nb::dict& from) {
  sim::FleetOptions fleet;
  fleet.instances = get<std::uint32_t>(from, "instances");
  if (fleet.instances == 0 || fleet.instances > sim::INSTANCES_MAX)
    refuse("there are " + std::to_string(fleet.instances) + " instances");
  fleet.balance = balance_of(get<std::string>(from, "balancer"));
  fleet.seed = get<std::uint64_t>(from, "seed");
  fleet.engine = rates_of(get<nb::dict>(from, "engine"));
  fleet.device_blocks = blocks_of(from, "device_blocks");
  fleet.host_blocks = blocks_of(from, "host_blocks");
  fleet.slots = get<std::uint32_t>(from, "slots");
  fleet.block_bytes = get<double>(from, "block_bytes");
  fleet.host_bytes_per_s = get<double>(from, "host_bytes_per_s");
  fleet.engine_bytes_per_s = get<double>(from, "engine_bytes_per_s");
  fleet.load_s = get<double>(from, "load_s");
  fleet.never_slower = get<bool>(from, "never_slower");
  if (!from["store"].is_none()) fleet.store = cluster_of(get<nb::dict>(from, "store"));
  for (const auto& [from_s, count] :
       get<std::vector<std::pair<double, std::uint32_t>>>(from, "tide"))
    fleet.tide.push_back({from_s, std::clamp(count, 1u, fleet.instances)});
  for (const auto& [at_s, node] :
       get<std::vector<std::pair<double, std::uint32_t>>>(from, "deaths")) {
    if (!fleet.store || node >= fleet.store->nodes.size()) refuse("no such node can die");
    fleet.deaths.push_back({at_s, node});
  }
  fleet.workers = get<std::uint32_t>(from, "workers");
  fleet.turn_s = get<double>(from, "turn_s");
  fleet.bin_s = get<double>(from, "bin_s");
  return fleet;
}

template <class T>
std::span<const T> array_of(const nb::dict& arrays, const char* name) {
  // The dict keeps the array that the span looks into.
  return span_of(nb::cast<Array<T>>(arrays[name], false));
}

sim::Trace trace_of(const nb::dict& arrays) {
  sim::Trace trace;
  trace.arrives_s = array_of<double>(arrays, "arrives_s");
  trace.input_tokens = array_of<std::uint32_t>(arrays, "input_tokens");
  trace.output_tokens = array_of<std::uint32_t>(arrays, "output_tokens");
  trace.first_block = array_of<std::uint64_t>(arrays, "first_block");
  trace.prompt_blocks = array_of<std::uint32_t>(arrays, "prompt_blocks");
  trace.blocks = array_of<std::uint32_t>(arrays, "blocks");
  trace.session = array_of<std::uint32_t>(arrays, "session");
  trace.instance = array_of<std::int32_t>(arrays, "instance");
  trace.node = array_of<std::uint16_t>(arrays, "node");
  trace.measured_first_s = array_of<double>(arrays, "measured_first_s");
  trace.measured_done_s = array_of<double>(arrays, "measured_done_s");
  trace.node_count = get<std::uint32_t>(arrays, "node_count");
  trace.block_tokens = get<std::uint32_t>(arrays, "block_tokens");
  trace.block_count = get<std::uint32_t>(arrays, "block_count");
  const std::size_t count = trace.size();
  const bool is_whole = trace.input_tokens.size() == count && trace.output_tokens.size() == count &&
                        trace.first_block.size() == count + 1 &&
                        trace.prompt_blocks.size() == count && trace.session.size() == count &&
                        (trace.instance.empty() || trace.instance.size() == count) &&
                        (trace.node.empty() || trace.node.size() == count) &&
                        (trace.measured_done_s.empty() || trace.measured_done_s.size() == count) &&
                        trace.measured_first_s.size() == trace.measured_done_s.size() &&
                        trace.first_block.back() <= trace.blocks.size() && count < sim::NO_REQUEST;
  if (!is_whole) refuse("the arrays of a trace do not fit each other");
  for (std::size_t at = 0; at < count; ++at) {
    const bool is_sound =
        trace.first_block[at] <= trace.first_block[at + 1] &&
        trace.prompt_blocks[at] <= trace.first_block[at + 1] - trace.first_block[at] &&
        (trace.instance.empty() || trace.instance[at] >= 0) &&
        (trace.node.empty() || trace.node[at] < trace.node_count);
    if (!is_sound) refuse("request " + std::to_string(at) + " of a trace has no sound blocks");
  }
  for (const sim::Block block : trace.blocks)
    if (block >= trace.block_count) refuse("a trace has a block beyond its count");
  return trace;
}

/// A trace, checked, and the fleet that it is played to. The arrays stay as long as this.
class Simulation {
 public:
  Simulation(const nb::dict& options, nb::dict arrays)
      : arrays_(std::move(arrays)), fleet_(fleet_of(options), trace_of(arrays_)) {}

  bool run(std::size_t requests) {
    nb::gil_scoped_release released;
    return fleet_.run(requests);
  }

  std::size_t answered() const { return fleet_.answered(); }
  nb::dict counts() const;
  nb::list links() const;
  nb::dict gaps(const std::vector<double>& shares) const;
  nb::list bins() const;

  template <class T>
  static nb::bytes raw(const std::vector<T>& values) {
    return nb::bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  nb::bytes first_token_s() const { return raw(fleet_.first_token_s()); }
  nb::bytes done_s() const { return raw(fleet_.done_s()); }
  nb::bytes found_blocks() const { return raw(fleet_.found_blocks()); }
  nb::bytes instance_of() const { return raw(fleet_.instance_of()); }

 private:
  nb::dict arrays_;
  sim::Fleet fleet_;
};

/// Of the whole trace as one stream: the shares of blocks that caches of these sizes find, and of
/// all blocks the share that was followed.
std::pair<std::vector<double>, double> miss_curve(const nb::dict& arrays,
                                                  const std::vector<double>& sizes,
                                                  std::size_t samples_max, std::uint64_t seed) {
  const sim::Trace trace = trace_of(arrays);
  const nb::gil_scoped_release released;
  MissCurve curve(samples_max, seed);
  for (sim::Request request = 0; request < trace.size(); ++request) {
    for (const sim::Block block : trace.prompt_of(request)) curve.look(block);
    const auto all = trace.all_of(request);
    for (std::size_t at = all.size(); at-- > 0;) curve.use(all[at]);
  }
  std::vector<double> shares;
  for (const double size : sizes) shares.push_back(curve.share_within(size));
  return {shares, curve.sampled_share()};
}

nb::dict Simulation::counts() const {
  const sim::FleetCounts& counts = fleet_.counts();
  nb::dict dict;
  dict["asked_blocks"] = counts.asked_blocks;
  dict["device_blocks"] = counts.found.device;
  dict["host_blocks"] = counts.found.host;
  dict["memory_blocks"] = counts.found.memory;
  dict["disk_blocks"] = counts.found.disk;
  dict["declined_blocks"] = counts.declined_blocks;
  dict["input_tokens"] = counts.input_tokens;
  dict["found_tokens"] = counts.found_tokens;
  dict["output_tokens"] = counts.output_tokens;
  dict["computed_s"] = counts.computed_s;
  dict["saved_s"] = counts.saved_s;
  dict["ended_s"] = counts.ended_s;
  std::uint64_t device = 0, host = 0;
  nb::list busy;
  for (const sim::Fleet::Instance& each : fleet_.instances()) {
    device += each.device.evicted();
    host += each.host.evicted() + each.slots.evicted();
    busy.append(each.engine.busy_s);
  }
  dict["device_evicted"] = device;
  dict["host_evicted"] = host;
  dict["busy_s"] = busy;
  return dict;
}

nb::list Simulation::links() const {
  nb::list list;
  const auto add = [&](const char* kind, std::size_t at, double in, double out) {
    list.append(nb::make_tuple(kind, at, in, out));
  };
  for (std::size_t at = 0; at < fleet_.instances().size(); ++at) {
    const auto& each = fleet_.instances()[at];
    add("engine", at, each.in.bytes(), each.out.bytes());
    add("host", at, each.from_host.bytes(), 0);
  }
  if (fleet_.store() == nullptr) return list;
  const auto& nodes = fleet_.store()->nodes();
  for (std::size_t at = 0; at < nodes.size(); ++at) {
    add("node", at, nodes[at].in.bytes(), nodes[at].out.bytes());
    add("disk", at, nodes[at].disk_write.bytes(), nodes[at].disk_read.bytes());
    const sim::StoreCounts& counts = nodes[at].cache.counts();
    add("evicted", at, static_cast<double>(counts.evicted),
        static_cast<double>(counts.disk_dropped));
  }
  return list;
}

nb::dict Simulation::gaps(const std::vector<double>& shares) const {
  nb::dict dict;
  dict["mean"] = fleet_.gaps().mean_s();
  dict["max"] = fleet_.gaps().max_s();
  nb::list quantiles;
  for (const double share : shares) quantiles.append(fleet_.gaps().quantile_s(share));
  dict["quantiles"] = quantiles;
  return dict;
}

nb::list Simulation::bins() const {
  nb::list list;
  for (const sim::Bin& bin : fleet_.bins()) {
    list.append(nb::make_tuple(bin.requests, bin.asked_blocks, bin.found_blocks, bin.first_token_s,
                               bin.answered, bin.busy_s));
  }
  return list;
}

}  // namespace

void bind_simulation(nb::module_& module) {
  module.attr("SIM_INSTANCES_MAX") = sim::INSTANCES_MAX;
  module.def("miss_curve", &miss_curve, nb::arg("arrays"), nb::arg("sizes"), nb::arg("samples_max"),
             nb::arg("seed"), "Shares of a trace's blocks that LRU caches of these sizes find.");
  nb::class_<Simulation>(module, "Simulation")
      .def(nb::init<const nb::dict&, nb::dict>(), nb::arg("options"), nb::arg("arrays"))
      .def("run", &Simulation::run, nb::arg("requests"))
      .def_prop_ro("answered", &Simulation::answered)
      .def("counts", &Simulation::counts)
      .def("links", &Simulation::links)
      .def("gaps", &Simulation::gaps, nb::arg("shares"))
      .def("bins", &Simulation::bins)
      .def("first_token_s", &Simulation::first_token_s)
      .def("done_s", &Simulation::done_s)
      .def("found_blocks", &Simulation::found_blocks)
      .def("instance_of", &Simulation::instance_of)
      .def_static(
          "key_of",
          [](sim::Block block) { return nb::bytes(sim::Cluster::key_of(block).data(), 16); },
          nb::arg("block"));
}

}  // namespace gd2fs::bindings
