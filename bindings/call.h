// Call: one operation as Python sees it, with the memory that it borrows.
//
// The memory goes back to its owners when the Call was waited for to its end, or dies; a Call that
// dies early cancels its operation and waits for its end first. So no thread of the client ever
// touches memory given back.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <memory>
#include <shared_mutex>

#include "../core/client.h"
#include "borrow.h"

namespace gd2fs::bindings {

/// As a cookie: not announced, and the caller is about to wait.
inline constexpr std::uint64_t COOKIE_WAITED = ~std::uint64_t{0};

/// A client that may be closed while other threads use it.
class SharedClient {
 public:
  explicit SharedClient(std::unique_ptr<Client> client) : client_(std::move(client)) {}
  ~SharedClient() { close(); }

  /// Runs `use` with the open client; false when it is closed. Without the GIL only.
  bool with(const std::function<void(Client&)>& use);
  /// Ends all operations and joins the client's threads. Without the GIL, or where no other
  /// thread of Python is waiting for this one: the client's own threads never take the GIL.
  void close();

 private:
  std::shared_mutex lock_;  // Guards: client_. Held while an operation starts, never while it runs.
  std::unique_ptr<Client> client_;
};

class Call {
 public:
  Call(std::shared_ptr<SharedClient> client, Borrowed borrowed)
      : client_(std::move(client)), borrowed_(std::move(borrowed)) {}
  ~Call();

  using Start = std::function<OperationRef(Client&, const Borrowed&)>;
  /// Starts the operation without the GIL. Raises Closed. `is_waited`: stays without it for the
  /// time that it may be over soon. To take the lock between the two would cost whoever waits for
  /// it, and this thread, where another one computes, a switch interval (5 ms) to get it.
  void start(const Start& start, bool is_waited = false);

  /// Until done, which gives the buffers back, or until `timeout_ms` passed (< 0: no limit):
  /// false. Signals are handled; when a handler raises, the operation is cancelled and awaited.
  bool wait(std::int64_t timeout_ms);
  void cancel();
  bool is_done() const { return operation_->is_done(); }
  std::uint64_t progress() const { return operation_->progress(); }
  std::uint64_t buffer_bytes() const { return borrowed_.bytes(); }
  /// Of the buffers of this page; 0 when there are none.
  std::uint64_t page_bytes(std::size_t page) const { return borrowed_.page_bytes(page); }
  /// Raises InvalidRequest while the operation is under way.
  const Outcome& outcome() const;

 private:
  bool wait_without_gil(std::int64_t timeout_ms);
  void cancel_without_gil();

  std::shared_ptr<SharedClient> client_;
  Borrowed borrowed_;
  OperationRef operation_;
};

void bind_call(nanobind::module_& module);

}  // namespace gd2fs::bindings
