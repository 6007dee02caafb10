// Call: what a client's call does between its start and its end, as a chain of steps on I/O
// threads. Each step sends requests to nodes; the last answer starts the next step.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "network.h"
#include "operation.h"
#include "rpc.h"

namespace gd2fs {

/// Where a call belongs: shared by the calls that one operation is made of.
struct CallContext {
  Network& network;
  std::shared_ptr<OperationState> operation;
  std::int64_t deadline_ms;
  CallOptions options;
};

/// Decides where a row of items is cut into requests: within the limits of the wire, and of bodies.
class Cutter {
 public:
  Cutter(wire::Op op, std::uint64_t bytes_max) : op_(op), bytes_max_(bytes_max) {}

  /// True: this item begins a new request. The first one does.
  bool begins(std::size_t name_bytes, std::uint64_t body_bytes);

 private:
  const wire::Op op_;
  const std::uint64_t bytes_max_;
  std::size_t items_ = 0;
  std::size_t names_bytes_ = 0;
  std::uint64_t bytes_ = 0;
};

class Call : public std::enable_shared_from_this<Call> {
 public:
  using OnEnd = std::function<void(Outcome)>;

  Call(CallContext context, OnEnd on_end)
      : context_(std::move(context)), on_end_(std::move(on_end)) {}
  virtual ~Call() = default;

 protected:
  struct Sent {
    std::size_t node;
    RpcRef rpc;
    std::vector<std::uint32_t> others{};  // a read's, by item: who may have it too; see Hedge
  };

  const CallContext& context() const noexcept { return context_; }
  Network& network() const noexcept { return context_.network; }
  const CallOptions& options() const noexcept { return context_.options; }
  RpcRef new_rpc(wire::Op op) const;
  /// How many of `bytes` that are read from a node one request asks for: all its streams have a
  /// share, and end together.
  std::uint64_t share_bytes(std::size_t node, std::uint64_t bytes) const;

  /// Sends all of `sent()`; `then` runs once, when all have ended.
  void scatter(std::vector<Sent> rpcs, std::function<void()> then);
  /// The same for one.
  void send(std::size_t node, RpcRef rpc, std::function<void()> then);
  const std::vector<Sent>& sent() const noexcept { return sent_; }
  /// An earlier answer stands in for the last one.
  void restore(Sent earlier) { sent_.assign(1, std::move(earlier)); }
  const Rpc& answer() const noexcept { return *sent_.front().rpc; }
  /// The single item's status, or why there is no answer.
  Status answer_status() const noexcept { return answer().item_status(0); }

  /// Runs `then` after a pause. False: the deadline comes first.
  bool after(std::int64_t delay_ms, std::function<void()> then);
  std::int64_t left_ms() const { return context_.deadline_ms - now_ms(); }

  /// Once. The rest of the call's memory goes with its last step.
  void finish(Outcome outcome);
  void finish(Status status) { finish(outcome_of(status)); }
  /// With a message that says what was tried, on which node, and what came back.
  void fail(Status status, const std::string& what, std::size_t node);

 private:
  CallContext context_;
  OnEnd on_end_;
  std::vector<Sent> sent_;
};

}  // namespace gd2fs
