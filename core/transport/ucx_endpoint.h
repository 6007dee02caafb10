// UCX endpoint: one way transfers into and out of a peer's memory. The peer does nothing for it, as
// far as this side can see.
//
// A transfer has ended when it has arrived: its pieces are done, and a flush behind them has told
// that the peer's memory has them. UCX cannot take one back. So after a fault the memory of all
// transfers stays theirs until the endpoint is closed and its worker has flushed what was under
// way, or until the worker is gone.
//
// Where processors move the bytes UCX is not asked to handle faults of peers: it would move them
// by messages, which end the process when their answer finds nobody (UCX 1.2x). Whoever uses it
// knows by other means that a peer is gone, and ends the worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "ucx_context.h"

namespace gd2fs::ucx {

class Worker;

/// A peer's registered memory, as one endpoint reaches it.
class RemoteKey {
 public:
  ~RemoteKey() { calls_.rkey_destroy(handle_); }
  RemoteKey(const RemoteKey&) = delete;
  RemoteKey& operator=(const RemoteKey&) = delete;
  abi::RemoteKey* handle() const noexcept { return handle_; }

 private:
  friend class Endpoint;
  RemoteKey(const Calls& calls, abi::RemoteKey* handle) : calls_(calls), handle_(handle) {}
  const Calls& calls_;
  abi::RemoteKey* const handle_;
};
using RemoteKeyRef = std::shared_ptr<const RemoteKey>;

/// Bytes here, and where they are there.
struct Move {
  std::span<std::byte> here;
  std::uint64_t there = 0;  // an address of the peer
  const RemoteKey* key = nullptr;
};

enum class Way : std::uint8_t { put, get };

/// Lives as long as its worker, and on its thread; ended by `Worker::close`.
class Endpoint {
 public:
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// `packed`: of the peer's `Memory::key`. UCX trusts it: so must the caller.
  Result<RemoteKeyRef> unpack(std::span<const std::byte> packed);
  /// Starts all moves and the flush behind them. `memory`: where all of `here` is registered;
  /// nothing: UCX registers what it has to. `keys` are kept. `ended`: once, within
  /// `Worker::progress` or the worker's end; true: all of it has arrived. Until then the memory
  /// here stays as it is, or is not read.
  void transfer(Way way, std::span<const Move> moves, const MemoryRef& memory,
                std::vector<RemoteKeyRef> keys, std::function<void(bool)> ended);
  bool is_broken() const noexcept { return is_broken_; }
  std::size_t transfers() const noexcept { return transfers_.size(); }

 private:
  friend class Worker;
  struct Transfer {
    Endpoint& endpoint;
    MemoryRef memory;
    std::vector<RemoteKeyRef> keys;
    std::function<void(bool)> ended;
    std::list<Transfer>::iterator self{};
    std::size_t left = 1;  // calls of UCX that have not ended; and one while they are made
    bool has_failed = false;
  };

  Endpoint(Worker& worker, std::function<void()> on_broken)
      : worker_(worker), on_broken_(std::move(on_broken)) {}
  static void broken(void* endpoint, abi::Endpoint* handle, abi::Status status);
  static void moved(void* request, abi::Status status, void* transfer);
  static void closed(void* request, abi::Status status, void* endpoint);
  static void flushed(void* request, abi::Status status, void* endpoint);
  void note(abi::Request request, Transfer& transfer);
  void step_done(Transfer& transfer, abi::Status status);
  void break_off();
  void close(std::function<void()> when_closed);
  void flush_worker();
  void end_all();

  Worker& worker_;
  abi::Endpoint* handle_ = nullptr;
  std::function<void()> on_broken_;
  std::list<Transfer> transfers_;
  bool is_broken_ = false;
  bool is_flushed_ = false;  // closed, and so is all that was under way
  std::function<void()> when_closed_;
};

}  // namespace gd2fs::ucx
