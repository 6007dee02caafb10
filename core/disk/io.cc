#include "io.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace gd2fs::disk {
namespace {

template <class Call>
std::int64_t again(Call call) noexcept {
  for (;;) {
    const std::int64_t got = call();
    if (got >= 0) return got;
    if (errno != EINTR) return -errno;
  }
}

}  // namespace

int DiskIo::open(const std::string& path, int flags) {
  return static_cast<int>(again([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0600); }));
}

void DiskIo::close(int file) noexcept { ::close(file); }

int DiskIo::allocate(int file, std::uint64_t bytes) {
  const auto length = static_cast<off_t>(bytes);
  const auto got = again([&] { return ::fallocate(file, 0, 0, length); });
  if (got != -EOPNOTSUPP && got != -ENOSYS) return static_cast<int>(got);
  return static_cast<int>(again([&] { return ::ftruncate(file, length); }));
}

int DiskIo::remove(const std::string& path) {
  return static_cast<int>(again([&] { return ::unlink(path.c_str()); }));
}

std::int64_t carry_out(const IoRequest& request) noexcept {
  const int count = static_cast<int>(request.runs.size());
  const auto offset = static_cast<off_t>(request.offset);
  switch (request.kind) {
    case IoKind::read:
      return again([&] { return ::preadv(request.file, request.runs.data(), count, offset); });
    case IoKind::write:
      return again([&] { return ::pwritev(request.file, request.runs.data(), count, offset); });
    case IoKind::sync: break;
  }
  return again([&] { return ::fdatasync(request.file); });
}

Result<std::unique_ptr<DiskIo>> make_io(DiskIoKind kind, std::size_t depth) {
  depth = std::clamp<std::size_t>(depth, 1, DISK_DEPTH_MAX);
  if (kind == DiskIoKind::threads) return make_thread_io(depth);
  std::string why_not;
  if (auto io = make_uring_io(depth, why_not)) return io;
  if (kind == DiskIoKind::automatic) return make_thread_io(depth);
  return Error{"io_uring is not to be had here: " + why_not,
               "allow it (`sysctl kernel.io_uring_disabled=0`), or let threads do it",
               Status::invalid};
}

}  // namespace gd2fs::disk
