// Node: what all streams of one node share. The store, the records, the map and the counters.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "desk.h"
#include "holds.h"
#include "judge.h"
#include "key_trace.h"
#include "live_curves.h"
#include "peers.h"
#include "placement.h"
#include "record.h"
#include "record_log.h"
#include "record_service.h"
#include "server.h"
#include "slow.h"
#include "store.h"
#include "strangers.h"
#include "tally.h"
#include "token_book.h"
#include "transport/splice.h"
#include "transport/ucx_context.h"
#include "views.h"
#include "wire.h"

namespace gd2fs::serve {

/// What any thread counts, and seldom; the rest is in a Tally. Relaxed: nothing is decided on them.
struct Counters {
  std::atomic<std::uint64_t> accepted{0}, refused{0}, protocol_faults{0}, cut_off{0}, corrupt_in{0},
      moved{0}, moved_bytes{0}, unjudged{0}, denied{0};
  std::array<std::atomic<std::uint64_t>, REFUSALS.size()> refused_for{};

  static void add(std::atomic<std::uint64_t>& counter, std::uint64_t by = 1) noexcept {
    counter.fetch_add(by, std::memory_order_relaxed);
  }
  /// Who went by itself was not refused.
  void refuse(Refusal reason) noexcept {
    add(refused_for[static_cast<std::size_t>(reason)]);
    if (reason != Refusal::left) add(refused);
  }
};

/// The map in force, and what follows from it. Immutable: who holds one decides by one map.
struct ClusterView {
  explicit ClusterView(wire::Map of) : map(std::move(of)), placement(map) {}
  const wire::Map map;
  const Placement placement;
};
using ClusterViewRef = std::shared_ptr<const ClusterView>;

inline constexpr std::size_t LOOKUPS_MAX = 64;  // of one request between two looks at the clock

class Arrival;
class Mover;

/// What one-sided transfers need.
struct ArenaRdma {
  ucx::ContextRef context;  // nothing: there are none,
  ucx::MemoryRef memory;    // of the whole arena
  std::string lack;         // why there are none
};

struct Node {
  Node(const ServerOptions& from, std::unique_ptr<Store> opened, tls::ContextPtr secured = nullptr,
       ArenaRdma transfers = {});
  ~Node();

  wire::NodeStatus status() const;
  ServerCounts counts() const;
  ServerTally tally() const;
  ServerCurves told_curves() const;
  /// Does the namespace of this name have memory of its own?
  bool has_quota(std::string_view name, bool is_page) const;
  /// Tells the curves that it was put, or would have been. `tally`: of this thread.
  void follow_stored(const Piece& piece, Tally& tally);
  /// Before the first LOOKUPS_MAX of these pages are looked up.
  void warm(std::span<const wire::Item> items) const;
  ClusterViewRef view() const;
  /// False: it is not newer than the one in force.
  bool take_map(wire::Map map, bool is_gap);
  void take_tokens(const std::vector<KnownToken>& known);
  /// Once it serves: the other nodes of its list are told.
  void announce();
  /// What a client may send of bodies before their grant: with a site's rule nothing travels before
  /// that has spoken.
  std::uint32_t eager_bytes_max() const noexcept;
  /// Is this node the home of `path`? If not, `home` is the index of the node that is.
  bool is_home(std::string_view path, std::uint32_t& home) const;

  const ServerOptions options;
  const NodeId id;
  const std::unique_ptr<Store> store;
  const tls::ContextPtr tls;  // nothing: streams travel as they are
  const ArenaRdma rdma;
  const std::string splice_fault;         // why nothing is spliced; empty when it is
  const std::uint64_t filling_bytes_max;  // of one connection
  HoldBudget hold_budget;
  PipePool pipes;
  Views views;
  std::unique_ptr<RecordLog> record_log;  // nothing: records are forgotten when the process ends
  Records records;
  Counters counters;
  Tallies tallies;
  SlowRequests slow;
  KeyTrace key_trace;
  LiveCurves curves{boottime_ms()};
  Strangers strangers;
  TokenBook tokens;
  const TokenSourceRef own_token;  // what it shows to other nodes
  Peers peers;
  NodeLease lease;
  RecordService record_service;
  Desk settings_desk;
  Judge judge;
  std::atomic<std::uint64_t> move_bytes_per_s;
  std::atomic<std::size_t> connections{0};
  std::atomic<bool> is_stopping{false};
  std::atomic<bool> is_draining_wished{false};
  const std::unique_ptr<Mover> mover;  // refers to all of the above
  const std::unique_ptr<Arrival> arrival;

 private:
  mutable std::mutex view_mutex_;  // Guards: view_. Held to copy or replace it.
  ClusterViewRef view_;
};

}  // namespace gd2fs::serve
