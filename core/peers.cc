#include "peers.h"

#include <algorithm>

namespace gd2fs::serve {
namespace {

constexpr std::uint32_t CONNECT_MS = 500;
constexpr std::uint32_t STREAMS = 2;

ClientOptions options_within(std::string cluster, tcp::SocketSettings sockets, TokenSourceRef token,
                             tls::ContextPtr secured) {
  ClientOptions options;
  options.cluster = std::move(cluster);
  options.io_threads = 1;
  options.streams = STREAMS;
  options.connect_ms = CONNECT_MS;
  options.transport = Transport::tcp;
  options.sockets = std::move(sockets);
  options.token = std::move(token);
  options.tls_context = std::move(secured);
  return options;
}

}  // namespace

Peers::Peers(std::string cluster, const NodeId& self, tcp::SocketSettings sockets,
             TokenSourceRef token, tls::ContextPtr secured)
    : options_(options_within(std::move(cluster), std::move(sockets), std::move(token),
                              std::move(secured))),
      self_(self) {}

Peers::~Peers() { close(); }

void Peers::take_map(const wire::Map& map) {
  std::shared_ptr<Network> told;
  {
    const std::lock_guard lock(mutex_);
    map_ = map;
    std::erase_if(tallies_, [&](const auto& each) {
      return std::none_of(map.nodes.begin(), map.nodes.end(),
                          [&](const wire::MapNode& node) { return node.id == each.first; });
    });
    told = network_;
  }
  if (told != nullptr) told->take_map(map);
}

/// Nothing: it is closed. The settings are those of the server, which were looked at.
std::shared_ptr<Network> Peers::network() {
  const std::lock_guard lock(mutex_);
  if (network_ != nullptr || is_closed_) return network_;
  if (auto opened = Network::open_within(options_, map_, self_)) network_ = std::move(*opened);
  return network_;
}

std::optional<std::size_t> Peers::slot_of(const Network& network, const NodeId& node) {
  const RoutesRef routes = network.routes();
  const auto& nodes = routes->map.nodes;
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const wire::MapNode& each) { return each.id == node; });
  if (found == nodes.end()) return {};
  return routes->slots[static_cast<std::size_t>(found - nodes.begin())];
}

/// From here on its end is counted. It keeps itself alive until then: `done` is run by nobody else.
void Peers::count(const NodeId& to, Rpc& rpc) {
  PeerTallyRef tally;
  {
    const std::lock_guard lock(mutex_);
    PeerTallyRef& kept = tallies_[to];
    if (kept == nullptr) kept = std::make_shared<PeerTally>();
    tally = kept;
  }
  rpc.done = [tally = std::move(tally), &rpc, began_us = now_us(), done = std::move(rpc.done)] {
    std::uint64_t sent_bytes = 0;
    if (rpc.is_upload() && !rpc.is_question) {
      for (const Body& each : rpc.bodies) sent_bytes += each.moved;
    }
    if (rpc.status != Status::cancelled) {
      const std::int64_t took_us = std::max<std::int64_t>(now_us() - began_us, 0);
      tally->ended(rpc.status == Status::ok, sent_bytes, static_cast<std::uint64_t>(took_us));
    }
    done();
  };
}

std::vector<PeerCounts> Peers::counts() const {
  std::vector<PeerCounts> all;
  std::vector<NodeId> ids;
  std::shared_ptr<Network> through;
  {
    const std::lock_guard lock(mutex_);
    through = network_;
    for (const wire::MapNode& node : map_.nodes) {
      const auto found = tallies_.find(node.id);
      if (found == tallies_.end()) continue;
      all.push_back(found->second->counts());
      all.back().name = node.addresses.substr(0, node.addresses.find('='));
      ids.push_back(node.id);
    }
  }
  for (std::size_t at = 0; through != nullptr && at < all.size(); ++at) {
    const auto slot = slot_of(*through, ids[at]);
    all[at].is_up = slot && !through->link(*slot).is_down();
  }
  return all;
}

void Peers::ask(const NodeId& to, RpcRef rpc) {
  const std::shared_ptr<Network> through = network();
  if (through == nullptr) return;
  count(to, *rpc);
  if (const auto slot = slot_of(*through, to)) {
    return through->link(*slot).submit({std::move(rpc)});
  }
  through->after(0, [rpc = std::move(rpc)] { rpc->finish(Status::unavailable); });
}

bool Peers::is_down(const NodeId& node) {
  const std::shared_ptr<Network> through = network();
  if (through == nullptr) return true;
  const auto slot = slot_of(*through, node);
  return !slot || through->link(*slot).is_down();
}

void Peers::look_now(const NodeId& node) {
  const std::shared_ptr<Network> through = network();
  if (through == nullptr) return;
  if (const auto slot = slot_of(*through, node)) through->link(*slot).look_now();
}

void Peers::after(std::int64_t delay_ms, std::function<void()> task) {
  if (const std::shared_ptr<Network> through = network()) through->after(delay_ms, std::move(task));
}

void Peers::close() {
  std::shared_ptr<Network> closing;
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    closing = std::move(network_);
    network_ = nullptr;
  }
  if (closing != nullptr) closing->close();
}

}  // namespace gd2fs::serve
