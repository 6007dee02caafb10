// GPU: memory of a GPU for tests, by whichever driver they are given: the fake one, or the real one
// of a machine that has it (`GD2FS_TEST_CUDA=libcuda.so.1`).
#pragma once

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "../local_cluster.h"

namespace gd2fs::testing {

class Gpu {
 public:
  using Pointer = unsigned long long;

  /// Loads the driver into this process, for good.
  static Gpu& the() {
    static Gpu gpu;
    return gpu;
  }
  bool is_there() const { return library_ != nullptr; }
  /// The driver can be told to fail, and says what it did.
  bool is_fake() const { return fail != nullptr; }

  Pointer allocate(std::size_t bytes) const {
    Pointer at = 0;
    REQUIRE(allocate_(&at, bytes) == 0);
    return at;
  }
  void release(Pointer at) const { release_(at); }
  void copy_in(Pointer to, const void* from, std::size_t bytes) const {
    REQUIRE(copy_in_(to, from, bytes) == 0);
  }
  void copy_out(void* to, Pointer from, std::size_t bytes) const {
    REQUIRE(copy_out_(to, from, bytes) == 0);
  }

  // Of the fake alone.
  void (*fail)(const char* call, int after, int status) = nullptr;
  void (*slow)(int microseconds) = nullptr;
  void (*hold)(int held) = nullptr;
  void (*strict)(int strict) = nullptr;
  void (*open)(int open) = nullptr;
  void (*order)(int order) = nullptr;
  void (*spoil)(int spoil) = nullptr;
  long (*flushes)() = nullptr;
  long (*copies_in)() = nullptr;
  long (*copies_out)() = nullptr;
  long (*faults)() = nullptr;
  int (*pending)() = nullptr;

 private:
  Gpu() {
    const char* const named = std::getenv("GD2FS_TEST_CUDA");
    library_ = dlopen(named != nullptr ? named : GD2FS_FAKE_CUDA, RTLD_NOW | RTLD_GLOBAL);
    if (library_ == nullptr) return;
    find(allocate_, "cuMemAlloc_v2");
    find(release_, "cuMemFree_v2");
    find(copy_in_, "cuMemcpyHtoD_v2");
    find(copy_out_, "cuMemcpyDtoH_v2");
    find(fail, "fake_cuda_fail");
    find(slow, "fake_cuda_slow");
    find(hold, "fake_cuda_hold");
    find(strict, "fake_cuda_strict");
    find(open, "fake_cuda_open");
    find(order, "fake_cuda_order");
    find(spoil, "fake_cuda_spoil");
    find(flushes, "fake_cuda_flushes");
    find(copies_in, "fake_cuda_copies_in");
    find(copies_out, "fake_cuda_copies_out");
    find(faults, "fake_cuda_faults");
    find(pending, "fake_cuda_pending");
    int (*init)(unsigned) = nullptr;
    int (*retain)(void**, int) = nullptr;
    int (*push)(void*) = nullptr;
    find(init, "cuInit");
    find(retain, "cuDevicePrimaryCtxRetain");
    find(push, "cuCtxPushCurrent_v2");
    void* context = nullptr;
    if (init(0) != 0 || retain(&context, 0) != 0 || push(context) != 0) library_ = nullptr;
  }
  template <class Function>
  void find(Function*& slot, const char* name) {
    void* const found = dlsym(library_, name);
    std::memcpy(&slot, &found, sizeof slot);  // POSIX: dlsym's pointer holds a function's address
  }

  void* library_ = nullptr;
  int (*allocate_)(Pointer*, std::size_t) = nullptr;
  int (*release_)(Pointer) = nullptr;
  int (*copy_in_)(Pointer, const void*, std::size_t) = nullptr;
  int (*copy_out_)(void*, Pointer, std::size_t) = nullptr;
};

/// Bytes in memory of the GPU.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes)
      : at_(Gpu::the().allocate(std::max<std::size_t>(bytes, 1))), bytes_(bytes) {
    set(Memory(bytes, std::byte{0xEE}));
  }
  explicit DeviceMemory(const Memory& content) : DeviceMemory(content.size()) { set(content); }
  ~DeviceMemory() { Gpu::the().release(at_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void set(const Memory& content) { Gpu::the().copy_in(at_, content.data(), content.size()); }
  Memory content() const {
    Memory out(bytes_);
    Gpu::the().copy_out(out.data(), at_, bytes_);
    return out;
  }
  Buffer part(std::size_t offset, std::size_t bytes) const {
    // An address that only the driver can follow.
    return {reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(at_)) + offset, bytes};
  }
  Buffer all() const { return part(0, bytes_); }

 private:
  Gpu::Pointer at_;
  std::size_t bytes_;
};

}  // namespace gd2fs::testing
