// Context: one client behind the C interface, and the requests that its caller waits for.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "../client.h"
#include "../transport/tcp.h"
#include "iomem.h"
#include "log.h"

namespace gd2fs::capi {

/// What the caller gave at the start of a request, next to its operation.
struct Request {
  void* id = nullptr;
  const char* verb = "";
  bool is_moving = false;                     // a read or a write
  std::uint64_t bytes_asked = 0;              // of a read
  xfer_gd2fs_stat* stat = nullptr;            // of an fstat
  std::vector<xfer_gd2fs_iomem*> memories{};  // in use until it is handed out
};

/// Answers are 0 or a negative errno, as the header says. May throw std::bad_alloc.
class Context {
 public:
  Context(std::unique_ptr<Client> client, Log log);

  xfer_gd2fs_iomem* add_memory(void* address, std::size_t bytes);
  int drop_memory(const xfer_gd2fs_iomem* iomem);

  int stat(void* id, const char* path, xfer_gd2fs_stat* stat);
  int create(void* id, const char* path, std::uint32_t flags);
  int read(void* id, const char* path, std::uint64_t offset, std::span<const xfer_gd2fs_sge> sges,
           std::uint32_t flags);
  int write(void* id, const char* path, std::uint64_t offset, std::span<const xfer_gd2fs_sge> sges,
            std::uint32_t flags);
  int wait(std::span<xfer_gd2fs_completion> out, int timeout_ms);

  /// False in a child of fork: threads and locks of this context are its parent's.
  bool is_own() const noexcept;
  /// Between the two a caller is inside. False: the context is being closed.
  bool enter();
  void leave();
  /// Sends everyone who is inside home, and waits until they have left.
  void close();

 private:
  using Start = std::function<void(const CallOptions&)>;

  int refuse(const char* verb, const char* path, const std::string& fault) const;
  std::string fault_of(const char* path, std::uint32_t flags) const;
  int start(Request request, const Start& start);
  int move(Request request, const char* path, std::uint64_t offset,
           std::span<const xfer_gd2fs_sge> sges, std::uint32_t flags, bool is_read);
  int poll_until(std::int64_t left_ms) const;
  int take(std::span<xfer_gd2fs_completion> out);
  bool forget(std::uint64_t cookie, Request& request);
  xfer_gd2fs_completion completion_of(const Request& request, const Outcome& outcome) const;

  const Log log_;
  const pid_t owner_;
  std::mutex mutex_;  // Guards: all up to is_closing_. Never held while a call starts or waits.
  std::unordered_map<std::uint64_t, Request> requests_;  // by cookie, until handed out
  Iomems iomems_;
  std::uint64_t last_cookie_ = 0;
  std::size_t visitors_ = 0;
  bool is_closing_ = false;
  std::condition_variable left_;
  tcp::Descriptor closing_bell_;  // readable from the moment the context is being closed
  // Last, so destroyed first: then no operation is under way, and memory and requests may go.
  std::unique_ptr<Client> client_;
};

}  // namespace gd2fs::capi
