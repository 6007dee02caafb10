// Node: what all streams of one node share. The store, the records, the map and the counters.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "holds.h"
#include "placement.h"
#include "record.h"
#include "server.h"
#include "store.h"
#include "transport/splice.h"
#include "views.h"
#include "wire.h"

namespace gd2fs::serve {

/// Relaxed: they are counted and shown, nothing is decided on them.
struct Counters {
  std::atomic<std::uint64_t> accepted{0}, refused{0}, protocol_faults{0}, requests{0}, hits{0},
      misses{0}, bytes_in{0}, bytes_out{0}, bytes_spliced{0}, cut_off{0}, corrupt_in{0}, leases{0},
      bytes_leased{0};

  static void add(std::atomic<std::uint64_t>& counter, std::uint64_t by = 1) noexcept {
    counter.fetch_add(by, std::memory_order_relaxed);
  }
};

/// Connections that have not proven themselves yet, per source address.
class Strangers {
 public:
  /// False when this source has UNAUTHENTICATED_MAX of them already.
  bool enter(const std::string& host);
  void leave(const std::string& host);

 private:
  std::mutex mutex_;  // Guards: count_of_. Held for one look-up.
  std::unordered_map<std::string, std::size_t> count_of_;
};

inline constexpr std::size_t LOOKUPS_MAX = 64;  // of one request between two looks at the clock

struct Node {
  Node(const ServerOptions& from, std::unique_ptr<Store> opened);

  wire::NodeStatus status() const;
  ServerCounts counts() const;
  /// Before the first LOOKUPS_MAX of these pages are looked up.
  void warm(std::span<const wire::Item> items) const;
  /// Is this node the home of `path`? If not, `home` is the index of the node that is.
  bool is_home(std::string_view path, std::uint32_t& home) const;

  const ServerOptions options;
  const NodeId id;
  const wire::Map map;
  const std::unique_ptr<Store> store;
  const std::string splice_fault;         // why nothing is spliced; empty when it is
  const std::uint64_t filling_bytes_max;  // of one connection
  HoldBudget hold_budget;
  PipePool pipes;
  Views views;
  Records records;
  Counters counters;
  Strangers strangers;
  std::atomic<std::size_t> connections{0};
  std::atomic<bool> is_stopping{false};
};

}  // namespace gd2fs::serve
