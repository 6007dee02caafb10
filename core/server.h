// Server: one node's streams. A fixed number of epoll threads; every connection belongs to one of
// them.
//
// Bodies are received straight into extents and sent straight from them. Every request ends in one
// RESPONSE with LAST.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "desk.h"
#include "error.h"
#include "judge.h"
#include "key_trace.h"
#include "live_curves.h"
#include "peer_tally.h"
#include "rdma.h"
#include "refusal.h"
#include "restart.h"
#include "slow.h"
#include "store.h"
#include "tally.h"
#include "token_book.h"
#include "transport/tcp.h"
#include "transport/tls.h"
#include "wire.h"

namespace gd2fs {

/// Does payload leave the arena by reference? automatic: on huge pages, where the kernel allows it
/// and does not copy all the same. on: on small pages too.
enum class ZeroCopy : std::uint8_t { automatic = 0, on = 1, off = 2 };

struct ServerOptions {
  std::string cluster;
  std::string name;  // of this node; one of the map's
  // "ADDR:PORT"; port 0 takes a free one. An address that this machine does not have now serves
  // once it has; one of them it has to have.
  std::vector<std::string> listen;
  wire::Map map;  // with list_hash; boot of this node filled in by the server
  std::uint64_t boot = 0;
  std::size_t threads = 2;
  ZeroCopy zero_copy = ZeroCopy::automatic;
  std::uint32_t hold_silence_ms = HOLD_SILENCE_MS;  // a reader that has this long taken none of
                                                    // the bytes held for it is cut off
  // What streams have to prove. None: everybody may do everything.
  std::vector<serve::KnownToken> tokens;
  bool is_judged = false;    // a site's rule says what is let in, and how it is treated
  bool is_shared = true;     // readers of this user may map the arena, where its kind allows it
  bool is_traceable = true;  // false: not even this user's debuggers reach the process's memory
  std::uint64_t move_bytes_per_s = GiB;        // that the node's own moves take at most
  std::uint64_t move_bytes_on_way = 64 * MiB;  // of these, not answered yet
  std::string state_dir;                       // kept for the next process; empty: none
  StoreOptions store;
  std::uint32_t stop_write_ms = 30'000;  // at its end, for what is yet to be written to disk
  tcp::SocketSettings sockets;
  tls::Settings tls;  // of all that is TCP: its streams, and those to other nodes
  RdmaSettings rdma;  // of clients' bytes; nodes among themselves use TCP
};

struct ServerCounts {
  StoreCounts store;
  std::optional<DiskCounts> disk;       // of the tier below
  std::uint64_t record_log_bytes = 0;   // 0: there is none, or it is out of order
  std::uint64_t record_log_faults = 0;  // writes to it that failed
  std::uint64_t connections = 0, accepted = 0, refused = 0, protocol_faults = 0;
  std::array<std::uint64_t, REFUSALS.size()> refused_for{};  // by Refusal
  std::uint64_t strangers = 0;  // connections that have not proven themselves yet
  std::uint64_t denied = 0;     // requests beyond the rights of their stream
  std::uint64_t requests = 0, hits = 0, misses = 0, bytes_in = 0, bytes_out = 0, corrupt_in = 0,
                records = 0, records_left = 0, epoch = 0;
  std::uint64_t moves_left = 0;  // pieces yet to be looked at, or on their way, after a new map
  std::uint64_t moves_left_bytes = 0;
  std::uint64_t moved = 0;  // copies brought to other nodes
  std::uint64_t moved_bytes = 0;
  std::uint64_t unjudged = 0;       // offers that went on without the site's rule: late, or failed
  bool is_settled = true;           // every piece is where the map in force says
  std::uint64_t bytes_spliced = 0;  // of bytes_out: left by reference
  std::uint64_t held_bytes = 0;     // on their way to readers that have not taken them yet
  std::uint64_t cut_off = 0;        // readers that did not take what was held for them
  std::uint64_t leases = 0;         // frames that named bytes instead of carrying them
  std::uint64_t views = 0;          // looked at by readers now
  std::uint64_t view_bytes = 0;     // kept in place for them
  std::uint64_t bytes_leased = 0;   // of bytes_out: copied out of the arena by their readers
  tls::Counts tls;
};

/// What is counted in more detail than ServerCounts: by namespace, op, transport, cause and peer.
struct ServerTally {
  std::vector<serve::NamespaceCounts> namespaces;
  std::vector<serve::TookCounts> took;
  serve::TransportBytes bytes{};
  EvictedByPolicy evicted{};
  DeparturesByCause departed{};
  std::vector<serve::PeerCounts> peers;
};

/// What it would find with more memory or less.
struct ServerCurves {
  std::int64_t span_ms = 0;  // of what was asked
  std::uint64_t arena_bytes = 0;
  std::uint64_t memory_bytes = 0;  // of these, what namespaces without a quota share
  std::uint64_t disk_bytes = 0;    // below it
  std::vector<serve::NamespaceCurve> namespaces;
};

class Server {
 public:
  /// Opens the arena, binds all addresses, starts the threads.
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options);
  ~Server();  // stops: closes connections, joins threads

