#include "transfer.h"

#include <algorithm>
#include <cerrno>

#include "../limits.h"
#include "latch.h"

namespace gd2fs::disk {
namespace {

constexpr unsigned IDLE_TRIES_MAX = 8;  // calls in a row that moved less than a grain

struct Transfer {
  DiskIo& io;
  IoKind kind;
  int file;
  std::uint64_t offset;
  std::vector<iovec> runs;
  std::function<void(int)> done;
  std::size_t next = 0;  // the first run that is not through
  unsigned idle = 0;
};

void skip(Transfer& transfer, std::size_t bytes) {
  transfer.offset += bytes;
  while (bytes > 0) {
    iovec& run = transfer.runs[transfer.next];
    const std::size_t step = std::min(bytes, run.iov_len);
    run.iov_base = static_cast<std::byte*>(run.iov_base) + step;
    run.iov_len -= step;
    bytes -= step;
    if (run.iov_len == 0) ++transfer.next;
  }
}

void go_on(const std::shared_ptr<Transfer>& transfer);

void take(const std::shared_ptr<Transfer>& transfer, std::int64_t moved) {
  const bool is_again = moved == -EAGAIN || moved == -EINTR;
  if (moved < 0 && !is_again) return transfer->done(static_cast<int>(-moved));
  const std::size_t grains =
      moved > 0 ? static_cast<std::size_t>(moved) / GRAIN_BYTES * GRAIN_BYTES : 0;
  transfer->idle = grains > 0 ? 0 : transfer->idle + 1;
  if (transfer->idle == IDLE_TRIES_MAX) return transfer->done(EIO);
  if (moved == 0 && transfer->kind == IoKind::read) return transfer->done(EIO);
  skip(*transfer, grains);
  if (transfer->next == transfer->runs.size()) return transfer->done(0);
  go_on(transfer);
}

void go_on(const std::shared_ptr<Transfer>& transfer) {
  IoRequest request;
  request.kind = transfer->kind;
  request.file = transfer->file;
  request.offset = transfer->offset;
  const auto from = transfer->runs.begin() + static_cast<std::ptrdiff_t>(transfer->next);
  const auto left = transfer->runs.end() - from;
  request.runs.assign(from, from + std::min(left, static_cast<std::ptrdiff_t>(DiskIo::RUNS_MAX)));
  request.done = [transfer](std::int64_t moved) { take(transfer, moved); };
  transfer->io.submit(std::move(request));
}

}  // namespace

void transfer(DiskIo& io, IoKind kind, int file, std::uint64_t offset, std::vector<iovec> runs,
              std::function<void(int error)> done) {
  go_on(std::make_shared<Transfer>(
      Transfer{io, kind, file, offset, std::move(runs), std::move(done)}));
}

void sync(DiskIo& io, int file, std::function<void(int error)> done) {
  IoRequest request;
  request.kind = IoKind::sync;
  request.file = file;
  request.done = [done = std::move(done)](std::int64_t result) {
    done(result < 0 ? static_cast<int>(-result) : 0);
  };
  io.submit(std::move(request));
}

int transfer_now(DiskIo& io, IoKind kind, int file, std::uint64_t offset, iovec run) {
  Latch latch(1);
  transfer(io, kind, file, offset, {run}, [&](int error) { latch.arrive(error); });
  return latch.wait();
}

int sync_now(DiskIo& io, int file) {
  Latch latch(1);
  sync(io, file, [&](int error) { latch.arrive(error); });
  return latch.wait();
}

}  // namespace gd2fs::disk
