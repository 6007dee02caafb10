// Local cluster: nodes in this process on loopback, for tests of the client.
#pragma once

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "client.h"
#include "placement.h"
#include "server.h"
#include "transport/tcp.h"
#ifdef GD2FS_TEST_TLS  // the same tests, and all TCP under TLS
#include "certificates.h"
#endif
#ifdef GD2FS_TEST_RDMA  // or with all payload by one-sided transfers
#include "ucx_side.h"
#endif

namespace gd2fs {

using Memory = std::vector<std::byte>;

inline Memory random_bytes(std::size_t bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Memory out(bytes);
  for (std::size_t at = 0; at < bytes; at += 8) {
    const std::uint64_t word = random();
    std::memcpy(out.data() + at, &word, std::min<std::size_t>(8, bytes - at));  // within `out`
  }
  return out;
}

inline Buffer whole(Memory& memory) { return {memory.data(), memory.size()}; }

inline const Outcome& end_of(const OperationRef& operation) {
  REQUIRE(operation->wait(60'000));
  return operation->outcome();
}
/// Of one that nobody else has: its outcome would go with it.
inline Outcome end_of(OperationRef&& operation) {
  const OperationRef held = std::move(operation);
  return end_of(held);
}

/// Whether a port is ours from now on, until this process ends: the other tests that run on this
/// machine, and `gd2fs.testing`, take it no more, not even while its node is stopped.
inline bool claim_port(std::uint16_t port) {
  const std::string name = "gd2fs-test-port-" + std::to_string(port);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;                                 // the name begins with a 0: no file
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // 21 of 107 bytes
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int claim = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  REQUIRE(claim >= 0);
  if (::bind(claim, reinterpret_cast<const sockaddr*>(&address), bytes) == 0) return true;
  ::close(claim);
  return false;
}

/// A port that nobody has, and that no connection is given by the kernel.
inline std::uint16_t free_port() {
  static std::mt19937 random(std::random_device{}());
  for (;;) {
    const auto port = static_cast<std::uint16_t>(20'000 + random() % 12'000);
    auto address = tcp::resolve({"127.0.0.1", port});
    if (tcp::listen_at(address->front()) && claim_port(port)) return port;
  }
}

/// Until `is_true`, or ten seconds.
template <class Condition>
bool eventually(Condition is_true) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!is_true()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

class LocalCluster {
 public:
  /// `others`: entries of the map that are no nodes of this cluster. `advertised`: what the map
  /// says instead of the nodes' own addresses, `listening`.
  explicit LocalCluster(std::size_t nodes, std::size_t arena_bytes = 64 * MiB,
                        const std::vector<std::string>& advertised = {},
                        const std::vector<std::string>& listening = {}, Rung rung = Rung::plain,
                        const std::vector<std::string>& others = {})
      : arena_bytes_(arena_bytes), rung_(rung), seeds_(advertised) {
    map_.epoch = 1;
    map_.list_hash[0] = std::byte{7};
    for (std::size_t node = 0; node < nodes; ++node) {
      const std::string name = "node-" + std::to_string(node);
      addresses_.push_back(listening.empty() ? "127.0.0.1:" + std::to_string(free_port())
                                             : listening[node]);
      wire::MapNode entry;
      entry.id = node_id(name);
      if (advertised.empty()) seeds_.push_back(addresses_.back());
      entry.addresses = name + "=" + seeds_[node];
      map_.nodes.push_back(entry);
    }
    for (const std::string& text : others) {
      wire::MapNode entry;
      entry.id = node_id(text.substr(0, text.find('=')));
      entry.addresses = text;
      map_.nodes.push_back(entry);
    }
    servers_.resize(nodes);
    for (std::size_t node = 0; node < nodes; ++node) start(node);
  }

  void start(std::size_t node) {
    ServerOptions options;
    options.cluster = "test";
    options.name = "node-" + std::to_string(node);
    options.listen = {addresses_[node]};
    options.map = map_;
    options.boot = ++boots_;
    options.threads = 1;
    options.store.arena.bytes = arena_bytes_;
    options.store.arena.rung = rung_;
#ifdef GD2FS_TEST_TLS
    options.tls = certificates().node();
#endif
#ifdef GD2FS_TEST_RDMA
    if (const RdmaSettings rdma = test_rdma(); rdma.use == Rdma::on) options.rdma = rdma;
#endif
    auto server = Server::start(options);
    REQUIRE_MESSAGE(server, (server ? "" : server.error().message));
    servers_[node] = std::move(*server);
  }

  void stop(std::size_t node) { servers_[node] = nullptr; }
  /// The membership changes: all nodes that run learn it, one after the other.
  void change(const std::function<void(wire::Map&)>& how) {
    map_.provider = wire::Provider::etcd;
    ++map_.epoch;
    how(map_);
    for (const auto& server : servers_)
      if (server != nullptr) server->apply_map(map_, false);
  }
  Server& server(std::size_t node) { return *servers_[node]; }
  const wire::Map& map() const { return map_; }
  const std::string& address(std::size_t node) const { return addresses_[node]; }
  std::size_t home_of(const std::string& path, std::uint64_t chunk = 0) const {
    std::vector<PlacedNode> placed;
    for (const wire::MapNode& node : map_.nodes) placed.push_back({node.id, node.weight});
    return placement_first(placed, path, chunk);
  }

  ClientOptions options() const {
    ClientOptions options;
    options.seeds = seeds_;
    options.cluster = "test";
    options.transport = Transport::tcp;  // what most tests are about, and proxies stand in for
#ifdef GD2FS_TEST_TLS
    options.tls = certificates().client();
#endif
#ifdef GD2FS_TEST_RDMA
    options.rdma = test_rdma();
    if (options.rdma.use == Rdma::on) options.transport = Transport::rdma;
#endif
    return options;
  }

#ifdef GD2FS_TEST_TLS
  static testing::Certificates& certificates() {
    static testing::Certificates all;
    return all;
  }
#endif

  std::unique_ptr<Client> client() const { return client(options()); }
  static std::unique_ptr<Client> client(const ClientOptions& options) {
    auto client = Client::connect(options);
    REQUIRE_MESSAGE(client, (client ? "" : client.error().message));
    return std::move(*client);
  }

 private:
  std::size_t arena_bytes_;
  Rung rung_;
  std::vector<std::string> seeds_;
  wire::Map map_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::uint64_t boots_ = 0;
};

}  // namespace gd2fs
