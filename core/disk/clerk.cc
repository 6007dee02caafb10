#include "clerk.h"

#include <time.h>

#include <algorithm>
#include <chrono>

#include "../assertion.h"
#include "transfer.h"

namespace gd2fs::disk {
namespace {

constexpr std::size_t STRIKES_ON_WAY_MAX = 64;
constexpr std::uint64_t WRITE_BYTES_ON_WAY_MAX = 16 * MiB;  // of a place; a single one always is
constexpr std::int64_t PAUSE_MS = 1'000;

}  // namespace

std::uint32_t used_now_s() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint32_t>(now.tv_sec);
}

void Clerk::loop() {
  Work work;
  std::unique_lock lock(log_.mutex);
  for (;;) {
    for (auto& answer : answers) work.push_back(std::move(answer));
    answers.clear();
    take_writes(work);
    take_strikes(work);
    take_flushes(work);
    if (work.empty()) {
      if (!log_.has_keepers && is_idle()) return;  // they may leave it something to say
      wait(lock);
      continue;
    }
    lock.unlock();
    for (const auto& each : work) each();
    work.clear();
    lock.lock();
  }
}

bool Clerk::is_idle() const {
  return writes.empty() && flushes.empty() && answers.empty() && log_.strikes.empty() &&
         log_.late_strikes.empty() && log_.on_way == 0;
}

void Clerk::wait(std::unique_lock<std::mutex>& lock) {
  const std::int64_t opens_ms = writes.empty() ? 0 : log_.bucket.opens_in_ms();
  const std::int64_t pause_ms = opens_ms > 0 ? std::min(opens_ms, PAUSE_MS) : PAUSE_MS;
  log_.clerk_called.wait_for(lock, std::chrono::milliseconds(pause_ms));
}

// ---- records ------------------------------------------------------------------------------------

void Clerk::take_writes(Work& work) {
  while (log_.is_closing && !writes.empty()) take_back_first(Status::cancelled, work);
  while (!writes.empty() && log_.bucket.is_open(now_ns())) {
    bool is_hopeless = false;
    Segment* const segment = segment_for(writes.front().bytes, is_hopeless);
    if (is_hopeless) {
      take_back_first(Status::unavailable, work);
      continue;
    }
    if (!segment) return;
    auto way = std::make_shared<RecordOnWay>();
    way->write = std::move(writes.front());
    writes.pop_front();
    const std::uint64_t bytes = way->write.bytes;
    queued_bytes -= bytes;
    log_.bucket.take(bytes);
    way->segment = segment;
    way->offset = segment->take(bytes);
    way->serial = log_.serial_next++;
    segment->place.on_way_bytes += bytes;
    ++segment->place.on_way;
    ++log_.on_way;
    work.push_back([this, way, id = segment->id] {
      way->header = GrainBuffer(header_bytes_of(way->write.piece));
      RecordHead head;
      head.segment_id = id;
      head.offset = way->offset;
      head.serial = way->serial;
      head.header_bytes = static_cast<std::uint32_t>(way->header.size());
      head.piece = std::move(way->write.piece);
      encode(head, way->header.span());
      way->write.piece = std::move(head.piece);
      launch(way);
    });
  }
}

void Clerk::take_back_first(Status status, Work& work) {
  auto write = std::make_shared<WaitingWrite>(std::move(writes.front()));
  writes.pop_front();
  queued_bytes -= write->bytes;
  log_.end(write->number);
  work.push_back([status, write] { write->done(status, nullptr); });
}

