// Link: all streams to one node. Requests wait here until a stream has room for them; so a slow
// stream takes less by itself. Knows whether the node can be reached.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "arena_map.h"
#include "io_thread.h"
#include "pace.h"
#include "registrations.h"
#include "rpc.h"
#include "stream.h"

namespace gd2fs {

struct LinkOptions {
  wire::Hello hello;
  std::vector<tcp::Address> local;
  std::uint32_t connect_ms = 0;
  std::uint32_t streams = 1;
  bool is_verifying = true;
  Transport transport = Transport::automatic;
  std::function<void(const wire::Map&)> on_map;  // a node has told the map; on an I/O thread
  // Of this link's node:
  std::array<std::byte, 16> node_id{};
  std::string socket_name;  // of its Unix socket
  tcp::SocketSettings sockets;
  TokenSourceRef token;
  tls::ContextPtr tls;                           // nothing: streams travel as they are
  std::shared_ptr<Registrations> registrations;  // of one-sided transfers; nothing: there are none
};

inline constexpr std::int64_t TRANSFERS_AGAIN_MS = 30'000;

class Link {
 public:
  /// `threads` outlive the link's use; the streams are spread over them from `first_thread` on.
  /// `on_down`: called on an I/O thread each time the node is found to be down; may be empty.
  Link(std::string node_name, std::vector<tcp::Address> addresses, LinkOptions options,
       std::span<const std::unique_ptr<IoThread>> threads, std::size_t first_thread,
       std::function<void()> on_down);

  ~Link();

  // Any thread.
  /// Has a stream that can do so tell the node which leases are over; else the next one does.
  void wake_for_releases();
  const std::string& node_name() const noexcept { return node_name_; }
  /// Each ends once, later, on an I/O thread; at once (unavailable) while the node is down.
  void submit(std::vector<RpcRef> rpcs);
  /// Ends the requests of an operation; nullptr: all of them.
  void cancel(const std::shared_ptr<OperationState>& operation);
  /// Ends this one soon, as cancelled or as whatever comes first; no other.
  void let_go(const RpcRef& rpc);
  /// From here on every request ends as cancelled.
  void close();
  bool is_down() const noexcept { return is_down_.load(); }
  const Pace& pace() const noexcept { return pace_; }
  /// Why it is down, or why a stream broke last.
  std::string last_fault() const;
  /// The node belongs to the cluster no more: nothing is asked of it, and nobody looks for it.
  void leave();
  /// It does (again).
  void rejoin();
  /// A node that is down is said to be up: it is looked for now, not only when that is due.
  void look_now();
  /// Where the node is now. Connections that are up stay.
  void move_to(std::vector<tcp::Address> addresses);
  /// Under TLS its certificate has to be of one of these, for connections from now on.
  void rename(std::vector<std::string> names);
  /// How its streams reach the node now; of several kinds the best. `automatic`: none is up.
  Transport transport() const;

  // For its streams.
  const LinkOptions& options() const noexcept { return options_; }
  std::vector<tcp::Address> addresses() const;
  std::vector<std::string> names() const;
  RpcRef take(bool is_bulk_welcome);
  bool is_waiting() const;
  bool wants_stream(std::size_t index, std::int64_t now) const;
  /// When the node is down: when that stream tries again.
  std::int64_t retry_at(std::size_t index) const;
  /// Not later than the first deadline in the queue, and than the first one there is late.
  std::int64_t next_deadline() const;
  /// Ends what has waited for too long. True: there was something.
  bool expire(std::int64_t now);
  /// Is something in the queue that other nodes can be asked for as well?
  bool has_others_waiting() const;
  bool may_connect() const;
  /// A stream was lost in mid-transfer. Once that was so several times in a row it may be the
  /// transfers that they break at: where nobody insists on them there are none for a while.
  void note_transfer_loss(std::int64_t now) noexcept;
  void note_transfer() noexcept { transfer_losses_ = 0; }
  bool may_transfer(std::int64_t now) const noexcept { return now >= transfers_at_ms_; }
  void stream_connecting();
  void stream_connected(std::size_t index, Transport transport);
  const std::shared_ptr<LeaseKeeper>& keeper() const noexcept { return keeper_; }
  /// Bytes came from the node, by this stream.
  void heard(std::size_t index, std::int64_t now) noexcept { heard_ms_[index].store(now); }
  /// Has another stream heard of the node since then?
  bool others_heard_since(std::size_t index, std::int64_t since) const noexcept;
  /// One stream has heard nothing for a while. The others look whether they do, and take its work.
  void doubt(std::size_t index);
  void set_doubtful(std::size_t index, bool is_doubtful);
  /// Can a stream go down alone? With one path to the node all are lost together.
  bool has_paths() const noexcept { return streams_.size() > 1; }
  /// The node's arena, mapped once for all streams. Takes the descriptor of one of them.
  Result<ArenaMapRef> map_arena(const tcp::Descriptor& descriptor, std::uint64_t bytes);
  /// A connection could not be made. When the next attempt is due.
  std::int64_t stream_failed(std::size_t index, const std::string& reason);
  void stream_lost(std::size_t index, const std::string& reason);
  /// A node with this boot number has answered. Another one than before: what was known of it, or
  /// held at it, is gone.
  void stream_greeted(std::uint64_t boot);
  /// A deadline passed and nothing was heard: the node counts as down.
  void node_silent();

 private:
  bool tries_another(std::size_t index);
  void go_down(std::vector<RpcRef>& failed);
  void wake(std::size_t index);
  void take_all(std::vector<RpcRef>& out);
  bool take_out(const RpcRef& rpc);
  std::vector<Stream*> choose_streams(std::size_t count);
  static void finish_all(const std::vector<RpcRef>& rpcs, Status status);

  const std::string node_name_;
  const LinkOptions options_;
  const std::function<void()> on_down_;
  const std::shared_ptr<LeaseKeeper> keeper_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::atomic<std::int64_t>> heard_ms_;  // by stream: when bytes came last
  Pace pace_;

  mutable std::mutex mutex_;  // Guards: all below. Never held in a callback or a system call.
  std::vector<tcp::Address> addresses_;
  std::vector<std::string> names_;
  std::deque<RpcRef> small_;
  std::deque<RpcRef> bulk_;
  std::int64_t next_deadline_ms_ = NEVER_MS;  // or the next one is late before
  std::size_t connecting_count_ = 0;
  std::size_t ready_count_ = 0;
  std::vector<bool> is_ready_;         // by stream
  std::vector<Transport> transports_;  // by stream, while it is ready
  std::weak_ptr<const ArenaMap> arena_map_;
  std::vector<bool> is_doubtful_;  // by stream: it has been silent for a while
  std::vector<bool> has_failed_;   // by local address, since a stream was up last
  std::size_t next_stream_ = 0;    // of streams_: the first to be woken
  std::size_t looking_ = 0;        // of streams_: who looks for a node that is down
  std::atomic<bool> is_down_{false};
  std::atomic<std::uint32_t> transfer_losses_{0};  // in a row
  std::atomic<std::int64_t> transfers_at_ms_{0};   // not before
  bool is_closed_ = false;
  bool has_left_ = false;  // and is down for that long
  std::int64_t retry_at_ms_ = 0;
  std::int64_t retry_ms_ = 0;
  std::string last_fault_;
  std::uint64_t boot_ = 0;  // of the process that answered last; 0: none has
};

}  // namespace gd2fs
