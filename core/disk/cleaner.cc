#include "cleaner.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "../checksum.h"
#include "latch.h"
#include "transfer.h"

namespace gd2fs::disk {
namespace {

constexpr double LIVE_SHARE_MAX = 0.5;  // then a byte gained costs at most one byte moved
constexpr std::uint64_t BATCH_BYTES = 8 * MiB;
constexpr std::int64_t PAUSE_MS = 100;

/// The record as it came from the disk is right, all of it.
std::optional<RecordHead> verify(std::span<const std::byte> record, std::uint64_t id,
                                 std::uint64_t offset) {
  auto head = decode_record(record, id, offset);
  if (!head || head->is_struck || head->bytes() > record.size()) return std::nullopt;
  std::span<const std::byte> left = record.subspan(head->header_bytes, head->piece.length);
  for (const std::uint64_t hash : head->piece.hashes) {
    const auto block = left.first(std::min<std::size_t>(left.size(), BLOCK_BYTES));
    if (checksum(block) != hash) return std::nullopt;
    left = left.subspan(block.size());
  }
  return head;
}

}  // namespace

bool Cleaner::make_room(LogLock& lock) {
  Segment* victim = place_.emptiest();
  if (!victim) return false;
  if (is_worth_moving(*victim)) {
    victim->state = Segment::State::busy;
    if (!move_all(*victim, lock)) {
      victim->state = Segment::State::closed;
      return true;
    }
  } else if (victim->live_bytes > 0) {
    victim = place_.coldest();
  }
  make_void(log_, *victim, lock);
  return true;
}

bool Cleaner::is_worth_moving(const Segment& victim) const {
  return victim.live_bytes > 0 && victim.live_share() <= LIVE_SHARE_MAX &&
         log_.counts.moved_bytes + victim.live_bytes <=
             log_.counts.written_bytes + place_.segment_bytes;
}

/// False: not now. What was copied by then stays known in both places.
bool Cleaner::move_all(Segment& victim, LogLock& lock) {
  std::vector<LogCopyRef> copies;
  for (const LogCopyRef& copy : victim.copies)
    if (copy->is_here() && copy->move == LogCopy::Move::none) copies.push_back(copy);
  std::sort(copies.begin(), copies.end(),
            [](const auto& a, const auto& b) { return a->offset < b->offset; });
  std::size_t next = 0;
  while (next < copies.size()) {
    if (!wait_for_turn(lock)) return false;
    std::vector<Move> batch = next_batch(copies, next, lock);
    if (batch.empty() && place_.is_failed) return false;
    if (batch.empty()) break;  // no room to move to: what is left goes
    lock.unlock();
    carry(batch);
    lock.lock();
    if (!settle(batch)) return false;
  }
  return sync_targets(victim, lock);
}

bool Cleaner::wait_for_turn(LogLock& lock) {
  while (!log_.is_closing && !place_.is_failed && !log_.bucket.is_open(now_ns())) {
    const std::int64_t pause_ms = std::min(log_.bucket.opens_in_ms(), PAUSE_MS);
    log_.keepers_called.wait_for(lock, std::chrono::milliseconds(pause_ms));
  }
  return !log_.is_closing && !place_.is_failed;
}

/// The next live ones, each with its new place. Fewer, or none, when there is no room for more.
std::vector<Cleaner::Move> Cleaner::next_batch(const std::vector<LogCopyRef>& copies,
                                               std::size_t& next, LogLock& lock) {
  std::vector<Move> batch;
  std::uint64_t bytes = 0;
  for (; next < copies.size() && bytes < BATCH_BYTES; ++next) {
    const LogCopyRef& copy = copies[next];
    if (!copy->is_here()) continue;
    Segment* const to = target_for(copy->disk_bytes(), lock);  // lets go of the lock
    if (!to) break;
    if (!copy->is_here()) continue;
    Move move;
    move.copy = copy;
    move.from = copy->segment, move.from_id = copy->segment->id, move.from_offset = copy->offset;
    move.to = to, move.to_id = to->id, move.to_offset = to->take(copy->disk_bytes());
    copy->move = LogCopy::Move::copying;
    ++move.from->pins;
    bytes += copy->disk_bytes();
    batch.push_back(std::move(move));
  }
  log_.bucket.take(bytes);
  return batch;
}

Segment* Cleaner::target_for(std::uint64_t bytes, LogLock& lock) {
  if (place_.moved && place_.moved->has_room(bytes)) return place_.moved;
  if (place_.moved) place_.moved->state = Segment::State::full;
  place_.moved = nullptr;
  if (place_.is_large(bytes)) return nullptr;
  Segment* const fresh = make_ready(log_, place_, place_.segment_bytes, lock);
  if (!fresh) return nullptr;
  fresh->state = Segment::State::open;
  place_.moved = fresh;
  return fresh;
}

/// Reads all, verifies them, writes those that are right. Without the lock.
void Cleaner::carry(std::vector<Move>& batch) {
  Latch read(batch.size());
  for (Move& move : batch) {
    move.bytes = GrainBuffer(move.copy->disk_bytes());
    const iovec run{move.bytes.span().data(), move.bytes.size()};
    transfer(*log_.io, IoKind::read, move.from->file, move.from_offset, {run}, [&](int error) {
      move.is_read = error == 0;
      read.arrive(error);
    });
  }
  read.wait();
  Latch written(batch.size());
  for (Move& move : batch) {
    if (!move.is_read) {
      written.arrive(0);
      continue;
    }
    auto head = verify(move.bytes.span(), move.from_id, move.from_offset);
    move.is_whole = head.has_value();
    if (!head) {
      written.arrive(0);
      continue;
    }
    head->segment_id = move.to_id;
    head->offset = move.to_offset;
    encode(*head, move.bytes.span());
    const iovec run{move.bytes.span().data(), move.bytes.size()};
    transfer(*log_.io, IoKind::write, move.to->file, move.to_offset, {run}, [&](int error) {
      move.is_written = error == 0;
      written.arrive(error);
    });
  }
  if (const int error = written.wait(); error != 0) {
    const std::lock_guard lock(log_.mutex);
    ++place_.write_errors, ++log_.counts.write_errors;
    log_.fail(place_, error);
  }
}

/// False: the place fails.
bool Cleaner::settle(std::vector<Move>& batch) {
  for (Move& move : batch) settle(move);
  for (WaitingStrike& strike : log_.late_strikes) log_.strikes.push_back(std::move(strike));
  log_.late_strikes.clear();
  log_.wake_all();
  return !place_.is_failed;
}

void Cleaner::settle(Move& move) {
  LogCopy& copy = *move.copy;
  --move.to->writes;
  log_.unpin(*move.to);
  log_.unpin(*move.from);
  copy.move = LogCopy::Move::none;
  if (move.is_written) {
    copy.move = LogCopy::Move::copied;
    copy.next_segment = move.to;
    copy.next_offset = move.to_offset;
    ++move.to->arrivals;
    move.to->is_dirty = true;
    ++log_.counts.moved_records;
    log_.counts.moved_bytes += copy.disk_bytes();
  } else if (move.is_read && !move.is_whole) {
    ++log_.counts.torn_records;  // left where it is; lost with its segment
  } else if (!move.is_read) {
    ++place_.read_errors, ++log_.counts.read_errors;
  } else {
    move.to->is_sealable = false;
    place_.doubts.push_back(
        {move.to, move.to_id, move.to_offset, copy.length(), copy.header_bytes});
  }
}

/// The new places have to be there before the old ones are void.
bool Cleaner::sync_targets(const Segment& victim, LogLock& lock) {
  std::vector<Segment*> targets;
  for (const LogCopyRef& copy : victim.copies) {
    if (copy->move != LogCopy::Move::copied) continue;
    if (std::find(targets.begin(), targets.end(), copy->next_segment) == targets.end())
      targets.push_back(copy->next_segment);
  }
  lock.unlock();
  int error = 0;
  for (const Segment* target : targets)
    if (error == 0) error = sync_now(*log_.io, target->file);
  lock.lock();
  if (error == 0) return true;
  ++log_.counts.sync_errors;
  log_.fail(place_, error);
  return false;
}

}  // namespace gd2fs::disk
