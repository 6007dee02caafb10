// Transfers: what a node moves into and out of one client's memory, beside the stream that asks for
// it (transport/ucx_worker.h).
//
// One stream has one of these, with a worker of its own: so it ends with its stream, at once, and
// with it all that was under way. Nothing that moves is let go before that, or before UCX has ended
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/ucx_worker.h"
#include "wire.h"

namespace gd2fs::serve {

/// What a client has registered, as a KEY has told.
struct Registered {
  std::uint64_t at = 0, length = 0;
  ucx::RemoteKeyRef key;  // nothing once the transfers are at their end: it lies in their worker
};

/// Memory of the client that a request has named, and was found to be registered.
struct Target {
  std::uint64_t at = 0;  // in the client's process
  std::uint64_t length = 0;
  std::shared_ptr<const Registered> in;
};

/// A place in a list of targets, which outlives it.
class TargetCursor {
 public:
  TargetCursor() = default;
  explicit TargetCursor(std::span<const Target> targets) : targets_(targets) {}

  /// Steps over so many bytes, which are there.
  void skip(std::uint64_t bytes);
  /// Appends the moves of a run to or from here, cut where targets end. It fits (asserted).
  void pair(std::span<std::byte> run, std::vector<ucx::Move>& moves,
            std::vector<ucx::RemoteKeyRef>& keys);

 private:
  std::span<const Target> targets_;
  std::uint64_t done_ = 0;  // of the first of targets_
};

/// Of one thread.
class Transfers {
 public:
  /// `memory`: the arena's registration.
  static Result<std::unique_ptr<Transfers>> open(const ucx::ContextRef& context,
                                                 ucx::MemoryRef memory);
  ~Transfers();  // ends all that is under way, as failed
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  /// To the client's worker, once. `told`: why not, or nothing once it is reached.
  void connect(std::span<const std::byte> address, std::function<void(std::string)> told);
  bool is_connected() const noexcept { return is_connected_; }
  /// Notes, or forgets, what the client has registered. A fault: one line.
  std::string take(const wire::Key& key);
  /// Nothing: a sink lies in no memory that was registered.
  std::optional<std::vector<Target>> find(std::span<const wire::Sink> sinks) const;

  /// May more be started?
  bool has_room() const noexcept { return bytes_ < TRANSFERS_BYTES_MAX; }
  /// `ended`: once, within `progress` or the end of this; true: all of it has arrived. Until then
  /// the memory on both sides stays as it is.
  void start(ucx::Way way, std::span<const ucx::Move> moves, std::vector<ucx::RemoteKeyRef> keys,
             std::function<void(bool)> ended);

  /// True: something happened, call it again.
  bool progress() { return worker_->progress(); }
  /// Readable when `progress` is worth a call, once `may_sleep` was true.
  int descriptor() const noexcept { return worker_->descriptor(); }
  bool may_sleep() { return worker_->may_sleep(bytes_ > 0); }
  /// A transfer has failed: no more are started, and only the end of this ends the others.
  bool is_broken() const noexcept { return is_broken_; }
  bool is_busy() const noexcept { return bytes_ > 0; }
  /// While it is busy: since when nothing has ended.
  std::int64_t waiting_since_ms() const noexcept { return moved_ms_; }

 private:
  Transfers(std::unique_ptr<ucx::Worker> worker, ucx::MemoryRef memory)
      : worker_(std::move(worker)), memory_(std::move(memory)) {}

  void forget(std::uint32_t number);

  std::unique_ptr<ucx::Worker> worker_;
  const ucx::MemoryRef memory_;
  std::unique_ptr<ucx::Endpoint> endpoint_;
  std::unordered_map<std::uint32_t, std::shared_ptr<Registered>> registered_;
  std::vector<std::weak_ptr<Registered>> forgotten_;  // that some request may still go to
  bool is_connected_ = false;
  bool is_broken_ = false;
  std::uint64_t bytes_ = 0;    // under way
  std::int64_t moved_ms_ = 0;  // when a transfer ended last, or the first began
};

}  // namespace gd2fs::serve
