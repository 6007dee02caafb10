// UCX's binary interface, as far as it is used here: the library is found at run time, so nothing
// of it has to be there when this is built. Structures may be shorter than the library's own: it
// reads only fields whose bit is set. `test_ucx_abi` compares all of it with UCX's headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gd2fs::ucx::abi {

struct Context;
struct Worker;
struct Endpoint;
struct Memory;
struct RemoteKey;
struct Config;
struct Address;

using Status = std::int8_t;  // UCX packs this enumeration: the rest of a register is not its own
inline constexpr Status OK = 0;
inline constexpr Status IN_PROGRESS = 1;
inline constexpr Status BUSY = -15;
inline constexpr Status LAST_ERROR = -100;

inline constexpr std::uint64_t FEATURE_RMA = 1u << 1;
inline constexpr std::uint64_t FEATURE_WAKEUP = 1u << 4;
inline constexpr int THREADS_MULTI = 2;  // of ucs_thread_mode_t

inline constexpr std::uint64_t PARAMS_FEATURES = 1u << 0;
inline constexpr std::uint64_t PARAMS_SHARED_BY_THREADS = 1u << 5;

struct Params {
  std::uint64_t fields = 0;
  std::uint64_t features = 0;
  std::uint64_t unused[4] = {};
  int is_shared_by_threads = 0;
};

inline constexpr std::uint64_t CONTEXT_THREAD_MODE = 1u << 1;

struct ContextFacts {
  std::uint64_t fields = 0;
  std::uint64_t request_bytes = 0;
  int thread_mode = 0;
  std::uint64_t unused[32] = {};
};

struct WorkerParams {  // none is set: a worker belongs to one thread
  std::uint64_t fields = 0;
};

inline constexpr std::uint64_t ENDPOINT_ADDRESS = 1u << 0;
inline constexpr std::uint64_t ENDPOINT_ERROR_MODE = 1u << 1;
inline constexpr std::uint64_t ENDPOINT_ERROR_HANDLER = 1u << 2;
inline constexpr unsigned ERRORS_OF_NOBODY = 0;
inline constexpr unsigned ERRORS_OF_PEER = 1;

using ErrorHandler = void (*)(void* argument, Endpoint* endpoint, Status status);

struct EndpointParams {
  std::uint64_t fields = 0;
  const Address* address = nullptr;
  unsigned error_mode = 0;
  ErrorHandler on_error = nullptr;
  void* argument = nullptr;
};

inline constexpr std::uint64_t MEMORY_ADDRESS = 1u << 0;
inline constexpr std::uint64_t MEMORY_LENGTH = 1u << 1;

struct MemoryParams {
  std::uint64_t fields = 0;
  void* address = nullptr;
  std::size_t length = 0;
};

inline constexpr std::uint64_t MEMORY_KIND = 1u << 2;
inline constexpr int KIND_CUDA = 1;

struct MemoryFacts {
  std::uint64_t fields = 0;
  void* address = nullptr;
  std::size_t length = 0;
  int kind = 0;
  std::uint64_t unused[32] = {};
};

inline constexpr std::uint32_t REQUEST_CALLBACK = 1u << 1;
inline constexpr std::uint32_t REQUEST_USER_DATA = 1u << 2;
inline constexpr std::uint32_t REQUEST_FLAGS = 1u << 4;
inline constexpr std::uint32_t REQUEST_MEMORY = 1u << 8;
inline constexpr std::uint32_t CLOSE_BY_FORCE = 1u << 0;

using Callback = void (*)(void* request, Status status, void* user_data);

struct RequestParam {
  std::uint32_t fields = 0;
  std::uint32_t flags = 0;
  void* request = nullptr;
  Callback callback = nullptr;
  std::uint64_t datatype = 0;
  void* user_data = nullptr;
  void* unused[3] = {};
  Memory* memory = nullptr;
};

/// What a call that goes on gives back: nothing when it has ended, a status, or a request.
using Request = void*;
inline bool is_error(Request request) noexcept {
  return reinterpret_cast<std::intptr_t>(request) < 0 &&  // statuses are small negative numbers
         reinterpret_cast<std::intptr_t>(request) >= LAST_ERROR;
}
inline Status status_of(Request request) noexcept {
  return static_cast<Status>(reinterpret_cast<std::intptr_t>(request));  // as above
}

}  // namespace gd2fs::ucx::abi
