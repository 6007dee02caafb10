#include "cuda.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <cstring>

namespace gd2fs::cuda {
namespace {

constexpr const char* NAME = "libcuda.so.1";

// Names of attributes, kinds of memory and flags, as in the driver's header: they never change.
constexpr int MEMORY_TYPE = 2, DEVICE_ORDINAL = 9, RANGE_START = 11, RANGE_SIZE = 12;
constexpr unsigned DEVICE_MEMORY = 2;
constexpr unsigned STREAM_NON_BLOCKING = 1;  // it waits for nobody's default stream
constexpr unsigned EVENT_DISABLE_TIMING = 2;
constexpr unsigned REGISTER_PORTABLE = 1;                  // for all contexts
constexpr int FLUSH_OPTIONS = 117, WRITES_ORDERING = 118;  // of GPUDirect RDMA
constexpr int ORDERED_FOR_OWNER = 100;
constexpr int FLUSH_BY_HOST = 1, OF_CURRENT_CONTEXT = 0, TO_OWNER = 100;

Pointer pointer_of(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

template <class Function>
bool find(void* library, const char* name, Function*& slot) {
  void* const found = dlsym(library, name);
  // POSIX promises that an object pointer of dlsym holds a function's address.
  std::memcpy(&slot, &found, sizeof slot);
  return found != nullptr;
}

/// The calls of 64-bit platforms have a version in their names.
bool find_all(void* library, Calls& calls) {
  find(library, "cuDeviceGetAttribute", calls.device_attribute);
  find(library, "cuFlushGPUDirectRDMAWrites", calls.flush_remote_writes);
  return find(library, "cuPointerGetAttributes", calls.pointer_attributes) &&
         find(library, "cuDeviceGetCount", calls.device_count) &&
         find(library, "cuDevicePrimaryCtxGetState", calls.context_state) &&
         find(library, "cuDevicePrimaryCtxRetain", calls.context_retain) &&
         find(library, "cuDevicePrimaryCtxRelease_v2", calls.context_release) &&
         find(library, "cuCtxPushCurrent_v2", calls.context_push) &&
         find(library, "cuCtxPopCurrent_v2", calls.context_pop) &&
         find(library, "cuStreamCreate", calls.stream_create) &&
         find(library, "cuStreamDestroy_v2", calls.stream_destroy) &&
         find(library, "cuStreamSynchronize", calls.stream_synchronize) &&
         find(library, "cuEventCreate", calls.event_create) &&
         find(library, "cuEventDestroy_v2", calls.event_destroy) &&
         find(library, "cuEventRecord", calls.event_record) &&
         find(library, "cuEventQuery", calls.event_query) &&
         find(library, "cuMemcpyHtoDAsync_v2", calls.copy_in) &&
         find(library, "cuMemcpyDtoHAsync_v2", calls.copy_out) &&
         find(library, "cuMemsetD8Async", calls.fill) &&
         find(library, "cuMemHostRegister_v2", calls.host_register) &&
         find(library, "cuMemHostUnregister", calls.host_unregister) &&
         find(library, "cuGetErrorName", calls.error_name);
}

}  // namespace

unsigned long long loads_so_far() noexcept {
  unsigned long long loads = 0;
  const auto look = [](dl_phdr_info* info, std::size_t, void* out) {
    // What `out` points to is `loads`. The first library tells as much as all of them.
    *static_cast<unsigned long long*>(out) = info->dlpi_adds;
    return 1;
  };
  dl_iterate_phdr(look, &loads);
  return loads;
}

bool is_device_memory(const void* at, std::size_t bytes) {
  const DriverRef driver = Driver::loaded();
  const auto allocation = driver == nullptr ? std::nullopt : driver->allocation_of(at);
  return allocation && bytes > 0 &&
         bytes <= allocation->bytes - (pointer_of(at) - allocation->begin);
}

std::shared_ptr<const Driver> Driver::loaded() {
  void* const library = dlopen(NAME, RTLD_NOW | RTLD_NOLOAD);  // kept for as long as the process
  if (library == nullptr) return nullptr;
  std::shared_ptr<Driver> driver(new Driver);
  return find_all(library, driver->calls_) ? driver : nullptr;
}

std::optional<Allocation> Driver::allocation_of(const void* at) const {
  unsigned kind = 0;
  Allocation allocation;
  Status status = ask(at, kind, allocation);
  if (status == INVALID_CONTEXT) status = ask_in_some_context(at, kind, allocation);
  // A driver that nobody has initialised has given nobody memory.
  if (status != SUCCESS || kind != DEVICE_MEMORY) return std::nullopt;
  if (!allocation.has(at)) allocation = {allocation.device, pointer_of(at), 1};
  return allocation;
}

Status Driver::ask(const void* at, unsigned& kind, Allocation& allocation) const {
  std::array names{MEMORY_TYPE, DEVICE_ORDINAL, RANGE_START, RANGE_SIZE};
  Pointer begin = 0;
  std::size_t bytes = 0;
  std::array<void*, names.size()> values{&kind, &allocation.device, &begin, &bytes};
  const Status status = calls_.pointer_attributes(static_cast<unsigned>(names.size()), names.data(),
                                                  values.data(), pointer_of(at));
  allocation.begin = begin;
  allocation.bytes = bytes;
  return status;
}

/// Some thread of the process has a context, and this one has none.
Status Driver::ask_in_some_context(const void* at, unsigned& kind, Allocation& allocation) const {
  int count = 0;
  if (calls_.device_count(&count) != SUCCESS) return INVALID_CONTEXT;
  for (int device = 0; device < count; ++device) {
    unsigned flags = 0;
    int is_active = 0;
    Handle context = nullptr;
    const bool is_used = calls_.context_state(device, &flags, &is_active) == SUCCESS && is_active;
    if (!is_used || calls_.context_retain(&context, device) != SUCCESS) continue;
    Status status = calls_.context_push(context);
    if (status == SUCCESS) {
      status = ask(at, kind, allocation);
      calls_.context_pop(&context);
    }
    calls_.context_release(device);
    if (status == SUCCESS) return status;
  }
  return INVALID_CONTEXT;
}

std::string Driver::fault(const char* call, Status status) const {
  const char* name = nullptr;
  const bool is_known = calls_.error_name(status, &name) == SUCCESS && name != nullptr;
  return std::string(call) + ": " + (is_known ? name : std::to_string(status));
}

Result<std::unique_ptr<Device>> Device::open(DriverRef driver, int number) {
  std::unique_ptr<Device> device(new Device(std::move(driver), number));
  const Calls& calls = device->driver_->calls();
  const std::string who = "GPU " + std::to_string(number);
  if (const Status status = calls.context_retain(&device->context_, number); status != SUCCESS) {
    device->context_ = nullptr;
    return Error{who + ": " + device->driver_->fault("cuDevicePrimaryCtxRetain", status), ""};
  }
  device->learn_of_remote_writes();
  const Current current(*device);
  const Status status = calls.stream_create(&device->stream_, STREAM_NON_BLOCKING);
  if (status == SUCCESS) return device;
  device->stream_ = nullptr;
  return Error{who + ": " + device->driver_->fault("cuStreamCreate", status), ""};
}

Device::~Device() {
  const Calls& calls = driver_->calls();
  if (context_ == nullptr) return;
  if (stream_ != nullptr) {
    const Current current(*this);
    calls.stream_synchronize(stream_);
    calls.stream_destroy(stream_);
  }
  calls.context_release(number_);
}

Device::Current::Current(const Device& device)
    : calls_(device.driver_->calls()),
      is_pushed_(calls_.context_push(device.context_) == SUCCESS) {}

Device::Current::~Current() {
  Handle context = nullptr;
  if (is_pushed_) calls_.context_pop(&context);
}

std::string Device::copy_in(std::byte* device, const std::byte* host, std::size_t bytes) const {
  const Status status = driver_->calls().copy_in(pointer_of(device), host, bytes, stream_);
  return status == SUCCESS ? "" : driver_->fault("cuMemcpyHtoDAsync", status);
}

std::string Device::copy_out(std::byte* host, const std::byte* device, std::size_t bytes) const {
  const Status status = driver_->calls().copy_out(host, pointer_of(device), bytes, stream_);
  return status == SUCCESS ? "" : driver_->fault("cuMemcpyDtoHAsync", status);
}

std::string Device::fill_zero(std::byte* device, std::size_t bytes) const {
  const Status status = driver_->calls().fill(pointer_of(device), 0, bytes, stream_);
  if (status != SUCCESS) return driver_->fault("cuMemsetD8Async", status);
  const Status ended = driver_->calls().stream_synchronize(stream_);
  return ended == SUCCESS ? "" : driver_->fault("cuStreamSynchronize", ended);
}

Handle Device::mark() const {
  const Calls& calls = driver_->calls();
  Handle event = nullptr;
  if (calls.event_create(&event, EVENT_DISABLE_TIMING) != SUCCESS) return nullptr;
  if (calls.event_record(event, stream_) == SUCCESS) return event;
  calls.event_destroy(event);
  return nullptr;
}

Device::Reached Device::is_reached(Handle event) const {
  const Status status = driver_->calls().event_query(event);
  if (status == NOT_READY) return Reached::no;
  return status == SUCCESS ? Reached::yes : Reached::failed;
}

void Device::drop(Handle event) const { driver_->calls().event_destroy(event); }

void Device::wait() const { driver_->calls().stream_synchronize(stream_); }

void Device::learn_of_remote_writes() {
  const Calls& calls = driver_->calls();
  if (calls.device_attribute == nullptr) return;
  const auto ask = [&](int attribute) {
    int value = 0;
    return calls.device_attribute(&value, attribute, number_) == SUCCESS ? value : 0;
  };
  is_ordered_ = ask(WRITES_ORDERING) >= ORDERED_FOR_OWNER;
  has_flush_ = calls.flush_remote_writes != nullptr && (ask(FLUSH_OPTIONS) & FLUSH_BY_HOST) != 0;
}

std::string Device::settle_remote_writes() const {
  if (is_ordered_) return {};
  const Status status = driver_->calls().flush_remote_writes(OF_CURRENT_CONTEXT, TO_OWNER);
  return status == SUCCESS ? "" : driver_->fault("cuFlushGPUDirectRDMAWrites", status);
}

bool Device::pin(std::byte* at, std::size_t bytes) const {
  return driver_->calls().host_register(at, bytes, REGISTER_PORTABLE) == SUCCESS;
}

void Device::unpin(std::byte* at) const { driver_->calls().host_unregister(at); }

}  // namespace gd2fs::cuda
