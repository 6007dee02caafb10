#include "network.h"

#include <arpa/inet.h>
#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "transport/unix.h"

namespace gd2fs {

namespace {

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

Result<std::unique_ptr<Network>> Network::open(const ClientOptions& options) {
  if (Error fault = options_fault(options); !fault.message.empty()) return fault;
  LinkOptions link_options;
  link_options.hello.cluster = options.cluster;
  link_options.hello.capabilities = wire::SPLICE_HOLDS;
  static_cast<void>(!getrandom(link_options.hello.client_id.data(), 16, 0));
  link_options.connect_ms = options.connect_ms;
  link_options.is_verifying = options.is_verifying;
  link_options.transport = options.transport;
  link_options.sockets = options.sockets;
  auto local = resolve_local(options.local);
  if (!local) return local.error();
  link_options.local = std::move(*local);
  link_options.streams =
      std::max(options.streams, static_cast<std::uint32_t>(link_options.local.size()));

  auto from = bootstrap(options, link_options.hello);
  if (!from) return from.error();
  link_options.hello.list_hash = from->map.list_hash;
  link_options.hello.map_epoch = from->map.epoch;
  auto network = std::make_unique<Network>(options);
  for (std::uint32_t at = 0; at < options.io_threads; ++at)
    network->threads_.push_back(std::make_unique<IoThread>());
  if (Error fault = network->add_links(*from, std::move(link_options)); !fault.message.empty())
    return fault;
  return network;
}

Error Network::add_links(const Bootstrapped& from, LinkOptions link_options) {
  map_ = from.map;
  stream_count_ = link_options.streams;
  for (const wire::MapNode& node : map_.nodes) {
    placed_.push_back({node.id, node.weight});
    if (Error fault = add_link(node, from.host, link_options); !fault.message.empty()) return fault;
  }
  return {};
}

/// A node whose addresses cannot be resolved gets a link without any: it counts as down.
Error Network::add_link(const wire::MapNode& node, const std::string& seed_host,
                        const LinkOptions& link_options) {
  Advertised advertised = parse_advertised(node.addresses);
  std::vector<tcp::HostPort> hosts;
  bool has_names = false;
  for (const std::string& text : advertised.addresses) {
    auto host = tcp::parse_host_port(text);
    if (!host) return host.error();
    if (is_wildcard(host->host)) host->host = seed_host;
    has_names = has_names || !is_numeric(host->host);
    hosts.push_back(std::move(*host));
  }
  std::function<void()> on_down;
  if (has_names) {
    // A name may stand for another address by now: a container that came back elsewhere.
    on_down = [this, at = links_.size()] { resolver_->post([this, at] { look_up(at); }); };
    if (resolver_ == nullptr) resolver_ = std::make_unique<IoThread>();
  }
  LinkOptions options = link_options;
  options.node_id = node.id;
  options.socket_name = local::socket_name(options_.cluster, map_.list_hash, node.addresses);
  links_.push_back(std::make_unique<Link>(std::move(advertised.name), resolve_all(hosts),
                                          std::move(options), threads_, links_.size(),
                                          std::move(on_down)));
  hosts_.push_back(std::move(hosts));
  return {};
}

void Network::look_up(std::size_t node) {
  std::vector<tcp::Address> addresses = resolve_all(hosts_[node]);
  if (!addresses.empty()) links_[node]->move_to(std::move(addresses));
}

void Network::after(std::int64_t delay_ms, std::function<void()> task) {
  IoThread& thread = *threads_[next_thread_.fetch_add(1) % threads_.size()];
  thread.post_at(now_ms() + delay_ms, std::move(task));
}

void Network::cancel(const std::shared_ptr<OperationState>& operation) {
  for (const auto& link : links_) link->cancel(operation);
}

void Network::call_ends() {
  if (calls_.fetch_sub(1) != 1) return;
  const std::lock_guard lock(mutex_);
  idle_.notify_all();
}

void Network::close() {
  if (is_closed_) return;
  is_closed_ = true;
  for (const auto& link : links_) link->close();
  for (const auto& thread : threads_) thread->hurry();
  {
    std::unique_lock lock(mutex_);
    idle_.wait_for(lock, CLOSE_WAIT, [this] { return calls_.load() == 0; });
  }
  for (const auto& thread : threads_) thread->stop();
  if (resolver_ != nullptr) resolver_->stop();
  // Nothing runs any more. Tasks that hold calls go with the threads.
}

Network::~Network() {
  close();
  links_.clear();
}

}  // namespace gd2fs
