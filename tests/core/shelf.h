// Shelf: a node under TLS with one page in it.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "certificates.h"
#include "client.h"
#include "local_cluster.h"
#include "raw_peer.h"

namespace gd2fs::testing {

inline ServerOptions secured(const Certificates& certificates, const std::string& name = "node",
                             bool are_clients_required = false) {
  ServerOptions options = options_of(64 * MiB);
  options.listen = {"127.0.0.1:" + std::to_string(free_port())};
  options.map = map_of({{"a", options.listen.front()}});
  options.tls = certificates.node(name, are_clients_required);
  return options;
}

inline ClientOptions client_of(const Server& server, tls::Settings settings) {
  ClientOptions options;
  options.seeds = {server.addresses().front()};
  options.cluster = "test";
  options.transport = Transport::tcp;
  options.tls = std::move(settings);
  return options;
}

inline std::uint64_t refused(const Server& server, Refusal reason) {
  return server.counts().refused_for[static_cast<std::size_t>(reason)];
}

/// A node with one page in it, put there by a client.
struct Shelf {
  explicit Shelf(std::size_t bytes) : page_bytes(random_bytes(bytes, 3)) {
    server = start_node(secured(certificates));
    auto client = Client::connect(client_of(*server, certificates.client()));
    REQUIRE_MESSAGE(client, (client ? "" : client.error().message));
    Bytes copy = page_bytes;
    const std::string key = "page";
    const Buffer whole{copy.data(), copy.size()};
    const auto put = (*client)->put_pages("pages", std::span(&key, 1), std::span(&whole, 1), {});
    REQUIRE(put->wait(10'000));
    REQUIRE(put->outcome().items.at(0).status == Status::ok);
  }

  Certificates certificates;
  Bytes page_bytes;
  std::unique_ptr<Server> server;
};

}  // namespace gd2fs::testing
