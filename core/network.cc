#include "network.h"

#include <arpa/inet.h>
#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "transport/unix.h"

namespace gd2fs {

namespace {

constexpr std::size_t HINTS_MAX = 64;  // a node that is silent keeps each for seconds
constexpr std::size_t IO_THREADS_MAX = 64;
constexpr std::size_t STREAMS_MAX = 64;
constexpr auto CLOSE_WAIT = std::chrono::seconds(10);

Error options_fault(const ClientOptions& options) {
  if (options.io_threads == 0 || options.io_threads > IO_THREADS_MAX)
    return {"io_threads is " + std::to_string(options.io_threads),
            "choose 1 to " + std::to_string(IO_THREADS_MAX)};
  if (options.streams == 0 || options.streams > STREAMS_MAX)
    return {"streams is " + std::to_string(options.streams),
            "choose 1 to " + std::to_string(STREAMS_MAX)};
  if (options.timeout_ms == 0 || options.connect_ms == 0)
    return {"a timeout is 0 ms", "every wait needs a deadline: choose 1 ms or more"};
  if (options.local.size() > STREAMS_MAX)
    return {std::to_string(options.local.size()) + " local addresses",
            "name at most " + std::to_string(STREAMS_MAX)};
  if (options.cluster.size() > CLUSTER_BYTES_MAX)
    return {"the cluster's name has " + std::to_string(options.cluster.size()) + " bytes",
            "use at most " + std::to_string(CLUSTER_BYTES_MAX)};
  return tcp::settings_fault(options.sockets);
}

bool is_wildcard(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

/// The parts of `NAME=ADDR:PORT+ADDR:PORT`.
struct Advertised {
  std::string name;
  std::vector<std::string> addresses;
};

Advertised parse_advertised(const std::string& text) {
  Advertised out;
  const std::size_t equals = text.find('=');
  std::size_t at = 0;
  if (equals != std::string::npos) {
    out.name = text.substr(0, equals);
    at = equals + 1;
  }
  while (at < text.size()) {
    const std::size_t plus = std::min(text.find('+', at), text.size());
    if (plus > at) out.addresses.push_back(text.substr(at, plus - at));
    at = plus + 1;
  }
  return out;
}

bool is_numeric(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

/// Of all hosts whose names are known. May wait for the name service.
std::vector<tcp::Address> resolve_all(const std::vector<tcp::HostPort>& hosts) {
  std::vector<tcp::Address> out;
  for (const tcp::HostPort& host : hosts) {
    auto addresses = tcp::resolve(host);
    if (addresses) out.insert(out.end(), addresses->begin(), addresses->end());
  }
  return out;
}

/// One that the machine does not have now may come back; with none there is nothing to begin with.
Result<std::vector<tcp::Address>> resolve_local(const std::vector<std::string>& local) {
  std::vector<tcp::Address> out;
  int fault = 0;
  std::size_t fault_count = 0;
  for (const std::string& text : local) {
    auto target = tcp::parse_host_port(text);
    if (!target) return target.error();
    auto addresses = tcp::resolve(*target);
    if (!addresses) return addresses.error();
    out.push_back(addresses->front());
    const int fault_here = tcp::bind_fault(out.back());
    if (fault_here == 0) continue;
    fault = fault_here;
    ++fault_count;
  }
  if (fault_count == 0 || fault_count < out.size()) return out;
  return Error{
      "`tcp://" + local.back() + "` is not an address of this machine: " + std::strerror(fault),
      "name a local IP address, `ip address` lists them, or leave it out", Status::invalid};
}

}  // namespace

Result<std::unique_ptr<Network>> Network::with_threads(const ClientOptions& options,
                                                       const wire::Hello& hello) {
  if (Error fault = options_fault(options); !fault.message.empty()) return fault;
  auto local = resolve_local(options.local);
  if (!local) return local.error();
  auto network = std::make_unique<Network>(options);
  LinkOptions& links = network->link_options_;
  links.tls = options.tls_context;
  if (options.tls.is_on()) {
    auto secured = tls::Context::open(options.tls);
    if (!secured) return secured.error();
    links.tls = std::move(*secured);
  }
  const bool is_open = options.transport == Transport::automatic;
  const bool is_rdma = options.transport == Transport::rdma;
  auto rdma = open_rdma({is_rdma   ? Rdma::on
                         : is_open ? options.rdma.use
                                   : Rdma::off,
                         options.rdma.ucx},
                        links.tls != nullptr);
  if (!rdma) return rdma.error();
  if (rdma->context != nullptr)
    links.registrations =
        std::make_shared<Registrations>(rdma->context, options.rdma.is_direct_by_any);
  links.hello = hello;
  links.hello.cluster = options.cluster;
  links.hello.capabilities = wire::SPLICE_HOLDS;
  links.connect_ms = options.connect_ms;
  links.is_verifying = options.is_verifying;
  links.transport = options.transport;
  links.sockets = options.sockets;
  links.token = options.token;
  links.local = std::move(*local);
  links.streams = std::max(options.streams, static_cast<std::uint32_t>(links.local.size()));
  network->stream_count_ = links.streams;
  return network;
}

Result<std::unique_ptr<Network>> Network::open(const ClientOptions& options) {
  wire::Hello hello;
  static_cast<void>(!getrandom(hello.client_id.data(), hello.client_id.size(), 0));
  auto network = with_threads(options, hello);
  if (!network) return network;
  const LinkOptions& links = (*network)->link_options_;
  auto from = bootstrap(options, links.hello, links.tls);
  if (!from) return from.error();
  if (Placement(from->map).is_empty())
    return Error{"no node belongs to cluster `" + options.cluster + "` now",
                 "wait until one has joined: `gd2fs cluster status` says so", Status::unavailable};
  (*network)->begin(from->map, std::move(from->host), std::move(from->name));
  if (options.devices.bounce_bytes == 0) return network;
  Network* const own = network->get();
  own->bouncer_ = std::make_unique<Bouncer>(
      options.devices, links.registrations,
      [own](std::size_t node, RpcRef rpc) { own->link(node).submit({rpc}); });
  return network;
}

Result<std::unique_ptr<Network>> Network::open_within(const ClientOptions& options,
                                                      const wire::Map& map, const NodeId& self) {
  wire::Hello hello;
  hello.client_id = self;
  hello.stream_class = wire::StreamClass::node;
  auto network = with_threads(options, hello);
  if (network) (*network)->begin(map, {}, {});
  return network;
}

void Network::begin(const wire::Map& map, std::string seed_host, std::string seed_name) {
  link_options_.hello.list_hash = map.list_hash;
  link_options_.hello.map_epoch = map.epoch;
  link_options_.on_map = [this](const wire::Map& newer) { take_map(newer); };
  seed_host_ = std::move(seed_host);
  seed_name_ = std::move(seed_name);
  for (std::uint32_t at = 0; at < options_.io_threads; ++at)
    threads_.push_back(std::make_unique<IoThread>());
  take_map(map);
}

void Network::take_map(const wire::Map& map) {
  const std::lock_guard lock(map_mutex_);
  if (routes_ != nullptr && map.epoch <= routes_->map.epoch) return;
  auto routes = std::make_shared<Routes>();
  routes->map = map;
  routes->placement = Placement(map);
  // All have left, or their leases are over: whoever is there still is reached by the map before.
  if (routes_ != nullptr && routes->placement.is_empty()) return;
  routes->since_ms = now_ms();
  std::vector<bool> is_member(links_.size());
  for (const wire::MapNode& node : map.nodes) {
    const bool is_gone = node.state == wire::NodeState::gone;
    if (!is_gone && node.state != wire::NodeState::active) ++routes->moving_count;
    const std::size_t slot = slot_of(node);
    is_member.resize(links_.size());
    is_member[slot] = !is_gone;
    routes->slots.push_back(slot);
    routes->links.push_back(is_gone ? nullptr : links_[slot].get());
  }
  routes_ = std::move(routes);
  for (std::size_t slot = 0; slot < links_.size(); ++slot)
    is_member[slot] ? links_[slot]->rejoin() : links_[slot]->leave();
}

std::size_t Network::slot_of(const wire::MapNode& node) {
  const auto known = slots_.find(node.id);
  if (known == slots_.end()) return add_link(node);
  const Advertised advertised = parse_advertised(node.addresses);
  std::vector<tcp::HostPort> hosts = hosts_of(advertised.addresses);
  if (hosts == hosts_[known->second]) return known->second;
  links_[known->second]->rename(names_of(advertised.name, hosts));
  hosts_[known->second] = std::move(hosts);
  look_up_soon(known->second);
  return known->second;
}

/// Addresses of the map that make no sense are left out; a node without any counts as down.
std::vector<tcp::HostPort> Network::hosts_of(const std::vector<std::string>& addresses) const {
  std::vector<tcp::HostPort> hosts;
  for (const std::string& text : addresses) {
    auto host = tcp::parse_host_port(text);
    if (!host) continue;
    if (is_wildcard(host->host) && !seed_host_.empty()) host->host = seed_host_;
    hosts.push_back(std::move(*host));
  }
  return hosts;
}

/// Whose certificate the node shows: its own name's, or that of a place where the map says it is.
std::vector<std::string> Network::names_of(const std::string& name,
                                           const std::vector<tcp::HostPort>& hosts) const {
  std::vector<std::string> names;
  for (const tcp::HostPort& host : hosts) {
    names.push_back(host.host);
    if (host.host == seed_host_ && seed_name_ != seed_host_) names.push_back(seed_name_);
  }
  if (!name.empty()) names.push_back(name);
  return names;
}

std::size_t Network::add_link(const wire::MapNode& node) {
  Advertised advertised = parse_advertised(node.addresses);
  std::vector<tcp::HostPort> hosts = hosts_of(advertised.addresses);
  const std::size_t slot = links_.size();
  const bool has_names = std::any_of(hosts.begin(), hosts.end(),
                                     [](const auto& host) { return !is_numeric(host.host); });
  std::function<void()> on_down;
  // A name may stand for another address by now: a container that came back elsewhere.
  if (has_names) on_down = [this, slot] { look_up_soon(slot); };
  LinkOptions options = link_options_;
  options.node_id = node.id;
  options.socket_name =
      local::socket_name(options_.cluster, link_options_.hello.list_hash, node.addresses);
  // Names are looked up before the first request when a client begins, and behind its back later.
  const bool is_first = routes_ == nullptr;
  std::vector<tcp::Address> addresses;
  if (is_first || !has_names) addresses = resolve_all(hosts);
  std::vector<std::string> names = names_of(advertised.name, hosts);
  links_.push_back(std::make_unique<Link>(std::move(advertised.name), std::move(addresses),
                                          std::move(options), threads_, slot, std::move(on_down)));
  links_.back()->rename(std::move(names));
  slots_.emplace(node.id, slot);
  hosts_.push_back(std::move(hosts));
  if (!is_first && has_names) look_up_soon(slot);
  return slot;
}

void Network::look_up_soon(std::size_t slot) {
  std::call_once(has_resolver_, [this] { resolver_ = std::make_unique<IoThread>(); });
  resolver_->post([this, slot] { look_up(slot); });
}

void Network::look_up(std::size_t slot) {
  std::vector<tcp::HostPort> hosts;
  {
    const std::lock_guard lock(map_mutex_);
    hosts = hosts_[slot];
  }
  std::vector<tcp::Address> addresses = resolve_all(hosts);
  if (!addresses.empty()) link(slot).move_to(std::move(addresses));
}

bool Routes::is_any_down(std::span<const std::uint32_t> nodes) const {
  return std::any_of(nodes.begin(), nodes.end(),
                     [this](std::uint32_t node) { return links[node]->is_down(); });
}

RoutesRef Network::routes() const {
  const std::lock_guard lock(map_mutex_);
  return routes_;
}

std::size_t Network::slot_count() const {
  const std::lock_guard lock(map_mutex_);
  return links_.size();
}

Link& Network::link(std::size_t slot) {
  const std::lock_guard lock(map_mutex_);
  return *links_[slot];
}

void Network::after(std::int64_t delay_ms, std::function<void()> task) {
  IoThread& thread = *threads_[next_thread_.fetch_add(1) % threads_.size()];
  thread.post_at(now_ms() + delay_ms, std::move(task));
}

void Network::cancel(const std::shared_ptr<OperationState>& operation) {
  for (std::size_t slot = 0; slot < slot_count(); ++slot) link(slot).cancel(operation);
}

BounceCounts Network::bounce_counts() const {
  return bouncer_ == nullptr ? BounceCounts{} : bouncer_->counts();
}

std::string Network::bounce_fault() const { return bouncer_ == nullptr ? "" : bouncer_->fault(); }

void Network::call_ends() {
  if (calls_.fetch_sub(1) != 1) return;
  const std::lock_guard lock(mutex_);
  idle_.notify_all();
}

bool Network::hint_begins() {
  if (hints_.fetch_add(1) >= HINTS_MAX) {
    hints_.fetch_sub(1);
    return false;
  }
  call_begins();
  return true;
}

void Network::hint_ends() {
  hints_.fetch_sub(1);
  call_ends();
}

void Network::close() {
  if (is_closed_) return;
  is_closed_ = true;
  if (bouncer_ != nullptr) bouncer_->hurry();
  for (std::size_t slot = 0; slot < slot_count(); ++slot) link(slot).close();
  for (const auto& thread : threads_) thread->hurry();
  {
    std::unique_lock lock(mutex_);
    idle_.wait_for(lock, CLOSE_WAIT, [this] { return calls_.load() == 0; });
  }
  for (const auto& thread : threads_) thread->stop();
  if (resolver_ != nullptr) resolver_->stop();
  if (bouncer_ != nullptr) bouncer_->stop();
  // Those that were added hold it in turn.
  if (registrations() != nullptr) registrations()->clear();
  // Nothing runs any more. Tasks that hold calls go with the threads.
}

Network::~Network() {
  close();
  links_.clear();
}

}  // namespace gd2fs