/// Of the places that can take it now the one with the least on its way, or else the emptiest.
Segment* Clerk::segment_for(std::uint64_t bytes, bool& is_hopeless) {
  is_hopeless = true;
  std::vector<Place*> order;
  for (const auto& place : log_.places) {
    if (!place->can_take(bytes)) continue;
    is_hopeless = false;
    const bool is_busy = place->on_way_bytes + bytes > WRITE_BYTES_ON_WAY_MAX ||
                         place->on_way >= std::max<std::size_t>(log_.options.depth / 2, 1);
    if (place->on_way == 0 || !is_busy) order.push_back(place.get());
  }
  const auto key = [](const Place* place) {
    return std::pair(place->on_way_bytes, static_cast<double>(place->written_bytes) /
                                              static_cast<double>(place->bytes_max));
  };
  std::sort(order.begin(), order.end(),
            [&](const Place* a, const Place* b) { return key(a) < key(b); });
  for (Place* place : order) {
    const Segment* const ready = place->ready;
    Segment* const segment = place->room_for(bytes);
    if (!segment || place->ready != ready) log_.keepers_called.notify_all();
    if (segment) return segment;
  }
  return nullptr;
}

void Clerk::launch(std::shared_ptr<RecordOnWay> way) {
  std::vector<iovec> runs;
  runs.reserve(way->write.runs.size() + 1);
  runs.push_back({way->header.span().data(), way->header.size()});
  for (const auto run : way->write.runs) {
    // Invariant: the rest of the last run's grain is its owner's too; nothing is written there.
    runs.push_back({const_cast<std::byte*>(run.data()), whole_grains(run.size())});
  }
  transfer(*log_.io, IoKind::write, way->segment->file, way->offset, std::move(runs),
           [this, way](int error) { written(*way, error); });
}

void Clerk::written(RecordOnWay& way, int error) {
  const LogCopyRef copy = arrive(way, error);
  way.write.done(copy ? Status::ok : Status::unavailable, copy);
  way.write.done = {};
  way.write.keep.reset();
  passed_on();
}

LogCopyRef Clerk::arrive(RecordOnWay& way, int error) {
  const DiskPiece& piece = way.write.piece;
  const auto header_bytes = static_cast<std::uint32_t>(way.header.size());
  Segment& segment = *way.segment;
  Place& place = segment.place;
  const std::lock_guard lock(log_.mutex);
  LogCopyRef copy;
  place.on_way_bytes -= way.write.bytes;
  --place.on_way;
  if (error == 0) {
    copy = std::make_shared<LogCopy>(piece.length, way.serial, header_bytes);
    copy->used_s.store(used_now_s());
    segment.add(copy, way.offset);
    segment.is_dirty = true;
    ++log_.records;
    log_.live_bytes += copy->disk_bytes();
    ++log_.counts.written_records;
    log_.counts.written_bytes += way.write.bytes;
    place.written_bytes += way.write.bytes;
    if (!place.is_failed && place.growth_ms == 0) place.error = 0;
  } else {
    ++place.write_errors, ++log_.counts.write_errors;
    segment.is_sealable = false;
    place.doubts.push_back({&segment, segment.id, way.offset, piece.length, header_bytes});
    log_.fail(place, error);
  }
  if (--segment.writes == 0) log_.keepers_called.notify_all();
  log_.unpin(segment);
  log_.end(way.write.number);
  log_.clerk_called.notify_one();
  return copy;
}

/// The last thing that a call does: now the disk may end.
void Clerk::passed_on() {
  const std::lock_guard lock(log_.mutex);
  --log_.on_way;
  log_.clerk_called.notify_one();
}

// ---- strikes ------------------------------------------------------------------------------------

void Clerk::take_strikes(Work& work) {
  while (!log_.strikes.empty() && strikes_on_way_ < STRIKES_ON_WAY_MAX) {
    WaitingStrike strike = std::move(log_.strikes.front());
    log_.strikes.pop_front();
    place_strike(std::move(strike), work);
  }
}

