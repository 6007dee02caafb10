// Connection: one stream's state. Greeting, then frames in, requests worked off, frames out.
//
// Belongs to one worker thread; nothing here is locked and nothing waits. Work is done in turns,
// one frame each.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "greeting.h"
#include "inlet.h"
#include "node.h"
#include "placer.h"
#include "receiver.h"
#include "requests.h"
#include "sender.h"
#include "transfers.h"
#include "transport/channel.h"
#include "transport/unix.h"

namespace gd2fs::serve {

class Worker;

class Connection {
 public:
  Connection(Worker& worker, Channel channel, std::string host, std::uint64_t id);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int fd() const noexcept { return channel_.fd(); }
  std::uint64_t id() const noexcept { return id_; }
  bool is_closed() const noexcept { return phase_ == Phase::closed; }
  bool is_ready = false;  // stands in the worker's list already

  /// What the kernel says (edge-triggered).
  void on_events(std::uint32_t events);
  /// Reads, works and sends a little. True: there is more to do at once.
  bool turn(bool is_alone);
  /// Deadlines, idle grants, silence.
  void tick(std::int64_t now_ms);
  /// The map has changed: says so, unasked.
  void tell_map();
  /// The node knows other tokens now: closes it unless its own stands there as it was.
  void look_at_tokens();
  /// The answer to a request that the janitor worked off.
  void answered_elsewhere(std::uint64_t request, const wire::Bytes& response);
  /// What a read waits for is in memory, or lost.
  void loaded(std::uint64_t request, Status status, const PieceRef& piece);
  /// Other nodes have answered what a request waits for.
  void resume(std::uint64_t request, const RecordAnswer& told);

 private:
  enum class Phase : std::uint8_t { hello, proof, open, closing, closed };
  enum class Io : std::uint8_t { some, none, ended };

  /// A request that the janitor has, or one that waits for other nodes.
  struct Parked {
    std::uint64_t request = 0;
    wire::Op op{};
    std::size_t items = 0;
    std::int64_t deadline_ms = 0;
    std::shared_ptr<SmallRequest> waiting;
    std::shared_ptr<wire::Request> offer{};  // one that waits for the site's rule,
    std::int64_t judged_by_ms = 0;           // until then
    Stop stop{};                             // nobody waits for it any more
  };

  bool has_to_send() const noexcept;
  bool read();
  Io tls_ended();
  bool read_payload();
  bool read_frames();
  std::size_t throw_away(std::size_t bytes);
  Io received(std::int64_t bytes, std::size_t wanted);
  void handle(const Inlet::Frame& frame);
  void handle_hello(const Inlet::Frame& frame);
  void handle_proof(const Inlet::Frame& frame);
  void handle_open(const Inlet::Frame& frame);
  void handle_request(const Inlet::Frame& frame);
  void handle_data(const Inlet::Frame& frame);
  void handle_unasked(const wire::Header& header);
  void handle_ack(const wire::Header& header);
  void handle_release(const Inlet::Frame& frame);
  void handle_peer(const Inlet::Frame& frame);
  void handle_key(const Inlet::Frame& frame);
  void handle_source(const Inlet::Frame& frame);
  void place(ReadJob job);
  bool move_bytes();
  void end_transfers();
  std::uint64_t grant_arena();
  void deny(std::uint64_t request, const wire::Request& body);
  void note_view(std::uint64_t request, std::uint64_t lease);
  void drop_new_views();
  void begin(std::uint64_t request, std::uint8_t flags, wire::Request body);
  void work();
  void work_small_requests();
  /// Runs a task on this connection's thread, if it is there still. From any thread.
  using Post = std::function<void(std::function<void(Connection&)>)>;
  Post poster() const;
  /// Parks a request. What it gives is called once with the RESPONSE, from any thread.
  using Reply = std::function<void(wire::Bytes)>;
  Reply reply_later(const SmallRequest& request);
  void park(SmallRequest request);
  bool drop(SmallRequest& request);
  void took(std::uint64_t request);
  void pass_on(SmallRequest request);
  void put_on_desk(SmallRequest question);
  void submit(std::uint64_t request, wire::Request offer, std::int64_t deadline_ms);
  void judged(std::uint64_t request, const std::vector<Verdict>& verdicts);
  void receive(std::uint64_t request, wire::Request offer, bool is_eager, std::int64_t deadline_ms,
               std::vector<bool> refused = {});
  void await(SmallRequest request);
  void cancel(std::uint64_t request, Status status);
  void expire(std::int64_t now_ms);
  void send(bool is_alone);
  bool is_deaf(std::int64_t now_ms) noexcept;
  void cut_off();
  void fault(const std::string& reason);
  void refuse(const Refused& refused);
  /// `flags`: MORE when the same may work later.
  void goodbye(const std::string& reason, std::uint8_t flags = 0);
  void close();

  /// A request whose last frame the kernel does not have yet.
  struct Flight {
    std::uint64_t request = 0;
    wire::Op op{};
    std::uint64_t began_ns = 0;
    std::uint64_t trace = 0;
  };

  Worker& worker_;
  Node& node_;
  Channel channel_;
  const std::optional<local::Peer> peer_;  // of a Unix socket
  const Transport by_;
  bool is_leasing_ = false;  // it has the arena mapped
  // Views whose request the reader has not confirmed: they go with the stream.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> new_views_;  // request, lease
  std::string host_;  // while it is a stranger; then empty
  std::uint64_t id_;
  Phase phase_ = Phase::hello;
  std::unique_ptr<Greeting> greeting_;  // until it has proven itself
  TokenRef token_;                      // that it has proven
  bool is_node_ = false;
  bool can_read_ = true, can_write_ = true, is_hung_up_ = false;
  bool is_reading_ = false;  // the last turn ended before all that had come was read
  std::int64_t opened_ms_;
  std::int64_t heard_ms_;  // last frame
  std::int64_t closing_ms_ = 0;
  std::size_t untaken_bytes_ = 0;         // in the socket, while it takes no more,
  std::int64_t untaken_ms_ = opened_ms_;  // and since when just these

  Inlet inlet_;
  Receiver receiver_;
  Sender sender_;
  Placer placer_;
  bool may_transfer_ = false;             // it has been granted
  std::unique_ptr<Transfers> transfers_;  // once the client has asked for them
  std::deque<SmallRequest> small_requests_;
  std::vector<Parked> parked_;
  std::uint64_t last_request_ = 0;
  std::vector<Flight> in_flight_;
  std::vector<iovec> iovecs_;
  wire::DataTable data_;  // of the frame that is coming in
};

}  // namespace gd2fs::serve
