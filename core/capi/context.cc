#include "context.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>

#include "../buffer_list.h"
#include "../limits.h"
#include "../name.h"

namespace gd2fs::capi {

namespace {

static_assert(XFER_GD2FS_SGES_MAX == BATCH_ITEMS_MAX);

constexpr std::uint32_t status_of(std::uint32_t by, int code) {
  return by << 8 | static_cast<std::uint32_t>(code);
}

std::uint32_t status_of(Status status) {
  constexpr std::uint32_t CLIENT = XFER_GD2FS_STATUS_CLASS_CLIENT;
  constexpr std::uint32_t SERVER = XFER_GD2FS_STATUS_CLASS_SERVER;
  switch (status) {
    case Status::ok:
    case Status::have: return 0;
    case Status::miss:
    case Status::corrupt: return status_of(SERVER, ENODATA);
    case Status::gone: return status_of(SERVER, ENOENT);
    case Status::retry:
    case Status::stale_map:
    case Status::conflict:
    case Status::fenced: return status_of(SERVER, EAGAIN);
    case Status::full: return status_of(SERVER, ENOSPC);
    case Status::denied: return status_of(SERVER, EACCES);
    case Status::invalid: return status_of(SERVER, EINVAL);
    case Status::cancelled: return status_of(CLIENT, ECANCELED);
    case Status::expired: return status_of(CLIENT, ETIMEDOUT);
    case Status::unknown: return status_of(CLIENT, EIO);
    case Status::unavailable: return status_of(CLIENT, EHOSTUNREACH);
  }
  return status_of(CLIENT, EIO);
}

/// What a caller has to look after, and what is an answer like others.
LogLevel level_of(Status status) {
  const bool is_answer = status == Status::gone || status == Status::miss ||
                         status == Status::corrupt || status == Status::cancelled;
  return is_answer ? LogLevel::info : LogLevel::warn;
}

std::int64_t now_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

std::string range_fault(std::uint64_t offset, const std::vector<Buffer>& buffers) {
  std::uint64_t left = FILE_BYTES_MAX - std::min<std::uint64_t>(offset, FILE_BYTES_MAX);
  for (const Buffer& buffer : buffers) {
    if (buffer.bytes > left)
      return "the range reaches past the largest file, " + std::to_string(FILE_BYTES_MAX) +
             " bytes";
    left -= buffer.bytes;
  }
  return offset > FILE_BYTES_MAX ? "offset " + std::to_string(offset) + " lies past any file" : "";
}

}  // namespace

Context::Context(std::unique_ptr<Client> client, Log log)
    : log_(log),
      owner_(getpid()),
      closing_bell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      client_(std::move(client)) {}

// ---- who is inside ------------------------------------------------------------------------------

bool Context::is_own() const noexcept { return getpid() == owner_; }

bool Context::enter() {
  const std::lock_guard lock(mutex_);
  if (is_closing_) return false;
  ++visitors_;
  return true;
}

void Context::leave() {
  const std::lock_guard lock(mutex_);
  if (--visitors_ == 0) left_.notify_all();
}

void Context::close() {
  std::unique_lock lock(mutex_);
  is_closing_ = true;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(closing_bell_.get(), &one, sizeof one));
  left_.wait(lock, [this] { return visitors_ == 0; });
}

// ---- memory -------------------------------------------------------------------------------------

xfer_gd2fs_iomem* Context::add_memory(void* address, std::size_t bytes) {
  xfer_gd2fs_iomem* iomem = nullptr;
  {
    const std::lock_guard lock(mutex_);
    iomem = iomems_.add(address, bytes);
  }
  if (iomem == nullptr) {
    log_.say(LogLevel::warn,
             "reg_iomem: not all of these " + std::to_string(bytes) + " bytes are readable memory",
             "pass the address and length of memory that is mapped");
    return nullptr;
  }
  // What cannot be reached by one-sided transfers goes through the stream.
  const Error fault = client_->register_memory({static_cast<std::byte*>(address), bytes});
  if (!fault.message.empty()) log_.say(LogLevel::info, "reg_iomem: " + fault.message, fault.hint);
  return iomem;
}

int Context::drop_memory(const xfer_gd2fs_iomem* iomem) {
  Buffer memory;
  {
    const std::lock_guard lock(mutex_);
    if (const int fault = iomems_.drop(iomem, memory); fault != 0) return fault;
  }
  client_->deregister_memory(memory);
  return 0;
}

// ---- requests -----------------------------------------------------------------------------------

int Context::refuse(const char* verb, const char* path, const std::string& fault) const {
  log_.say(LogLevel::warn,
           std::string(verb) + " of `" + (path == nullptr ? "" : path) + "` is refused: " + fault);
  return -EINVAL;
}

std::string Context::fault_of(const char* path, std::uint32_t flags) const {
  if (path == nullptr) return "it has no path";
  if (flags != 0) return "flags are " + std::to_string(flags) + ", 0 is the only choice";
  const std::string fault = path_fault(path);
  return fault.empty() ? "" : "the path " + fault;
}

int Context::stat(void* id, const char* path, xfer_gd2fs_stat* stat) {
  std::string fault = fault_of(path, 0);
  if (fault.empty() && stat == nullptr) fault = "it has no place to put the answer";
  if (!fault.empty()) return refuse("fstat", path, fault);
  return start({.id = id, .verb = "fstat", .stat = stat},
               [&](const CallOptions& options) { client_->stat(path, options); });
}