void Clerk::place_strike(WaitingStrike strike, Work& work) {
  LogCopy& copy = *strike.copy;
  if (copy.segment && copy.move == LogCopy::Move::copying)
    return log_.late_strikes.push_back(std::move(strike));
  const bool is_doomed = copy.segment && copy.segment->state == Segment::State::doomed &&
                         copy.move != LogCopy::Move::copied;
  if (!copy.segment || is_doomed) {
    const std::uint64_t number = strike.number;
    auto say = [this, number, done = std::move(strike.done)](Status status) {
      {
        const std::lock_guard lock(log_.mutex);
        log_.end(number);
        log_.clerk_called.notify_one();
      }
      if (done) done(status);
    };
    if (copy.segment && log_.has_keepers)
      return copy.segment->void_waiters.push_back(std::move(say));
    const Status status = copy.segment ? Status::unavailable : Status::ok;
    return work.push_back([say = std::move(say), status] { say(status); });
  }
  auto way = std::make_shared<StrikeOnWay>();
  way->at.push_back({copy.segment, copy.segment->id, copy.offset});
  if (copy.move == LogCopy::Move::copied)
    way->at.push_back({copy.next_segment, copy.next_segment->id, copy.next_offset});
  for (const auto& at : way->at) ++at.segment->pins;
  way->left = way->at.size();
  way->strike = std::move(strike);
  log_.bucket.take(GRAIN_BYTES);
  ++strikes_on_way_;
  ++log_.on_way;
  work.push_back([this, way] { launch(way); });
}

void Clerk::launch(std::shared_ptr<StrikeOnWay> way) {
  const LogCopy& copy = *way->strike.copy;
  for (const auto& at : way->at) {
    write_strike(*log_.io, at.segment->file, at.id, at.offset, copy.header_bytes, copy.length(),
                 [this, way, &at](int error) { struck(*way, at, error); });
  }
}

void Clerk::struck(StrikeOnWay& way, const StrikeOnWay::At& at, int error) {
  {
    const std::lock_guard lock(log_.mutex);
    Place& place = at.segment->place;
    at.segment->is_dirty = true;
    log_.unpin(*at.segment);
    if (error != 0) {
      ++place.write_errors, ++log_.counts.write_errors;
      if (!way.has_failed) place.owed.push_back(way.strike.copy);
      way.has_failed = true;
      log_.fail(place, error);
    } else {
      log_.counts.written_bytes += GRAIN_BYTES;
    }
    if (--way.left > 0) return;
    --strikes_on_way_;
    log_.end(way.strike.number);
    log_.clerk_called.notify_one();
  }
  if (way.strike.done) way.strike.done(way.has_failed ? Status::unavailable : Status::ok);
  way.strike.done = {};
  passed_on();
}

// ---- flushes ------------------------------------------------------------------------------------

void Clerk::take_flushes(Work& work) {
  if (is_syncing_) return;
  auto round = std::make_shared<SyncRound>();
  while (!flushes.empty() &&
         (log_.under_way.empty() || *log_.under_way.begin() > flushes.front().number)) {
    round->dones.push_back(std::move(flushes.front().done));
    flushes.pop_front();
  }
  if (round->dones.empty()) return;
  for (const auto& place : log_.places) {
    for (const auto& segment : place->segments) {
      if (!segment->is_dirty) continue;
      segment->is_dirty = false;
      ++segment->pins;
      round->segments.push_back(segment.get());
    }
  }
  round->left = round->segments.size();
  if (round->left == 0) {
    return work.push_back([round] {
      for (const auto& done : round->dones) done(Status::ok);
    });
  }
  is_syncing_ = true;
  ++log_.on_way;
  work.push_back([this, round] { launch(round); });
}

void Clerk::launch(std::shared_ptr<SyncRound> round) {
  for (Segment* segment : round->segments) {
    sync(*log_.io, segment->file,
         [this, round, segment](int error) { synced(*round, *segment, error); });
  }
}

void Clerk::synced(SyncRound& round, Segment& segment, int error) {
  {
    const std::lock_guard lock(log_.mutex);
    if (error != 0) {
      segment.is_dirty = true;
      round.has_failed = true;
      ++log_.counts.sync_errors;
      log_.fail(segment.place, error);
    }
    log_.unpin(segment);
    if (--round.left > 0) return;
    is_syncing_ = false;
  }
  for (const auto& done : round.dones) done(round.has_failed ? Status::unavailable : Status::ok);
  round.dones.clear();
  passed_on();
}

}  // namespace gd2fs::disk
