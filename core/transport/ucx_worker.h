// UCX worker: the transfers of one thread. Nothing happens but in `progress`, and its descriptor
// tells when that is worth a call.
//
// Once a worker is destroyed, nobody reaches this process's memory through it, and it reaches
// nobody's: transports that need this side's processor have stopped, and queues of those that do
// not are gone. A peer that stands still may keep an endpoint from closing, but no worker from its
// end. So each stream has a worker of its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ucx_context.h"
#include "ucx_endpoint.h"

namespace gd2fs::ucx {

class Worker {
 public:
  ~Worker();  // its endpoints have been given to `close` (asserted); ends their transfers
  /// The end of one that may owe answers to a peer that stands still, or is gone. Without cards UCX
  /// cannot take such answers back: it ends the process (1.22.0). So the worker is never called
  /// again, which is as good, as there this side's processor does all the moving; it stays.
  static void strand(std::unique_ptr<Worker> worker);
  /// How many of this process stay.
  static std::size_t stranded();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Readable when there is something to do, once `arm` has said so.
  int descriptor() const noexcept { return descriptor_; }
  /// Does what can be done now. False: there was nothing.
  bool progress();
  /// Something is about to happen: from here on its thread stays awake for a little while.
  void expect();
  /// True: sleep on the descriptor. False: `progress` first. `is_moving`: bytes are under way, so
  /// for a little while after each step it is never time to sleep: waking takes longer.
  bool may_sleep(bool is_moving);
  /// What a peer needs to connect to it. Empty: UCX gives none.
  std::vector<std::byte> address() const;
  /// To the worker of that address, which UCX trusts: so must the caller. `on_broken`: once at
  /// most, within `progress`.
  Result<std::unique_ptr<Endpoint>> connect(std::span<const std::byte> address,
                                            std::function<void()> on_broken);
  /// Ends all transfers of an endpoint, as soon as nothing can touch their memory any more; then
  /// calls `closed`. Both within `progress` or the worker's end.
  void close(std::unique_ptr<Endpoint> endpoint, std::function<void()> closed);
  std::size_t closing() const noexcept { return closing_.size(); }

 private:
  friend class Context;
  friend class Endpoint;
  Worker(ContextRef context, abi::Worker* handle, int descriptor)
      : context_(std::move(context)), handle_(handle), descriptor_(descriptor) {}
  const Calls& calls() const noexcept { return context_->library().calls(); }
  /// Runs once UCX has returned.
  void later(std::function<void()> task) { tasks_.push_back(std::move(task)); }
  bool run_tasks();
  bool arm();
  void look_at(Endpoint& endpoint);

  const ContextRef context_;
  abi::Worker* const handle_;
  const int descriptor_;
  std::chrono::steady_clock::time_point awake_until_;
  std::vector<std::function<void()>> tasks_;
  std::vector<std::unique_ptr<Endpoint>> closing_;
  std::size_t endpoint_count_ = 0;  // closing ones included
  bool is_over_ = false;            // UCX has it no more
};

}  // namespace gd2fs::ucx
