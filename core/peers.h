// Peers: a node's own client, by which it reaches the other nodes. Nothing here waits.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "network.h"
#include "peer_tally.h"

namespace gd2fs::serve {

class Peers {
 public:
  /// Threads and connections are made when the first one is asked.
  /// `token`: what it shows to them.
  Peers(std::string cluster, const NodeId& self, tcp::SocketSettings sockets, TokenSourceRef token,
        tls::ContextPtr secured = nullptr);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  // Any thread.
  void take_map(const wire::Map& map);
  /// Sends a request. `rpc->done` runs once, on a thread of this client, at the latest at its
  /// deadline, and never from within this call; after `close` not at all. A node that is in no map
  /// that was taken counts as unavailable.
  void ask(const NodeId& to, RpcRef rpc);
  bool is_down(const NodeId& node);
  /// It has just been heard of: if it counts as down, it is looked for at once.
  void look_now(const NodeId& node);
  /// Runs on a thread of this client, not before `delay_ms` from now; after `close` not at all.
  void after(std::int64_t delay_ms, std::function<void()> task);
  /// Of all that were ever asked, those that are in the map by name.
  std::vector<PeerCounts> counts() const;
  /// Ends all requests as cancelled and joins the threads. Nothing is asked from here on.
  void close();

 private:
  std::shared_ptr<Network> network();
  void count(const NodeId& to, Rpc& rpc);
  static std::optional<std::size_t> slot_of(const Network& network, const NodeId& node);

  const ClientOptions options_;
  const NodeId self_;
  mutable std::mutex mutex_;  // Guards: all below. Held to make the network, not while it is used.
  wire::Map map_;
  std::shared_ptr<Network> network_;
  std::map<NodeId, PeerTallyRef> tallies_;
  bool is_closed_ = false;
};

}  // namespace gd2fs::serve
