// Stream: one connection to one node, from connecting to its loss. Lives on one I/O thread.
//
//   idle -> connecting -> greeting (waits for CHALLENGE) -> proving (waits for WELCOME) -> ready
//   with one-sided transfers: ... proving -> reaching (waits for PEER) -> ready
//   and from anywhere back to idle
//
// A request whose memory the node reaches by itself ends with the node's last word, or once this
// stream's worker is gone: a late or cancelled one waits for the first, and after FENCE_MS makes
// sure of the second.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "arena_map.h"
#include "inbound.h"
#include "introduction.h"
#include "io_thread.h"
#include "outbound.h"
#include "rpc.h"
#include "silence.h"
#include "transport/ucx_worker.h"

namespace gd2fs {

class Link;

class Stream : public IoThread::Watcher, private Inbound::Receiver {
 public:
  /// `index`: which of the link's streams this is.
  Stream(Link& link, IoThread& thread, std::size_t index);

  IoThread& thread() const noexcept { return thread_; }

  // On its thread only.
  /// Takes what it can from the link's queue and sends it; connects first when there is a reason.
  void pump();
  /// Tells the node which of its leases are over.
  void tell_releases();
  /// Also of a stream whose thread has ended: what it told, and the node has not said it heard.
  std::vector<std::uint64_t> take_told();
  /// Ends the requests of an operation; nullptr: all of them.
  void cancel(const OperationState* operation);
  void cancel_one(const Rpc& rpc);
  /// Others of the link doubt that their path works: asks the node for a word by this one, and
  /// takes what they leave.
  void look();
  /// Gives the connection up. Its requests are asked again elsewhere, or end.
  void lose(const std::string& reason);

  void ready(std::uint32_t events) override;
  std::int64_t tick(std::int64_t now) override;

 private:
  enum class State { idle, connecting, greeting, proving, reaching, ready };

  struct Pending {
    RpcRef rpc;                  // nullptr: let go; its last frame is still to come
    std::uint64_t bulk_bytes;    // 0: it is small
    bool is_confirming = false;  // all has come, but for the node's word that it was in place
    std::int64_t since_ms = 0;
    bool is_exposed = false;           // the node may reach its memory
    std::optional<Status> ends_as{};   // of one that is exposed, and nobody waits for any more,
    std::int64_t fence_ms = NEVER_MS;  // but until then at the latest
  };

  /// What the worker's descriptor tells.
  struct Hands : IoThread::Watcher {
    explicit Hands(Stream& of) : stream(of) {}
    void ready(std::uint32_t) override { stream.move_bytes(); }
    std::int64_t tick(std::int64_t) override { return NEVER_MS; }
    Stream& stream;
  };

  bool take_frame(const wire::Header& header, wire::View table) override;
  std::optional<Rpc*> receiver_of(std::uint64_t request) override;
  bool take_greeting(const wire::Header& header, wire::View table);
  bool take_challenge(const wire::Challenge& challenge);
  bool take_arena(const wire::Header& header, wire::View table);
  void note_view(Rpc& rpc, std::uint64_t lease);
  bool take_lease(const wire::Header& header, wire::View table);
  bool take_map(wire::View table);
  bool wants_rdma() const;
  bool leaves_rdma(std::int64_t now);
  bool has_room_for_keys(std::size_t count);
  bool reach();
  bool take_peer(wire::View table);
  bool lacks_rdma(const std::string& fault);
  bool take_placed(const wire::Header& header, wire::View table);
  bool expose(Rpc& rpc, bool is_eager);
  bool find_registrations(Rpc& rpc) const;
  void tell(const RegistrationRef& registration);
  void forget_keys();
  void leave(std::uint64_t request, Pending& pending, Status status);
  void move_bytes();
  bool is_reached() const;
  void end_transfers();
  std::int64_t watch_transfers(std::int64_t now);
  bool take_grant(const wire::Header& header, wire::View table);
  bool take_response(const wire::Header& header, wire::View table);
  bool take_confirmation(const wire::Header& header);

