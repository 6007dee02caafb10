// CUDA: NVIDIA's driver, where this process has loaded it already. Never linked, never loaded here:
// whoever has memory of a GPU has loaded it. Its part that is used is written down below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "error.h"

namespace gd2fs::cuda {

// The driver's binary interface, as of CUDA 10 and newer.
using Status = int;  // 0: done
using Pointer = unsigned long long;
using Handle = void*;  // of a context, a stream, an event

inline constexpr Status SUCCESS = 0;
inline constexpr Status INVALID_CONTEXT = 201;
inline constexpr Status NOT_READY = 600;

struct Calls {
  Status (*pointer_attributes)(unsigned count, int* names, void** values, Pointer at) = nullptr;
  Status (*device_count)(int* count) = nullptr;
  Status (*context_state)(int device, unsigned* flags, int* is_active) = nullptr;
  Status (*context_retain)(Handle* context, int device) = nullptr;
  Status (*context_release)(int device) = nullptr;
  Status (*context_push)(Handle context) = nullptr;
  Status (*context_pop)(Handle* context) = nullptr;
  Status (*stream_create)(Handle* stream, unsigned flags) = nullptr;
  Status (*stream_destroy)(Handle stream) = nullptr;
  Status (*stream_synchronize)(Handle stream) = nullptr;
  Status (*event_create)(Handle* event, unsigned flags) = nullptr;
  Status (*event_destroy)(Handle event) = nullptr;
  Status (*event_record)(Handle event, Handle stream) = nullptr;
  Status (*event_query)(Handle event) = nullptr;
  Status (*copy_in)(Pointer to, const void* from, std::size_t bytes, Handle stream) = nullptr;
  Status (*copy_out)(void* to, Pointer from, std::size_t bytes, Handle stream) = nullptr;
  Status (*fill)(Pointer at, unsigned char value, std::size_t count, Handle stream) = nullptr;
  Status (*host_register)(void* at, std::size_t bytes, unsigned flags) = nullptr;
  Status (*host_unregister)(void* at) = nullptr;
  Status (*error_name)(Status status, const char** name) = nullptr;
  // Of CUDA 11.3 and newer; nullptr before.
  Status (*device_attribute)(int* value, int attribute, int device) = nullptr;
  Status (*flush_remote_writes)(int target, int scope) = nullptr;
};

/// An allocation of one GPU's memory.
struct Allocation {
  int device = 0;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;

  bool has(const void* at) const noexcept {
    return reinterpret_cast<std::uintptr_t>(at) - begin < bytes;  // compared as numbers only
  }
};

/// Is all of this range memory of a GPU?
bool is_device_memory(const void* at, std::size_t bytes);

/// How many libraries this process has loaded so far: as long as it stays, `loaded` has no other
/// answer. Quick, where `loaded` asks the file system.
unsigned long long loads_so_far() noexcept;

class Driver {
 public:
  /// The driver that this process has loaded; nullptr: none, or one that lacks some call.
  static std::shared_ptr<const Driver> loaded();

  const Calls& calls() const noexcept { return calls_; }
  /// The allocation that an address belongs to; nothing for memory of the host.
  std::optional<Allocation> allocation_of(const void* at) const;
  /// `cuMemcpyHtoDAsync: CUDA_ERROR_LAUNCH_FAILED`
  std::string fault(const char* call, Status status) const;

 private:
  Driver() = default;
  Status ask(const void* at, unsigned& kind, Allocation& allocation) const;
  Status ask_in_some_context(const void* at, unsigned& kind, Allocation& allocation) const;

  Calls calls_;
};
using DriverRef = std::shared_ptr<const Driver>;

/// One GPU: its primary context, which the process shares with whoever uses it, and one stream of
/// our own. Any thread, one at a time for copies.
class Device {
 public:
  static Result<std::unique_ptr<Device>> open(DriverRef driver, int number);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// The context is this thread's own for as long as this lives.
  class Current {
   public:
    explicit Current(const Device& device);
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    const Calls& calls_;
    bool is_pushed_ = false;
  };

  // Within Current. Empty: begun. Else why not; what was begun before may still be under way.
  std::string copy_in(std::byte* device, const std::byte* host, std::size_t bytes) const;
  std::string copy_out(std::byte* host, const std::byte* device, std::size_t bytes) const;
  /// Fills with zeros, and waits for it.
  std::string fill_zero(std::byte* device, std::size_t bytes) const;
  /// An event that comes after all that was begun so far; nullptr where there is none.
  Handle mark() const;
  enum class Reached { yes, no, failed };
  Reached is_reached(Handle event) const;
  void drop(Handle event) const;
  /// Waits until nothing is under way.
  void wait() const;
  /// May others than its processors write to its memory, and it sees that in the end?
  bool takes_remote_writes() const noexcept { return is_ordered_ || has_flush_; }
  /// What has been written so is seen by all work that is begun from here on. Empty, or why not.
  std::string settle_remote_writes() const;
  /// Pins memory of the host, for copies without one more in between; false: refused.
  bool pin(std::byte* at, std::size_t bytes) const;
  void unpin(std::byte* at) const;

 private:
  Device(DriverRef driver, int number) : driver_(std::move(driver)), number_(number) {}
  void learn_of_remote_writes();

  DriverRef driver_;
  const int number_;
  Handle context_ = nullptr;
  Handle stream_ = nullptr;
  bool is_ordered_ = false;  // it sees them by itself
  bool has_flush_ = false;
};

}  // namespace gd2fs::cuda
