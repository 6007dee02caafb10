#include "log.h"

#include <time.h>

#include <cerrno>

#include "grain_buffer.h"
#include "transfer.h"

namespace gd2fs::disk {

std::int64_t now_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void Log::fail(Place& place, int error) {
  place.error = error;
  if (error == ENOSPC) ++counts.full_errors;
  if (!place.is_failed) place.retry_ms = now_ms() + options.retry_ms;
  place.is_failed = true;
  for (Segment** taking : {&place.open, &place.moved}) {  // what comes later starts on fresh ground
    if (*taking) (*taking)->state = Segment::State::full;
    *taking = nullptr;
  }
  wake_all();
}

void Log::let_go(LogCopy& copy) {
  if (!copy.is_here()) return;
  copy.let_go();
  --records;
  live_bytes -= copy.disk_bytes();
  if (copy.segment) copy.segment->live_bytes -= copy.disk_bytes();
}

void write_strike(DiskIo& io, int file, std::uint64_t segment_id, std::uint64_t offset,
                  std::uint32_t header_bytes, std::uint64_t length,
                  std::function<void(int error)> done) {
  auto grain = std::make_shared<GrainBuffer>(GRAIN_BYTES);
  RecordHead head;
  head.segment_id = segment_id;
  head.offset = offset;
  head.header_bytes = header_bytes;
  head.is_struck = true;
  head.piece.length = length;
  encode(head, grain->span());
  const iovec run{grain->span().data(), GRAIN_BYTES};
  transfer(io, IoKind::write, file, offset, {run},
           [grain, done = std::move(done)](int error) { done(error); });
}

}  // namespace gd2fs::disk