  std::vector<std::string> addresses() const;  // what was bound, with real ports
  std::vector<std::string> absent() const;     // of them, those that the machine did not have
  std::string rung_name() const;
  /// How its memory lies at NUMA nodes.
  numa::Spread spread() const;
  /// May readers on this host map its arena?
  bool is_sealed() const;
  /// Of its Unix socket, without the zero byte in front; empty when it has none, and why.
  const std::string& socket_name() const;
  const std::string& socket_fault() const;
  /// Why there are no one-sided transfers; empty when there are.
  const std::string& rdma_lack() const;
  ServerCounts counts() const;
  ServerTally tally() const;
  /// Requests that took too long, the oldest first, and forgets them.
  serve::SlowRequests::Taken take_slow();
  /// From now on, what takes longer than so many milliseconds does. SLOW_MS at first.
  void set_slow(std::uint32_t limit_ms);
  /// Where what is asked of this node can be recorded.
  serve::KeyTrace& key_trace();
  ServerCurves curves() const;
  /// From now on nothing is followed for them, or everything again: to measure what that costs.
  void set_curves(bool is_on);
  /// What the former process had left.
  const Recovery& recovery() const;

  // Of a membership that changes. Any thread, one at a time.
  /// The next map, in order: older and equal ones are ignored. `is_gap`: maps between this one and
  /// the last are not known. Tells every client that is connected.
  void apply_map(wire::Map map, bool is_gap);
  /// Records of files are answered before this time of CLOCK_BOOTTIME, in ms. 0: not any more.
  void set_lease(std::int64_t until_ms);
  /// Has a client asked this node to hand over what it has, and to leave?
  bool is_draining_wished() const;

  /// From now on. Streams of tokens that are gone, or may do something else now, are closed.
  void set_tokens(const std::vector<serve::KnownToken>& tokens);

  // Of rules and settings. Any thread.
  /// How a namespace is treated from now on; an empty name means all without rules of their own.
  /// full: too many have some.
  Status set_rules(std::string_view name_space, const NamespaceRules& rules);
  std::vector<Store::SpaceCounts> spaces() const;
  /// What the node let go lately, the newest groups first.
  std::vector<DepartureGroup> departures(std::size_t groups_max) const;
  /// What the node's own moves take at most, 1 or more.
  void set_move_rate(std::uint64_t bytes_per_s);
  /// What is written to its disks takes at most; 0: no limit.
  void set_nvme_rate(std::uint64_t bytes_per_s);
  /// Reads the files of TLS again now; streams that are there go on. A message: they are no use,
  /// and the former ones stay.
  Error reload_tls();
  /// Why changed files were no use; empty when they were, or when there are none.
  std::string tls_fault() const;
  /// Where requests about settings wait for an answer.
  Desk& settings_desk();
  /// Where offers wait for the site's rule.
  Judge& judge();

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gd2fs