  void connect(std::int64_t now);
  bool try_unix(std::int64_t now);
  bool leaves_unix(std::int64_t now);
  bool wants_shm() const;
  Transport transport() const;
  const tcp::Address* local() const;
  bool try_address(std::int64_t now);
  void back_off(std::int64_t now);
  void connect_failed(const std::string& reason);
  void begin_greeting();
  std::string end_reason() const;
  void begin_ready(const wire::Challenge& challenge);
  void take_work();
  bool is_to_ask_first(const Rpc& rpc, std::int64_t now) const;
  void start(RpcRef rpc);
  void let_go(std::uint64_t request, Pending& pending, Status status);
  void drop(std::unordered_map<std::uint64_t, Pending>::iterator entry);
  void flush();
  void acknowledge(std::uint64_t request, std::uint8_t flags = 0);
  void release_pending(std::int64_t now, bool is_counted);
  void ask_for_word(std::int64_t now);
  void hear(std::int64_t now);
  std::int64_t watch_silence(std::int64_t now);
  void note_sent(std::int64_t now);
  std::int64_t silence_ms() const;
  void give_up_silent(std::int64_t now);
  std::int64_t expire_held(std::int64_t now);
  void read_on();
  bool has_buffered() const;
  bool is_silent(std::int64_t now) const;
  std::int64_t ask_at_ms(const Pending& pending) const;
  std::int64_t watch_node(std::int64_t now);
  bool has_others_waiting() const;
  void close();

  Link& link_;
  IoThread& thread_;
  const std::size_t index_;
  State state_ = State::idle;
  Channel channel_;
  std::unique_ptr<Inbound> in_;
  std::unique_ptr<Outbound> out_;
  bool is_waiting_to_send_ = false;
  wire::Challenge challenge_;
  std::string goodbye_;                       // the node's reason, when it said one
  std::optional<Introduction> introduction_;  // until the node has said welcome

  bool is_unix_ = false;                         // what the present connection is, or was
  bool has_failed_shm_ = false;                  // its arena could not be mapped: not tried again
  std::int64_t unix_at_ms_ = 0;                  // the next time for its Unix socket
  std::int64_t rdma_at_ms_ = 0;                  // the next time for one-sided transfers
  ArenaMapRef arena_;                            // of the node, when this stream reads by leases
  std::deque<std::vector<std::uint64_t>> told_;  // leases that are over, each to be confirmed

  std::vector<tcp::Address> candidates_;  // the node's addresses, the nearest first
  std::size_t candidate_ = 0;             // of candidates_: the next to try
  std::size_t candidates_left_ = 0;       // in this attempt
  std::int64_t connect_until_ms_ = 0;
  std::int64_t retry_at_ms_ = 0;
  std::int64_t retry_ms_ = 0;

  Hands hands_{*this};
  std::unique_ptr<ucx::Worker> worker_;  // by which the node reaches this process
  bool is_to_move_ = false;              // `move_bytes` is posted
  std::unordered_map<std::uint32_t, std::weak_ptr<const Registration>> keys_;  // told to the node

  std::unordered_map<std::uint64_t, Pending> pending_;
  std::uint64_t last_request_ = 0;
  std::size_t exposed_count_ = 0;    // of pending_
  std::size_t bulk_count_ = 0;       // of these
  std::uint64_t bulk_bytes_ = 0;     // of those
  std::int64_t heard_ms_ = 0;        // when bytes came last, or when waiting for some began
  std::int64_t sent_ms_ = 0;         // when the node's system acknowledged bytes of ours last
  std::uint64_t reached_bytes_ = 0;  // of ours, that it has acknowledged
  std::int64_t asked_ms_ = 0;        // when the node was asked for a word; 0: it has answered
  std::int64_t doubted_ms_ = 0;      // when the other streams were told of that silence; 0: not yet
  RpcRef held_;                      // waits for that word
  Silence silence_;
  std::uint64_t acknowledged_ = 0;
  std::uint64_t ack_bytes_ = 0;  // read by reference until the node is told without being asked
};

}  // namespace gd2fs
