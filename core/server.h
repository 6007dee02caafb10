// Server: one node's streams. A fixed number of epoll threads; every connection belongs to one of
// them.
//
// Bodies are received straight into extents and sent straight from them. Every request ends in one
// RESPONSE with LAST.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "error.h"
#include "store.h"
#include "wire.h"

namespace gd2fs {

struct ServerOptions {
  std::string cluster;
  std::string name;                 // of this node; one of the map's
  std::vector<std::string> listen;  // "ADDR:PORT"; port 0 takes a free one
  wire::Map map;                    // with list_hash; boot of this node filled in by the server
  std::uint64_t boot = 0;
  std::size_t threads = 2;
  StoreOptions store;
};

struct ServerCounts {
  StoreCounts store;
  std::uint64_t connections = 0, accepted = 0, refused = 0, protocol_faults = 0;
  std::uint64_t requests = 0, hits = 0, misses = 0, bytes_in = 0, bytes_out = 0, corrupt_in = 0,
                records = 0;
};

class Server {
 public:
  /// Opens the arena, binds all addresses, starts the threads.
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options);
  ~Server();  // stops: closes connections, joins threads

  std::vector<std::string> addresses() const;  // what was bound, with real ports
  std::string rung_name() const;
  ServerCounts counts() const;

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gd2fs
