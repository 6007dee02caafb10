#include "ucx_context.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "ucx_cards.h"
#include "ucx_worker.h"

namespace gd2fs::ucx {

namespace {

bool is_with_shared_memory(const std::string& transports) {
  const auto has = [&](const char* name) { return transports.find(name) != std::string::npos; };
  return !transports.starts_with('^') && (has("posix") || has("sysv") || has("shm") || has("all"));
}

/// UCX's own settings, with ours on top.
class Config {
 public:
  explicit Config(const Calls& calls) : calls_(calls) {
    status_ = calls_.config_read(nullptr, nullptr, &handle_);
  }
  ~Config() {
    if (handle_ != nullptr) calls_.config_release(handle_);
  }
  Config(const Config&) = delete;
  Config& operator=(const Config&) = delete;

  void set(const char* name, const char* value) {
    if (status_ == abi::OK) status_ = calls_.config_modify(handle_, name, value);
  }
  abi::Status status() const noexcept { return status_; }
  const abi::Config* handle() const noexcept { return handle_; }

 private:
  const Calls& calls_;
  abi::Config* handle_ = nullptr;
  abi::Status status_ = abi::OK;
};

}  // namespace

bool allows_cards(std::string_view transports) {
  const bool is_left_out = transports.starts_with('^');
  if (is_left_out) transports.remove_prefix(1);
  bool has_all = false, has_rc = false, has_ud = false, has_dc = false;
  while (!transports.empty()) {
    std::string_view one = transports.substr(0, transports.find(','));
    transports.remove_prefix(std::min(one.size() + 1, transports.size()));
    if (one.starts_with('\\')) one.remove_prefix(1);  // no alias, in UCX's syntax
    // As rc_mlx5 is of rc. Of what is left out the rest of a kind stays.
    const auto is_of = [&](std::string_view kind) {
      const bool is_part = one.starts_with(kind) && one.substr(kind.size()).starts_with('_');
      return one == kind || (is_part && !is_left_out);
    };
    has_all = has_all || one == "all" || one == "ib";
    has_rc = has_rc || is_of("rc");
    has_ud = has_ud || is_of("ud");
    has_dc = has_dc || is_of("dc");
  }
  return is_left_out ? !has_all && !(has_rc && has_ud && has_dc)
                     : has_all || has_rc || has_ud || has_dc;
}

bool finds_cards(const std::string& transports) {
  std::error_code ignored;
  const std::filesystem::directory_iterator cards("/sys/class/infiniband", ignored);
  const bool has_some = !ignored && cards != std::filesystem::directory_iterator();
  return has_some && allows_cards(transports);
}

Result<ContextRef> Context::open(const Options& options) {
  auto library = Library::open(options.library);
  if (!library) return library.error();
  const Calls& calls = (*library)->calls();
  ContextRef context(new Context(*library));
  context->stranded_max_ = options.stranded_max;
  context->has_cards_ = finds_cards(options.transports) && knows_cards(**library);
  Config config(calls);
  config.set("TLS", options.transports.c_str());
  config.set("RCACHE_ENABLE", "n");
  // Else its shared memory takes no endpoint of ours. Where there is none UCX would complain.
  if (is_with_shared_memory(options.transports)) config.set("MM_ERROR_HANDLING", "y");
  if (config.status() != abi::OK) return (*library)->fault("UCX's settings", config.status());

  abi::Params params;
  params.fields = abi::PARAMS_FEATURES | abi::PARAMS_SHARED_BY_THREADS;
  params.features = abi::FEATURE_RMA | abi::FEATURE_WAKEUP;
  params.is_shared_by_threads = 1;
  const unsigned minor = (*library)->minor_version();
  const abi::Status status =
      calls.init_version(1, minor, &params, config.handle(), &context->handle_);
  if (status != abi::OK)
    return (*library)->fault("UCX has no transport of `" + options.transports + "`", status);
  abi::ContextFacts facts;
  facts.fields = abi::CONTEXT_THREAD_MODE;
  if (calls.context_query(context->handle_, &facts) != abi::OK ||
      facts.thread_mode != abi::THREADS_MULTI)
    return Error{(*library)->path() + " was built for one thread only",
                 "take one that was built with `--enable-mt`", Status::invalid};
  return context;
}

Context::~Context() {
  if (handle_ != nullptr) library_->calls().cleanup(handle_);
}

Result<MemoryRef> Context::register_memory(std::span<std::byte> bytes) {
  const Calls& calls = library_->calls();
  const std::lock_guard lock(mutex_);
  abi::MemoryParams params;
  params.fields = abi::MEMORY_ADDRESS | abi::MEMORY_LENGTH;
  params.address = bytes.data();
  params.length = bytes.size();
  abi::Memory* handle = nullptr;
  const std::string what = std::to_string(bytes.size()) + " B of memory cannot be registered";
  if (const auto status = calls.mem_map(handle_, &params, &handle); status != abi::OK)
    return library_->fault(what, status);
  void* packed = nullptr;
  std::size_t packed_bytes = 0;
  if (const auto status = calls.rkey_pack(handle_, handle, &packed, &packed_bytes);
      status != abi::OK) {
    calls.mem_unmap(handle_, handle);
    return library_->fault(what, status);
  }
  std::shared_ptr<Memory> memory(new Memory(shared_from_this(), bytes, handle));
  const auto* const first = static_cast<const std::byte*>(packed);
  memory->key_.assign(first, first + packed_bytes);
  calls.rkey_buffer_release(packed);
  abi::MemoryFacts facts;
  facts.fields = abi::MEMORY_KIND;
  memory->is_device_ = calls.mem_query(handle, &facts) == abi::OK && facts.kind == abi::KIND_CUDA;
  return MemoryRef(std::move(memory));
}

Result<std::unique_ptr<Worker>> Context::make_worker() {
  if (const std::size_t stranded = Worker::stranded(); stranded >= stranded_max_)
    return Error{"nodes vanished in the middle of transfers without cards, and left " +
                     std::to_string(stranded) +
                     " UCX workers behind, which stay until the end of this process",
                 "bytes go over TCP from here on; start the process again to have transfers"};
  const Calls& calls = library_->calls();
  const std::lock_guard lock(mutex_);
  const abi::WorkerParams params;
  abi::Worker* handle = nullptr;
  if (const auto status = calls.worker_create(handle_, &params, &handle); status != abi::OK)
    return library_->fault("no UCX worker", status);
  int descriptor = -1;
  if (const auto status = calls.worker_get_efd(handle, &descriptor); status != abi::OK) {
    calls.worker_destroy(handle);
    return library_->fault("no UCX worker that wakes its thread", status);
  }
  return std::unique_ptr<Worker>(new Worker(shared_from_this(), handle, descriptor));
}

Memory::~Memory() {
  const std::lock_guard lock(context_->mutex_);
  context_->library_->calls().mem_unmap(context_->handle_, handle_);
}

bool Memory::covers(std::span<const std::byte> part) const noexcept {
  const std::less_equal<const std::byte*> is_not_behind;
  return is_not_behind(bytes_.data(), part.data()) &&
         is_not_behind(part.data() + part.size(), bytes_.data() + bytes_.size());
}

}  // namespace gd2fs::ucx