int Context::create(void* id, const char* path, std::uint32_t flags) {
  if (const std::string fault = fault_of(path, flags); !fault.empty())
    return refuse("create", path, fault);
  return start({.id = id, .verb = "create"},
               [&](const CallOptions& options) { client_->create(path, options); });
}

int Context::read(void* id, const char* path, std::uint64_t offset,
                  std::span<const xfer_gd2fs_sge> sges, std::uint32_t flags) {
  return move({.id = id, .verb = "read", .is_moving = true}, path, offset, sges, flags, true);
}

int Context::write(void* id, const char* path, std::uint64_t offset,
                   std::span<const xfer_gd2fs_sge> sges, std::uint32_t flags) {
  return move({.id = id, .verb = "write", .is_moving = true}, path, offset, sges, flags, false);
}

int Context::move(Request request, const char* path, std::uint64_t offset,
                  std::span<const xfer_gd2fs_sge> sges, std::uint32_t flags, bool is_read) {
  CheckedList list;
  std::string fault = fault_of(path, flags);
  if (fault.empty() && sges.data() == nullptr && !sges.empty()) fault = "it has no scatter list";
  if (fault.empty() && sges.size() > XFER_GD2FS_SGES_MAX)
    fault = "a scatter list of " + std::to_string(sges.size()) + ", at most " +
            std::to_string(XFER_GD2FS_SGES_MAX);
  if (fault.empty()) {
    const std::lock_guard lock(mutex_);
    fault = iomems_.check(sges, is_read, list);
  }
  if (fault.empty()) fault = range_fault(offset, list.buffers);
  if (!fault.empty()) return refuse(request.verb, path, fault);
  request.bytes_asked = is_read ? total_bytes(list.buffers) : 0;
  request.memories = std::move(list.memories);
  return start(std::move(request), [&](const CallOptions& options) {
    is_read ? client_->read(path, offset, list.buffers, options)
            : client_->write(path, offset, list.buffers, options);
  });
}

/// Known before it starts: it may end before `start` returns.
int Context::start(Request request, const Start& start) {
  CallOptions options;
  options.is_announced = true;
  {
    const std::lock_guard lock(mutex_);
    if (requests_.size() >= XFER_GD2FS_REQUESTS_MAX) return -EAGAIN;
    options.cookie = ++last_cookie_;
    const auto added = requests_.emplace(options.cookie, std::move(request)).first;
    for (xfer_gd2fs_iomem* iomem : added->second.memories) ++iomem->uses;
  }
  try {
    start(options);
  } catch (...) {
    Request unused;
    forget(options.cookie, unused);
    throw;
  }
  return 0;
}

// ---- completions --------------------------------------------------------------------------------

int Context::wait(std::span<xfer_gd2fs_completion> out, int timeout_ms) {
  if (out.empty()) return 0;
  const std::int64_t until_ms = now_ms() + timeout_ms;
  for (;;) {
    if (const int taken = take(out); taken != 0) return taken;
    const std::int64_t left_ms =
        timeout_ms < 0 ? -1 : std::max<std::int64_t>(0, until_ms - now_ms());
    if (left_ms == 0) return 0;
    if (const int fault = poll_until(left_ms); fault != 0) return fault;
  }
}

/// 0: it is worth to look again.
int Context::poll_until(std::int64_t left_ms) const {
  pollfd watched[] = {{client_->descriptor(), POLLIN, 0}, {closing_bell_.get(), POLLIN, 0}};
  if (poll(watched, 2, static_cast<int>(left_ms)) < 0) return errno == EINTR ? 0 : -errno;
  return watched[1].revents != 0 ? -ECANCELED : 0;
}

int Context::take(std::span<xfer_gd2fs_completion> out) {
  const std::size_t count_max =
      std::min<std::size_t>(out.size(), static_cast<std::size_t>(std::numeric_limits<int>::max()));
  std::size_t taken = 0;
  for (const OperationRef& operation : client_->finished(count_max)) {
    Request request;
    if (!forget(operation->cookie(), request)) continue;
    out[taken++] = completion_of(request, operation->outcome());
  }
  return static_cast<int>(taken);
}

bool Context::forget(std::uint64_t cookie, Request& request) {
  const std::lock_guard lock(mutex_);
  const auto found = requests_.find(cookie);
  if (found == requests_.end()) return false;
  request = std::move(found->second);
  requests_.erase(found);
  for (xfer_gd2fs_iomem* iomem : request.memories) --iomem->uses;
  return true;
}

xfer_gd2fs_completion Context::completion_of(const Request& request, const Outcome& outcome) const {
  xfer_gd2fs_completion completion{request.id, status_of(outcome.status), 0};
  if (completion.status != 0) {
    if (outcome.message.empty()) {
      log_.say(level_of(outcome.status), request.verb, status_name(outcome.status));
    } else {
      log_.say(level_of(outcome.status), outcome.message);
    }
    return completion;
  }
  if (request.stat != nullptr) request.stat->size = outcome.file.size;
  if (request.is_moving) completion.bytes = outcome.value;
  // A caller who looks at the status alone must not take what was in its memory before for data.
  if (outcome.value < request.bytes_asked)
    completion.status = status_of(XFER_GD2FS_STATUS_CLASS_SERVER, ENODATA);
  return completion;
}

}  // namespace gd2fs::capi
