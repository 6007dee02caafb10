// Moving cluster: nodes in this process whose map changes, and what they have.
#pragma once

#include <atomic>

#include "local_cluster.h"
#include "name.h"

namespace gd2fs {

class MovingCluster {
 public:
  static constexpr std::uint32_t WEIGHT = 16;

  /// The first map has the first `members` of them.
  MovingCluster(std::size_t nodes, std::size_t members, std::uint8_t replicas,
                std::size_t arena_bytes = 64 * MiB, wire::Provider provider = wire::Provider::etcd)
      : arena_bytes_(arena_bytes) {
    map_.epoch = 1;
    map_.provider = provider;
    map_.list_hash[0] = std::byte{7};
    map_.replicas = replicas;
    for (std::size_t at = 0; at < nodes; ++at) {
      wire::MapNode entry;
      const std::string name = "node-" + std::to_string(at);
      const std::string address = "127.0.0.1:" + std::to_string(free_port());
      entry.id = node_id(name);
      entry.boot = 100 + at;
      entry.weight = WEIGHT;
      entry.addresses = name + "=" + address;
      addresses_.push_back(address);
      all_.push_back(entry);
      if (provider == wire::Provider::fixed) entry.boot = 0;  // a list does not know it
      if (at < members) map_.nodes.push_back(entry);
    }
    servers_.resize(nodes);
    for (std::size_t at = 0; at < members; ++at) start(at);
  }

  ServerOptions options_of(std::size_t at) const {
    ServerOptions options;
    options.cluster = "test";
    options.name = "node-" + std::to_string(at);
    options.listen = {addresses_[at]};
    options.map = map_;
    options.boot = all_[at].boot;
    options.threads = 1;
    options.store.arena.bytes = arena_bytes_;
    options.store.arena.rung = Rung::plain;
    return options;
  }

  void start(std::size_t at) { start(at, options_of(at)); }
  void start(std::size_t at, const ServerOptions& options) {
    auto server = Server::start(options);
    REQUIRE_MESSAGE(server, (server ? "" : server.error().message));
    servers_[at] = std::move(*server);
    servers_[at]->set_lease(INT64_MAX);
  }

  void stop(std::size_t at) { servers_[at] = nullptr; }
  Server& server(std::size_t at) { return *servers_[at]; }
  bool is_running(std::size_t at) const { return servers_[at] != nullptr; }
  const wire::Map& map() const { return map_; }
  const std::string& address(std::size_t at) const { return addresses_[at]; }

  // The next map; `apply` tells it to all nodes that run.
  void add(std::size_t at, std::uint32_t weight = WEIGHT) {
    all_[at].weight = weight;
    map_.nodes.push_back(all_[at]);
  }
  wire::MapNode& entry(std::size_t at) {
    return *std::find_if(map_.nodes.begin(), map_.nodes.end(),
                         [&](const wire::MapNode& each) { return each.id == all_[at].id; });
  }
  void drain(std::size_t at) { entry(at).state = wire::NodeState::draining; }
  void remove(std::size_t at) {
    std::erase_if(map_.nodes, [&](const wire::MapNode& each) { return each.id == all_[at].id; });
  }
  void set_replicas(std::uint8_t replicas) { map_.replicas = replicas; }
  void apply() {
    ++map_.epoch;
    for (const auto& server : servers_) {
      if (server != nullptr) server->apply_map(map_, false);
    }
  }

  bool is_settled() {
    return eventually([&] {
      return std::all_of(servers_.begin(), servers_.end(), [&](const auto& server) {
        if (server == nullptr) return true;
        const ServerCounts counts = server->counts();
        return counts.epoch == map_.epoch && counts.is_settled && counts.moves_left == 0;
      });
    });
  }

  /// Which nodes own a name by the map in force, best first: numbers of nodes.
  std::vector<std::size_t> owners(const std::string& name, std::uint64_t chunk = 0) const {
    std::vector<std::size_t> numbers;
    const Placement placement(map_);
    for (const std::uint32_t at : placement.owners(name, chunk, placement.replicas(name))) {
      const std::string& text = map_.nodes[at].addresses;
      numbers.push_back(std::stoul(text.substr(5, text.find('=') - 5)));
    }
    return numbers;
  }

  /// A client that knows of this node alone: what it answers is there.
  std::unique_ptr<Client> client_of(std::size_t at) const {
    ClientOptions options;
    options.seeds = {addresses_[at]};
    options.cluster = "test";
    options.transport = Transport::tcp;
    return LocalCluster::client(options);
  }

  std::uint64_t sum(std::uint64_t ServerCounts::*count) {
    std::uint64_t all = 0;
    for (const auto& server : servers_) all += server == nullptr ? 0 : server->counts().*count;
    return all;
  }
  std::uint64_t pages() {
    std::uint64_t all = 0;
    for (const auto& server : servers_) all += server == nullptr ? 0 : server->counts().store.pages;
    return all;
  }

 private:
  std::size_t arena_bytes_;
  wire::Map map_;
  std::vector<wire::MapNode> all_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<Server>> servers_;
};

}  // namespace gd2fs
