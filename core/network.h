// Network: the I/O threads, one link per node, and the map that says whom to ask. What all calls of
// a client share. A node has one too, to reach the others.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "bootstrap.h"
#include "bounce.h"
#include "hedge.h"
#include "link.h"
#include "placement.h"

namespace gd2fs {

/// Whom to ask under one map: a snapshot. A slot is the number of a link. It stands for one node,
/// by name, for as long as the network lives.
struct Routes {
  wire::Map map;
  Placement placement;
  std::vector<std::size_t> slots;  // by position in the map
  std::vector<Link*> links;        // likewise; nullptr: a node that is gone
  std::int64_t since_ms = 0;       // when this client learned it
  std::size_t moving_count = 0;    // of nodes that join, or hand over what they have

  /// Is one of these, positions in the map, known not to answer?
  bool is_any_down(std::span<const std::uint32_t> nodes) const;
  std::size_t owner(std::string_view name, std::uint64_t chunk) const {
    return slots[placement.owner(name, chunk)];
  }
};
using RoutesRef = std::shared_ptr<const Routes>;

class Network {
 public:
  static Result<std::unique_ptr<Network>> open(const ClientOptions& options);
  /// Inside a node that has the map already. Streams of class `node`; no seed is asked.
  static Result<std::unique_ptr<Network>> open_within(const ClientOptions& options,
                                                      const wire::Map& map, const NodeId& self);
  explicit Network(const ClientOptions& options) : options_(options) {}  // for `open`
  ~Network();

  const ClientOptions& options() const noexcept { return options_; }
  RoutesRef routes() const;
  std::size_t slot_count() const;
  Link& link(std::size_t slot);
  std::size_t stream_count() const noexcept { return stream_count_; }  // of each link

  HedgeBudget& hedges() noexcept { return hedges_; }
  /// Memory that nodes may be told of; nothing: there are no one-sided transfers.
  Registrations* registrations() const noexcept { return link_options_.registrations.get(); }
  /// For memory of GPUs; nullptr where the process has none.
  Bouncer* bouncer() const {
    return bouncer_ != nullptr && bouncer_->is_awake() ? bouncer_.get() : nullptr;
  }
  BounceCounts bounce_counts() const;
  /// Why a copy of a GPU's memory failed last; empty: none has.
  std::string bounce_fault() const;

  // Any thread.
  /// From any node. Older and equal epochs are ignored. Waits for nobody.
  void take_map(const wire::Map& map);
  /// Runs on an I/O thread, not before `delay_ms` from now (at once while the client closes).
  void after(std::int64_t delay_ms, std::function<void()> task);
  void cancel(const std::shared_ptr<OperationState>& operation);

  /// Calls in progress. The last one gone, nothing of the caller's is referred to any more.
  void call_begins() { calls_.fetch_add(1); }
  /// The same of what nobody waits for. False: there are so many that this one is not worth it.
  bool hint_begins();
  void hint_ends();
  void call_ends();

  /// Ends all calls as cancelled, waits for them, stops the threads. Not on an I/O thread.
  void close();

 private:
  static Result<std::unique_ptr<Network>> with_threads(const ClientOptions& options,
                                                       const wire::Hello& hello);
  void begin(const wire::Map& map, std::string seed_host, std::string seed_name);
  std::size_t slot_of(const wire::MapNode& node);
  std::size_t add_link(const wire::MapNode& node);
  std::vector<tcp::HostPort> hosts_of(const std::vector<std::string>& addresses) const;
  std::vector<std::string> names_of(const std::string& name,
                                    const std::vector<tcp::HostPort>& hosts) const;
  void look_up(std::size_t slot);
  void look_up_soon(std::size_t slot);

  const ClientOptions options_;
  std::size_t stream_count_ = 1;
  LinkOptions link_options_;  // of every link, but for what is the node's own
  std::string seed_host_;     // stands for the wildcard addresses of the map
  std::string seed_name_;     // the same as it was given
  std::vector<std::unique_ptr<IoThread>> threads_;
  std::unique_ptr<IoThread> resolver_;  // asks the name service, which may take its time
  std::once_flag has_resolver_;

  mutable std::mutex map_mutex_;  // Guards: all to `hosts_`. Links are made under it, never asked.
  RoutesRef routes_;
  std::vector<std::unique_ptr<Link>> links_;  // streams refer to threads_: destroyed first
  std::map<NodeId, std::size_t> slots_;
  std::vector<std::vector<tcp::HostPort>> hosts_;  // by slot: where the map says it is

  HedgeBudget hedges_;
  std::unique_ptr<Bouncer> bouncer_;
  std::atomic<std::size_t> next_thread_{0};
  std::atomic<std::size_t> calls_{0};
  std::atomic<std::size_t> hints_{0};  // of calls_
  std::mutex mutex_;                   // Guards: the step of calls_ to zero.
  std::condition_variable idle_;
  bool is_closed_ = false;
};

}  // namespace gd2fs
