// Lease keeper: tells a node which of its leases are over, for as long as anyone has one.
//
// It outlives the client that took the leases: without streams of its own it opens a connection,
// says so, and closes it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "token.h"
#include "wire.h"

namespace gd2fs {

class Link;

class LeaseKeeper {
 public:
  LeaseKeeper(Link& link, std::string socket_name, wire::Hello hello, TokenSourceRef token)
      : link_(&link),
        socket_name_(std::move(socket_name)),
        hello_(std::move(hello)),
        token_(std::move(token)) {}

  /// Any thread.
  void release(std::uint64_t lease);
  /// What a stream has to tell the node now.
  std::vector<std::uint64_t> take();
  /// What a stream told it, and was lost before the node said that it heard.
  void take_back(std::span<const std::uint64_t> leases);
  /// Is there something to tell? Without a lock.
  bool is_waiting() const noexcept { return is_waiting_.load(); }
  /// The link is going, and its threads are gone.
  void detach();

 private:
  void tell_alone(const std::vector<std::uint64_t>& leases) const;

  std::mutex
      mutex_;  // Guards: link_, released_. Held while a stream is woken, not while one talks.
  Link* link_;
  std::vector<std::uint64_t> released_;
  std::atomic<bool> is_waiting_{false};  // some are released; written under the lock
  const std::string socket_name_;
  const wire::Hello hello_;
  const TokenSourceRef token_;
};

/// One lease. It is released when this goes.
class LeaseHold {
 public:
  LeaseHold(std::shared_ptr<LeaseKeeper> keeper, std::uint64_t lease)
      : keeper_(std::move(keeper)), lease_(lease) {}
  LeaseHold(LeaseHold&& other) noexcept = default;
  LeaseHold& operator=(LeaseHold&& other) noexcept {
    std::swap(keeper_, other.keeper_);
    std::swap(lease_, other.lease_);
    return *this;
  }
  ~LeaseHold() {
    if (keeper_ != nullptr) keeper_->release(lease_);
  }

  std::uint64_t lease() const noexcept { return lease_; }

 private:
  std::shared_ptr<LeaseKeeper> keeper_;
  std::uint64_t lease_;
};

}  // namespace gd2fs
