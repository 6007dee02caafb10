#include "log_disk.h"

#include <unistd.h>

#include "../assertion.h"
#include "segment_work.h"
#include "transfer.h"

namespace gd2fs::disk {
namespace {

bool is_whole_grains(const void* at) {
  return reinterpret_cast<std::uintptr_t>(at) % GRAIN_BYTES == 0;
}

template <class Runs>
std::uint64_t bytes_of(const Runs& runs) {
  std::uint64_t bytes = 0;
  for (const auto run : runs) {
    // The caller's part, see disk.h.
    GD2FS_ASSERT(is_whole_grains(run.data()) && bytes % GRAIN_BYTES == 0 && !run.empty());
    bytes += run.size();
  }
  return bytes;
}

LogCopyRef of_log(const DiskCopyRef& copy) { return std::static_pointer_cast<LogCopy>(copy); }

}  // namespace

LogDisk::LogDisk(std::unique_ptr<Log> log) : log_(std::move(log)), clerk_(*log_) {
  for (const auto& place : log_->places)
    keepers_.push_back(std::make_unique<Keeper>(*log_, *place));
  for (const auto& keeper : keepers_) keeper->start();
  clerk_.start();
}

LogDisk::~LogDisk() {
  {
    const std::lock_guard lock(log_->mutex);
    log_->is_closing = true;
    log_->wake_all();
  }
  for (const auto& keeper : keepers_) keeper->join();
  {
    const std::lock_guard lock(log_->mutex);
    log_->has_keepers = false;
    for (const auto& place : log_->places) {
      for (const auto& segment : place->segments) {
        for (auto& waiter : segment->void_waiters)
          clerk_.answers.push_back([waiter = std::move(waiter)] { waiter(Status::unavailable); });
        segment->void_waiters.clear();
      }
    }
    log_->wake_all();
  }
  clerk_.join();
  close_places();
}

/// A seal, so that the next start need not look at every byte.
void LogDisk::close_places() {
  LogLock lock(log_->mutex);
  for (const auto& place : log_->places) {
    for (const auto& segment : place->segments) {
      const bool is_taking =
          segment->state == Segment::State::open || segment->state == Segment::State::full;
      if (!place->is_failed && is_taking && segment->is_sealable && segment->end > FRONT_BYTES)
        write_seal(*log_, *segment, lock);
    }
    for (const auto& segment : place->segments) {
      log_->io->close(segment->file);
      for (const LogCopyRef& copy : segment->copies) copy->segment = nullptr;
    }
    ::close(place->folder_file);
  }
}

void LogDisk::answer(std::function<void()> answer) {
  clerk_.answers.push_back(std::move(answer));
  log_->clerk_called.notify_one();
}

Status LogDisk::refuse(const WaitingWrite& write) const {
  if (log_->is_closing) return Status::cancelled;
  bool can_ever = false, can_now = false;
  for (const auto& place : log_->places) {
    can_ever = can_ever || place->can_ever_take(write.bytes);
    can_now = can_now || place->can_take(write.bytes);
  }
  if (!can_ever) return Status::full;
  if (!can_now) return Status::unavailable;
  const bool is_too_much =
      !clerk_.writes.empty() && clerk_.queued_bytes + write.bytes > DISK_QUEUE_BYTES;
  return is_too_much ? Status::retry : Status::ok;
}

void LogDisk::write(DiskPiece piece, ConstRuns runs, std::shared_ptr<const void> keep,
                    Written done) {
  GD2FS_ASSERT(piece.length > 0 && bytes_of(runs) == piece.length &&
               piece.name.size() <= NAME_BYTES_MAX);
  WaitingWrite write;
  write.bytes = record_bytes_of(piece);
  write.piece = std::move(piece);
  write.runs = std::move(runs);
  write.keep = std::move(keep);
  write.done = std::move(done);
  const std::lock_guard lock(log_->mutex);
  if (const Status status = refuse(write); status != Status::ok) {
    if (status == Status::retry) ++log_->counts.refused_writes;
    return answer([status, write = std::make_shared<WaitingWrite>(std::move(write))] {
      write->done(status, nullptr);
    });
  }
  if (!std::exchange(log_->is_awake, true)) log_->wake_all();
  write.number = log_->begin();
  clerk_.queued_bytes += write.bytes;
  clerk_.writes.push_back(std::move(write));
  log_->clerk_called.notify_one();
}

void LogDisk::read(const DiskCopyRef& copy, std::uint64_t offset, Runs runs,
                   std::shared_ptr<void> keep, Done done) {
  const LogCopyRef record = of_log(copy);
  const std::uint64_t bytes = bytes_of(runs);
  GD2FS_ASSERT(bytes > 0 && offset % GRAIN_BYTES == 0 && offset + bytes <= copy->length());
  std::vector<iovec> into;
  into.reserve(runs.size());
  for (const auto run : runs) into.push_back({run.data(), whole_grains(run.size())});
  Segment* segment = nullptr;
  std::uint64_t from = 0;
  {
    const std::lock_guard lock(log_->mutex);
    if (!record->is_here() || log_->is_closing)
      return answer([done = std::move(done)] { done(Status::miss); });
    segment = record->segment;
    from = record->offset + record->header_bytes + offset;
    ++segment->pins;
    ++log_->on_way;
  }
  transfer(*log_->io, IoKind::read, segment->file, from, std::move(into),
           [this, segment, bytes, keep = std::move(keep), done = std::move(done)](int error) {
             read_done(*segment, bytes, error);
             done(error == 0 ? Status::ok : Status::miss);
             const std::lock_guard lock(log_->mutex);
             --log_->on_way;
             if (log_->is_closing) log_->clerk_called.notify_one();
           });
}

void LogDisk::read_done(Segment& segment, std::uint64_t bytes, int error) {
  const std::lock_guard lock(log_->mutex);
  log_->unpin(segment);
  if (error == 0) {
    ++log_->counts.read_records;
    log_->counts.read_bytes += bytes;
  } else {
    ++segment.place.read_errors, ++log_->counts.read_errors;
    segment.place.error = error;
  }
}

void LogDisk::strike(const DiskCopyRef& copy, Done done) {
  const LogCopyRef record = of_log(copy);
  const std::lock_guard lock(log_->mutex);
  if (record->is_here()) ++log_->counts.struck_records;
  log_->let_go(*record);
  log_->strikes.push_back({record, std::move(done), log_->begin()});
  log_->clerk_called.notify_one();
}

void LogDisk::flush(Done done) {
  const std::lock_guard lock(log_->mutex);
  clerk_.flushes.push_back({std::move(done), ++log_->last_number});
  log_->clerk_called.notify_one();
}

void LogDisk::used(const DiskCopyRef& copy) noexcept {
  static_cast<LogCopy&>(*copy).used_s.store(used_now_s(), std::memory_order_relaxed);
}

void LogDisk::set_owner(const DiskCopyRef& copy, std::weak_ptr<void> owner) {
  const std::lock_guard lock(log_->mutex);
  static_cast<LogCopy&>(*copy).owner.swap(owner);
}

void LogDisk::set_lost(Lost lost) {
  const std::lock_guard lock(log_->mutex);
  log_->lost = std::move(lost);
  log_->is_awake = true;
  log_->wake_all();
}

void LogDisk::set_write_rate(std::uint64_t bytes_per_s) {
  const std::lock_guard lock(log_->mutex);
  log_->bucket.set_rate(bytes_per_s);
  log_->wake_all();
}

DiskCounts LogDisk::counts() const {
  const std::lock_guard lock(log_->mutex);
  DiskCounts counts = log_->counts;
  counts.records = log_->records;
  counts.live_bytes = log_->live_bytes;
  counts.queued_bytes = clerk_.queued_bytes;
  counts.is_uring = log_->io->is_uring();
  for (const auto& place : log_->places) {
    DiskPlaceCounts each;
    each.folder = place->folder;
    each.is_failed = place->is_failed;
    each.is_direct = place->is_direct;
    each.error = place->error;
    each.bytes_max = place->bytes_max;
    each.usable_bytes = place->usable_bytes();
    each.file_bytes = place->file_bytes;
    for (const auto& segment : place->segments) each.live_bytes += segment->live_bytes;
    each.write_errors = place->write_errors;
    each.read_errors = place->read_errors;
    counts.bytes_max += place->bytes_max;
    counts.usable_bytes += each.usable_bytes;
    counts.file_bytes += place->file_bytes;
    counts.failed_places += place->is_failed ? 1 : 0;
    counts.places.push_back(std::move(each));
  }
  return counts;
}

}  // namespace gd2fs::disk

namespace gd2fs {

Result<std::unique_ptr<Disk>> Disk::open(const DiskOptions& options, const Visit& visit) {
  auto io = disk::make_io(options.io, options.depth);
  if (!io) return io.error();
  return disk::open_log_disk(options, visit, std::move(*io));
}

Result<std::unique_ptr<Disk>> Disk::open(const DiskOptions& options, const Visit& visit,
                                         std::unique_ptr<disk::DiskIo> io) {
  return disk::open_log_disk(options, visit, std::move(io));
}

}  // namespace gd2fs
