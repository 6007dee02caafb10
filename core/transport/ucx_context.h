// UCX context: what all workers of a process share, and the memory that is registered with it.
//
// Memory that is taken back is taken back at once: UCX's cache of registrations, which would keep
// the memory open to remote keys, is off.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ucx_library.h"

namespace gd2fs::ucx {

/// Left out: UCX's ways within a host, as `cma`, `knem` and `xpmem` write into another process for
/// as long as the writer lives, and that process can do nothing about it; and `dc`, whose targets
/// serve all peers and cannot be closed for one.
inline constexpr const char* TRANSPORTS_DEFAULT = "^shm,dc";

/// Of a process: see `Worker::strand`. Each costs eight descriptors and up to 8 MB.
inline constexpr std::size_t STRANDED_MAX = 64;

struct Options {
  std::string library;                          // path of a libucp; empty: the system's
  std::string transports = TRANSPORTS_DEFAULT;  // as `UCX_TLS`
  std::size_t stranded_max = STRANDED_MAX;      // once so many workers are, none is made
};

/// May UCX use a card by these transports, where there is one? In the syntax of `UCX_TLS`.
bool allows_cards(std::string_view transports);
/// Has this machine a card, and may UCX use it? Looked up without UCX.
bool finds_cards(const std::string& transports);

class Context;
class Worker;

/// A registration. The memory outlives it.
class Memory {
 public:
  ~Memory();  // from here on no remote key reaches the memory
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::span<std::byte> bytes() const noexcept { return bytes_; }
  /// What a peer needs to reach it.
  std::span<const std::byte> key() const noexcept { return key_; }
  abi::Memory* handle() const noexcept { return handle_; }
  bool covers(std::span<const std::byte> part) const noexcept;
  /// Memory of a GPU, as UCX sees it. One that was built without CUDA takes it for the host's.
  bool is_device() const noexcept { return is_device_; }

 private:
  friend class Context;
  Memory(std::shared_ptr<Context> context, std::span<std::byte> bytes, abi::Memory* handle)
      : context_(std::move(context)), bytes_(bytes), handle_(handle) {}

  const std::shared_ptr<Context> context_;
  const std::span<std::byte> bytes_;
  abi::Memory* const handle_;
  std::vector<std::byte> key_;
  bool is_device_ = false;
};
using MemoryRef = std::shared_ptr<const Memory>;

/// Any thread.
class Context : public std::enable_shared_from_this<Context> {
 public:
  static Result<std::shared_ptr<Context>> open(const Options& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Library& library() const noexcept { return *library_; }
  /// Do cards move the bytes, of this machine and by these transports? Else processors do.
  bool has_cards() const noexcept { return has_cards_; }
  Result<MemoryRef> register_memory(std::span<std::byte> bytes);
  /// It belongs to the thread that uses it.
  Result<std::unique_ptr<Worker>> make_worker();

 private:
  friend class Memory;
  friend class Worker;
  explicit Context(LibraryRef library) : library_(std::move(library)) {}

  const LibraryRef library_;
  abi::Context* handle_ = nullptr;
  std::size_t stranded_max_ = STRANDED_MAX;
  bool has_cards_ = false;
  // Guards: registrations, and workers as they come and go. UCX has a lock of its own for most of
  // this, by its version.
  std::mutex mutex_;
};
using ContextRef = std::shared_ptr<Context>;

}  // namespace gd2fs::ucx
