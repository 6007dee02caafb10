// Worker: one thread, its epoll, and the connections that belong to it. Work goes round, one turn
// each.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "connection.h"
#include "janitor.h"
#include "node.h"
#include "numa.h"
#include "transport/tcp.h"

namespace gd2fs::serve {

class Worker {
 public:
  using Accepted = std::function<void(tcp::Descriptor, tcp::Address)>;

  /// `near`: where its thread runs; nullptr: anywhere.
  Worker(Node& node, Janitor& janitor, const numa::Node* near = nullptr);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Before `start`: what to do with a connection that comes in here.
  void listen_on(tcp::Descriptor listener, Accepted accepted);
  void start();
  /// The node is stopping: closes everything and joins.
  void stop();

  // From any thread.
  void adopt(tcp::Descriptor socket, std::string host);
  void post(std::function<void()> task);
  /// Every client that is connected here learns the map in force.
  void tell_map();
  /// The node knows other tokens now: streams whose own is none of them are closed.
  void look_at_tokens();
  std::size_t load() const noexcept { return load_.load(std::memory_order_relaxed); }

  // From this worker's thread.
  Node& node() noexcept { return node_; }
  Tally& tally() noexcept { return tally_; }
  Janitor& janitor() noexcept { return janitor_; }
  Connection* find(std::uint64_t id);
  /// Memory for bytes that nobody wants.
  std::span<std::byte> scratch() noexcept { return scratch_; }
  void make_ready(Connection& connection);
  /// A connection is made ready when its transfers have something to say.
  void watch_transfers(const Connection& connection, int descriptor);
  void forget_transfers(int descriptor);

 private:
  void loop();
  void wait();
  void accept_all(std::size_t listener);
  void pause_listening(bool is_paused);
  void open(tcp::Descriptor socket, std::string host);
  void run_posted();
  void run_turns();
  void tick();
  bool watch(int fd, std::uint32_t events, std::uint64_t id);

  Node& node_;
  Janitor& janitor_;
  const numa::Node* near_;
  Tally& tally_;
  tcp::Descriptor epoll_, bell_;
  std::vector<std::byte> scratch_;
  std::vector<tcp::Descriptor> listeners_;
  Accepted accepted_;
  bool is_paused_ = false;  // out of descriptors: listening goes on at the next tick

  std::unordered_map<std::uint64_t, std::unique_ptr<Connection>> connections_;
  std::uint64_t next_id_;
  std::vector<std::uint64_t> ready_;  // ids of connections with work, in turn
  std::int64_t ticked_ms_ = 0;
  std::atomic<std::size_t> load_{0};  // connections, those on their way included

  std::mutex mutex_;  // Guards: posted_. Held to swap it.
  std::vector<std::function<void()>> posted_;
  std::thread thread_;
};

}  // namespace gd2fs::serve
