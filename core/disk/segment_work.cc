#include "segment_work.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "../assertion.h"
#include "../random.h"
#include "grain_buffer.h"
#include "transfer.h"

namespace gd2fs::disk {
namespace {

constexpr std::size_t SEGMENTS_TO_GO_ON = 4;  // with fewer a full file system is a failure

int write_front(DiskIo& io, int file, const SegmentHead& head) {
  GrainBuffer front(FRONT_BYTES);  // an empty grain is no seal
  encode(head, front.span());
  const iovec run{front.span().data(), front.size()};
  const int error = transfer_now(io, IoKind::write, file, 0, run);
  return error != 0 ? error : sync_now(io, file);
}

/// A descriptor or -errno.
int make_file(DiskIo& io, int folder_file, const std::string& path, std::uint64_t bytes,
              bool& is_direct) {
  int file = -EINVAL;
  if (is_direct) file = io.open(path, O_RDWR | O_CREAT | O_DIRECT);
  if (file == -EINVAL) {
    is_direct = false;
    file = io.open(path, O_RDWR | O_CREAT);
  }
  if (file < 0) return file;
  int error = io.allocate(file, bytes);
  if (error == 0) error = -sync_now(io, folder_file);  // or a power cut might take the file away
  if (error == 0) return file;
  io.close(file);
  io.remove(path);
  return error;
}

Segment* grow(Log& log, Place& place, std::uint64_t bytes, LogLock& lock) {
  const std::uint64_t number = place.number_next++;
  bool is_direct = place.is_direct;
  lock.unlock();
  const std::string path = place.path_of(number);
  const int file = make_file(*log.io, place.folder_file, path, bytes, is_direct);
  lock.lock();
  place.is_direct = is_direct;
  if (file >= 0) {
    Segment* const segment = place.add(number, bytes, file);
    segment->state = Segment::State::busy;
    return segment;
  }
  ++place.write_errors, ++log.counts.write_errors;
  place.growth_ms = now_ms() + log.options.retry_ms;
  if (file != -ENOSPC || place.segments.size() < SEGMENTS_TO_GO_ON) {
    log.fail(place, -file);
  } else {
    place.error = ENOSPC;
    ++log.counts.full_errors;
  }
  return nullptr;
}

}  // namespace

void remove_file(Log& log, Segment& segment, LogLock& lock) {
  segment.state = Segment::State::busy;
  const std::string path = segment.place.path_of(segment.number);
  lock.unlock();
  log.io->close(segment.file);
  log.io->remove(path);
  lock.lock();
  segment.place.remove(&segment);
}

Segment* make_ready(Log& log, Place& place, std::uint64_t bytes, LogLock& lock) {
  Segment* segment = place.blank_of(bytes);
  while (!segment && place.file_bytes + bytes > place.bytes_max) {
    Segment* const other = place.first_in(Segment::State::blank);
    if (!other) return nullptr;
    remove_file(log, *other, lock);  // of another length, so of no use to this one
  }
  if (!segment && place.may_grow(bytes, now_ms())) segment = grow(log, place, bytes, lock);
  if (!segment) return nullptr;
  segment->state = Segment::State::busy;
  const SegmentHead head{random_tag(), log.options.node_name};
  lock.unlock();
  const int error = write_front(*log.io, segment->file, head);
  lock.lock();
  segment->end = FRONT_BYTES;
  segment->is_sealable = true;
  segment->is_void = false;
  segment->id = head.id;
  if (error == 0) return segment;
  ++place.write_errors, ++log.counts.write_errors;
  segment->state = Segment::State::doomed;  // its head may say anything
  log.fail(place, error);
  return nullptr;
}

bool make_void(Log& log, Segment& segment, LogLock& lock) {
  segment.state = Segment::State::doomed;
  std::vector<LogCopyRef> lost;
  for (const LogCopyRef& copy : segment.copies) {
    if (!copy->is_here() || copy->move == LogCopy::Move::copied) continue;
    log.let_go(*copy);
    ++log.counts.lost_records;
    log.counts.lost_bytes += copy->disk_bytes();
    lost.push_back(copy);
  }
  ++segment.pins;
  lock.unlock();
  const int error = write_front(*log.io, segment.file, SegmentHead{0, log.options.node_name});
  lock.lock();
  --segment.pins;
  if (error == 0) {
    segment.is_void = true;
    for (LogCopyRef& copy : segment.copies) {
      segment.live_bytes -= copy->is_here() ? copy->disk_bytes() : 0;
      copy->segment = nullptr;
      if (copy->move != LogCopy::Move::copied) continue;
      Segment& next = *copy->next_segment;
      copy->move = LogCopy::Move::none;
      --next.arrivals;
      next.add(copy, copy->next_offset);
    }
    segment.copies.clear();
  } else {
    ++segment.place.write_errors, ++log.counts.write_errors;
    log.fail(segment.place, error);
  }
  std::vector<std::function<void(Status)>> waiters;
  if (error == 0) waiters.swap(segment.void_waiters);
  std::vector<std::pair<LogCopyRef, std::shared_ptr<void>>> told;
  for (LogCopyRef& copy : lost) told.emplace_back(copy, copy->owner.lock());
  const auto& tell = log.lost;
  lock.unlock();
  for (auto& [copy, owner] : told)
    if (tell) tell(copy, std::move(owner));
  for (const auto& waiter : waiters) waiter(Status::ok);
  told.clear();
  lock.lock();
  return error == 0;
}

bool write_seal(Log& log, Segment& segment, LogLock& lock) {
  segment.state = Segment::State::busy;
  const SegmentSeal seal{segment.id, segment.end};
  lock.unlock();
  int error = sync_now(*log.io, segment.file);  // else the seal might be there before the records
  GrainBuffer grain(GRAIN_BYTES);
  encode(seal, grain.span());
  const iovec run{grain.span().data(), grain.size()};
  if (error == 0) error = transfer_now(*log.io, IoKind::write, segment.file, GRAIN_BYTES, run);
  lock.lock();
  segment.is_dirty = true;
  segment.state = Segment::State::closed;
  if (error == 0) return true;
  segment.is_sealable = false;  // it stands as it is: without a seal all of it is verified
  ++segment.place.write_errors, ++log.counts.write_errors;
  log.fail(segment.place, error);
  return false;
}

}  // namespace gd2fs::disk
