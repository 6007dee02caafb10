// C interface: the functions of <xfer/gd2fs.h>. No exception passes here.

#include <cerrno>
#include <memory>
#include <span>
#include <string>

#include "capi/context.h"
#include "capi/options.h"
#include "signals.h"
#include "xfer/gd2fs.h"

struct xfer_gd2fs_ctx {
  xfer_gd2fs_ctx(std::unique_ptr<gd2fs::Client> client, gd2fs::capi::Log log)
      : context(std::move(client), log) {}

  gd2fs::capi::Context context;
};

namespace {

using gd2fs::capi::Context;
using gd2fs::capi::Log;
using gd2fs::capi::LogLevel;

/// Runs `call` inside the context. Its answer, or a negative errno.
template <class Call>
int visit(xfer_gd2fs_ctx* ctx, Call call) noexcept {
  if (ctx == nullptr || !ctx->context.is_own()) return -EINVAL;
  Context& context = ctx->context;
  if (!context.enter()) return -ECANCELED;
  int answer = -ENOMEM;
  try {
    answer = call(context);
  } catch (...) {
    Log(LogLevel::error).say(LogLevel::error, "out of memory");
  }
  context.leave();
  return answer;
}

xfer_gd2fs_ctx* connect(const xfer_gd2fs_options& asked) {
  LogLevel level;
  const bool is_level_known = gd2fs::capi::parse_log_level(asked.log_level, level);
  const Log log(level);
  if (!is_level_known)
    log.say(LogLevel::warn, std::string("log_level `") + asked.log_level + "` is not known",
            "one of info, warn, error; all is logged");
  const auto refuse = [&](const gd2fs::Error& error) {
    log.say(LogLevel::error, error.message, error.hint);
    return nullptr;
  };
  auto options = gd2fs::capi::read_options(asked);
  if (!options) return refuse(options.error());
  const gd2fs::SignalsBlocked blocked;  // in the threads that are started here
  auto client = gd2fs::Client::connect(*options);
  if (!client) return refuse(client.error());
  return std::make_unique<xfer_gd2fs_ctx>(std::move(*client), log).release();  // the caller's now
}

}  // namespace

extern "C" {

const char* xfer_gd2fs_version(void) { return XFER_GD2FS_VERSION; }

xfer_gd2fs_ctx* xfer_gd2fs_connect(const xfer_gd2fs_options* options) {
  const Log log(LogLevel::error);
  if (options == nullptr) {
    log.say(LogLevel::error, "connect: no options are given");
    return nullptr;
  }
  try {
    return connect(*options);
  } catch (const std::exception& error) {  // no memory, or no thread
    log.say(LogLevel::error, error.what(), "free memory or threads and connect again");
    return nullptr;
  }
}

void xfer_gd2fs_close(xfer_gd2fs_ctx* ctx) {
  if (ctx == nullptr || !ctx->context.is_own()) return;  // a child's copy goes with the child
  const std::unique_ptr<xfer_gd2fs_ctx> owned(ctx);
  owned->context.close();
}

xfer_gd2fs_iomem* xfer_gd2fs_reg_iomem(xfer_gd2fs_ctx* ctx, void* addr, size_t len,
                                       void* attributes) {
  if (attributes != nullptr) return nullptr;
  xfer_gd2fs_iomem* iomem = nullptr;
  visit(ctx, [&](Context& context) {
    iomem = context.add_memory(addr, len);
    return 0;
  });
  return iomem;
}

int xfer_gd2fs_dereg_iomem(xfer_gd2fs_ctx* ctx, xfer_gd2fs_iomem* iomem) {
  return visit(ctx, [=](Context& context) { return context.drop_memory(iomem); });
}

int xfer_gd2fs_fstat(xfer_gd2fs_ctx* ctx, void* id, const char* path, xfer_gd2fs_stat* stat) {
  return visit(ctx, [=](Context& context) { return context.stat(id, path, stat); });
}

int xfer_gd2fs_create(xfer_gd2fs_ctx* ctx, void* id, const char* path, uint32_t flags, uint64_t) {
  return visit(ctx, [=](Context& context) { return context.create(id, path, flags); });
}

ssize_t xfer_gd2fs_preadv(xfer_gd2fs_ctx* ctx, void* id, const char* path, uint64_t offset,
                          const xfer_gd2fs_sge* sges, unsigned nsge, uint32_t flags) {
  return visit(ctx, [=](Context& context) {
    return context.read(id, path, offset, std::span(sges, nsge), flags);
  });
}

ssize_t xfer_gd2fs_pwritev(xfer_gd2fs_ctx* ctx, void* id, const char* path, uint64_t offset,
                           const xfer_gd2fs_sge* sges, unsigned nsge, uint32_t flags) {
  return visit(ctx, [=](Context& context) {
    return context.write(id, path, offset, std::span(sges, nsge), flags);
  });
}

int xfer_gd2fs_wait(xfer_gd2fs_ctx* ctx, xfer_gd2fs_completion* out, unsigned max, int timeout_ms) {
  if (out == nullptr && max != 0) return -EINVAL;
  return visit(ctx,
               [=](Context& context) { return context.wait(std::span(out, max), timeout_ms); });
}

}  // extern "C"
