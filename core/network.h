// Network: the I/O threads and one link per node of the map. What all calls of a client share.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "bootstrap.h"
#include "link.h"
#include "placement.h"

namespace gd2fs {

class Network {
 public:
  static Result<std::unique_ptr<Network>> open(const ClientOptions& options);
  explicit Network(const ClientOptions& options) : options_(options) {}  // for `open`
  ~Network();

  const ClientOptions& options() const noexcept { return options_; }
  const wire::Map& map() const noexcept { return map_; }
  std::span<const PlacedNode> placed() const noexcept { return placed_; }
  std::size_t node_count() const noexcept { return links_.size(); }
  Link& link(std::size_t node) noexcept { return *links_[node]; }
  std::size_t stream_count() const noexcept { return stream_count_; }  // of each link

  // Any thread.
  /// Runs on an I/O thread, not before `delay_ms` from now (at once while the client closes).
  void after(std::int64_t delay_ms, std::function<void()> task);
  void cancel(const std::shared_ptr<OperationState>& operation);

  /// Calls in progress. The last one gone, nothing of the caller's is referred to any more.
  void call_begins() { calls_.fetch_add(1); }
  void call_ends();

  /// Ends all calls as cancelled, waits for them, stops the threads. Not on an I/O thread.
  void close();

 private:
  Error add_links(const Bootstrapped& from, LinkOptions link_options);
  Error add_link(const wire::MapNode& node, const std::string& seed_host,
                 const LinkOptions& link_options);
  void look_up(std::size_t node);

  const ClientOptions options_;
  std::size_t stream_count_ = 1;
  wire::Map map_;
  std::vector<PlacedNode> placed_;
  std::vector<std::unique_ptr<IoThread>> threads_;
  std::vector<std::unique_ptr<Link>> links_;       // streams refer to threads_: destroyed first
  std::vector<std::vector<tcp::HostPort>> hosts_;  // by node: where the map says it is
  std::unique_ptr<IoThread> resolver_;             // asks the name service, which may take its time
  std::atomic<std::size_t> next_thread_{0};
  std::atomic<std::size_t> calls_{0};
  std::mutex mutex_;  // Guards: the step of calls_ to zero.
  std::condition_variable idle_;
  bool is_closed_ = false;
};

}  // namespace gd2fs
