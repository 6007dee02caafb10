#include "ucx_library.h"

#include <dlfcn.h>
#include <signal.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

namespace gd2fs::ucx {

namespace {

constexpr const char* SYSTEM_NAME = "libucp.so.0";
constexpr const char* HINT =
    "`pip install \"gd2fs[rdma]\"` brings one, or name the libucp of UCX 1.16 or newer in "
    "GD2FS_UCX";
constexpr std::size_t LINE_BYTES_MAX = 1024;
constexpr unsigned MAJOR = 1;
// Older ones move bytes over TCP by messages that are answered: an answer that finds nobody, since
// its peer has gone, ends the process.
constexpr unsigned MINOR_MIN = 16;

/// UCX takes the signals of crashes for itself when it is loaded. They are the process's own.
class KeptSignals {
 public:
  KeptSignals() {
    for (std::size_t at = 0; at < SIGNALS.size(); ++at) sigaction(SIGNALS[at], nullptr, &was_[at]);
  }
  ~KeptSignals() {
    for (std::size_t at = 0; at < SIGNALS.size(); ++at) sigaction(SIGNALS[at], &was_[at], nullptr);
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

 private:
  static constexpr std::array SIGNALS{SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGABRT};
  std::array<struct sigaction, SIGNALS.size()> was_{};
};

/// Looks symbols up, and remembers the first that is not there.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <class Function>
  void find(Function*& slot, const char* name) {
    void* const found = dlsym(library_, name);
    if (found == nullptr && missing_.empty()) missing_ = name;
    // POSIX promises that an object pointer of dlsym holds a function's address.
    std::memcpy(&slot, &found, sizeof slot);
  }
  const std::string& missing() const noexcept { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

std::string find_all(void* library, Calls& calls) {
  Symbols symbols(library);
  symbols.find(calls.get_version, "ucp_get_version");
  symbols.find(calls.init_version, "ucp_init_version");
  symbols.find(calls.cleanup, "ucp_cleanup");
  symbols.find(calls.context_query, "ucp_context_query");
  symbols.find(calls.config_read, "ucp_config_read");
  symbols.find(calls.config_modify, "ucp_config_modify");
  symbols.find(calls.config_release, "ucp_config_release");
  symbols.find(calls.worker_create, "ucp_worker_create");
  symbols.find(calls.worker_destroy, "ucp_worker_destroy");
  symbols.find(calls.worker_progress, "ucp_worker_progress");
  symbols.find(calls.worker_get_efd, "ucp_worker_get_efd");
  symbols.find(calls.worker_arm, "ucp_worker_arm");
  symbols.find(calls.worker_get_address, "ucp_worker_get_address");
  symbols.find(calls.worker_release_address, "ucp_worker_release_address");
  symbols.find(calls.worker_flush_nbx, "ucp_worker_flush_nbx");
  symbols.find(calls.ep_create, "ucp_ep_create");
  symbols.find(calls.ep_close_nbx, "ucp_ep_close_nbx");
  symbols.find(calls.ep_flush_nbx, "ucp_ep_flush_nbx");
  symbols.find(calls.ep_rkey_unpack, "ucp_ep_rkey_unpack");
  symbols.find(calls.mem_map, "ucp_mem_map");
  symbols.find(calls.mem_query, "ucp_mem_query");
  symbols.find(calls.mem_unmap, "ucp_mem_unmap");
  symbols.find(calls.rkey_pack, "ucp_rkey_pack");
  symbols.find(calls.rkey_buffer_release, "ucp_rkey_buffer_release");
  symbols.find(calls.rkey_destroy, "ucp_rkey_destroy");
  symbols.find(calls.put_nbx, "ucp_put_nbx");
  symbols.find(calls.get_nbx, "ucp_get_nbx");
  symbols.find(calls.request_free, "ucp_request_free");
  symbols.find(calls.status_string, "ucs_status_string");
  return symbols.missing();
}

/// As libucs wants one (ucs/debug/log_def.h). 0: nobody else is to handle this line.
int log_to_stderr(const char*, unsigned, const char*, int, const void*, const char* format,
                  std::va_list arguments) {
  std::array<char, LINE_BYTES_MAX> line{};
  std::vsnprintf(line.data(), line.size(), format, arguments);
  std::fprintf(stderr, "UCX: %s\n", line.data());
  return 0;
}

/// UCX writes to standard output, which is for answers. Once for each library.
void redirect_log(void* library) {
  static std::mutex mutex;  // Guards: redirected.
  static std::set<void*> redirected;
  const std::lock_guard lock(mutex);
  if (std::getenv("UCX_LOG_FILE") != nullptr || !redirected.insert(library).second) return;
  Symbols symbols(library);
  void (*push)(decltype(&log_to_stderr)) = nullptr;
  symbols.find(push, "ucs_log_push_handler");
  if (push != nullptr) push(&log_to_stderr);
}

std::string file_of(const Calls& calls) {
  Dl_info found{};
  void* address = nullptr;
  std::memcpy(&address, &calls.get_version, sizeof address);  // see Symbols::find
  const bool is_found = dladdr(address, &found) != 0 && found.dli_fname != nullptr;
  return is_found ? found.dli_fname : SYSTEM_NAME;
}

}  // namespace

Result<LibraryRef> Library::open(const std::string& path) {
  const KeptSignals kept;
  const std::string name = path.empty() ? SYSTEM_NAME : path;
  // Local: another UCX of the same process, an MPI's or an engine's, keeps its own symbols.
  void* const loaded = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    const char* const why = dlerror();
    return Error{"UCX cannot be loaded: " + std::string(why != nullptr ? why : name), HINT};
  }
  std::shared_ptr<Library> library(new Library);
  const std::string missing = find_all(loaded, library->calls_);
  if (missing == "ucp_get_version") return Error{name + " is not libucp", HINT};
  library->path_ = file_of(library->calls_);
  library->calls_.get_version(&library->major_, &library->minor_, &library->patch_);
  const bool is_known = library->major_ == MAJOR && library->minor_ >= MINOR_MIN;
  if (!is_known || !missing.empty()) {
    const std::string lack = missing.empty() ? "" : ", without `" + missing + "`";
    return Error{library->path_ + " is UCX " + library->version() + lack + "; " +
                     std::to_string(MAJOR) + "." + std::to_string(MINOR_MIN) +
                     " or newer is needed",
                 HINT, Status::invalid};
  }
  redirect_log(loaded);
  return LibraryRef(std::move(library));
}

std::string Library::version() const {
  return std::to_string(major_) + "." + std::to_string(minor_) + "." + std::to_string(patch_);
}

Error Library::fault(const std::string& what, abi::Status status) const {
  return {what + ": " + calls_.status_string(status) + " (UCX " + version() + ")",
          "`UCX_LOG_LEVEL=info` has UCX say more"};
}

}  // namespace gd2fs::ucx
