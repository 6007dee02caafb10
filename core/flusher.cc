#include "flusher.h"

#include "store.h"

namespace gd2fs {
namespace {

constexpr auto ROUND = std::chrono::milliseconds(250);
constexpr auto ROUND_WHILE_WANTED = std::chrono::milliseconds(2);
constexpr auto PAUSE_AFTER_RETRY = std::chrono::milliseconds(5);
constexpr auto PAUSE_AFTER_FAULT = std::chrono::milliseconds(1'000);

DiskPiece record_of(const Piece& piece) {
  DiskPiece record;
  record.name = piece.name();
  record.is_page = piece.is_page();
  record.chunk = piece.chunk();
  record.tag = piece.tag();
  record.seq = piece.seq();
  record.offset = piece.offset();
  record.length = piece.length();
  record.replicas = piece.replicas();
  if (piece.expires_ms() != 0)
    record.expires_ms = piece.expires_ms() - boottime_ms() + realtime_ms();
  record.hashes.assign(piece.hashes().begin(), piece.hashes().end());
  return record;
}

}  // namespace

Flusher::Flusher(Index& index, Disk& disk, const FlusherOptions& options,
                 std::function<void()> on_room)
    : index_(index),
      disk_(disk),
      options_(options),
      on_room_(std::move(on_room)),
      rate_(options.write_bytes_per_s) {}

void Flusher::start() {
  thread_ = std::thread([this] { loop(); });
}

void Flusher::wake() {
  const std::lock_guard lock(mutex_);
  is_called_ = true;
  called_.notify_one();
}

void Flusher::want_room() {
  const std::lock_guard lock(mutex_);
  is_room_wanted_ = true;
  called_.notify_one();
}

void Flusher::note_dirty() {
  if (index_.dirty_bytes() > options_.dirty_bytes_max) wake();
}

void Flusher::write_soon(PieceRef piece) {
  const std::lock_guard lock(mutex_);
  if (is_stopping_) return;
  wanted(std::move(piece));
  is_called_ = true;
  called_.notify_one();
}

void Flusher::write(const PieceRef& piece, Done done) {
  Status status = Status::ok;
  bool is_over = true;
  if (piece->state() != PieceState::live) {
    status = Status::miss;
  } else if (index_.is_dirty(*piece)) {
    const std::lock_guard lock(mutex_);
    is_over = is_stopping_;
    status = Status::cancelled;
    if (!is_stopping_) {
      wanted(piece)->waiters.push_back(std::move(done));
      is_called_ = true;
      called_.notify_one();
    }
  } else if (index_.copy_of(*piece) == nullptr) {
    status = piece->state() == PieceState::live ? Status::denied : Status::miss;
  }
  if (is_over) done(status);
}

/// Under the lock.
Flusher::WriteRef Flusher::wanted(PieceRef piece) {
  WriteRef& write = writes_[piece.get()];
  if (write == nullptr) {
    write = std::make_shared<Write>(Write{std::move(piece), {}});
    urgent_.push_back(write);
  }
  return write;
}

void Flusher::loop() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const bool is_pausing = std::exchange(is_room_wanted_, false);
      const bool is_wanted = is_pausing || !urgent_.empty() || is_behind();
      called_.wait_for(lock, is_wanted ? ROUND_WHILE_WANTED : ROUND, [&] {
        return is_called_ || is_stopping_ || (is_room_wanted_ && !is_wanted);
      });
      is_called_ = false;
      if (is_stopping_) return;
    }
    on_room_();
    round();
  }
}

bool Flusher::is_behind() const {
  return index_.dirty_bytes() > (is_draining_.load() ? 0 : options_.dirty_bytes_max);
}

void Flusher::round() {
  while (const WriteRef write = next()) begin(write);
}

/// The one to be written now. Nothing: enough is on its way, or none has to be.
Flusher::WriteRef Flusher::next() {
  while (has_room()) {
    PieceRef oldest;
    if (is_behind()) oldest = index_.take_dirty();
    const std::lock_guard lock(mutex_);
    if (oldest != nullptr) wanted(std::move(oldest));
    if (urgent_.empty()) return nullptr;
    WriteRef write = std::move(urgent_.front());
    urgent_.pop_front();
    write->is_begun = true;
    ++on_way_;
    on_way_bytes_ += write->piece->length();
    return write;
  }
  return nullptr;
}

/// At a limited rate what finds no room on the way is let go rather than waited for.
bool Flusher::has_room() {
  const std::lock_guard lock(mutex_);
  const bool is_full = on_way_ > 0 && on_way_bytes_ >= options_.on_way_bytes_max;
  if (!is_failing_) index_.set_losing(is_full && rate_.load() != 0);
  return !is_stopping_ && !is_full && Clock::now() >= not_before_;
}

void Flusher::begin(const WriteRef& write) {
  const Piece& piece = *write->piece;
  const bool has_room = index_.make_disk_room(piece.space(), piece.length());
  if (!has_room) index_.give_up(write->piece);
  if (!index_.is_dirty(piece)) {
    const bool is_there = index_.copy_of(piece) != nullptr;
    return take(write, is_there ? Status::have : has_room ? Status::miss : Status::denied, nullptr);
  }
  write->space = &piece.space();
  write->space->add_disk(static_cast<std::int64_t>(piece.length()));
  std::vector<std::span<std::byte>> runs;
  piece.runs(0, piece.length(), runs);
  Disk::ConstRuns const_runs(runs.begin(), runs.end());
  disk_.write(record_of(piece), std::move(const_runs), write->piece,
              [this, write](Status status, const DiskCopyRef& copy) { take(write, status, copy); });
}

/// On a thread of the disk, or at once.
void Flusher::take(const WriteRef& write, Status status, const DiskCopyRef& copy) {
  const PieceRef& piece = write->piece;
  if (status == Status::ok) {
    disk_.set_owner(copy, piece);
    if (!index_.note_copy(piece, copy)) {
      disk_.strike(copy);
      index_.put_back(piece);
    }
    ++pieces_;
    bytes_ += piece->length();
  } else if (status != Status::have && status != Status::miss && status != Status::denied) {
    if (status != Status::retry) ++failed_;
    status == Status::full ? index_.give_up(piece) : index_.put_back(piece);
  }
  // Only now: for a moment it counts twice, never not at all, so that a quota is kept.
  if (Space* const space = std::exchange(write->space, nullptr))
    space->add_disk(-static_cast<std::int64_t>(piece->length()));
  const bool is_there = status == Status::have;
  finish(write, is_there ? Status::ok : status);
}

void Flusher::finish(const WriteRef& write, Status status) {
  std::vector<Done> waiters;
  const std::uint64_t bytes = write->piece->length();
  const bool is_fault = status == Status::unavailable;
  {
    const std::lock_guard lock(mutex_);
    if (is_fault) not_before_ = Clock::now() + PAUSE_AFTER_FAULT;
    if (status == Status::retry) not_before_ = Clock::now() + PAUSE_AFTER_RETRY;
    const bool is_again = status == Status::retry && !write->waiters.empty() && !is_stopping_;
    on_way_bytes_ -= bytes;
    if (is_again) {
      write->is_begun = false;
      urgent_.push_front(write);
    } else {
      const auto known = writes_.find(write->piece.get());
      if (known != writes_.end() && known->second == write) writes_.erase(known);
      waiters.swap(write->waiters);
    }
  }
  if (is_fault || status == Status::ok) {
    is_failing_ = is_fault;
    index_.set_losing(is_fault);
  }
  for (const Done& done : waiters) done(status);
  on_room_();
  // The last of it: who stops waits for this, and then neither this nor its host need be there.
  const std::lock_guard lock(mutex_);
  --on_way_;
  is_called_ = true;
  called_.notify_one();
  ended_.notify_all();
}

bool Flusher::drain(std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  is_draining_ = true;
  wake();
  std::unique_lock lock(mutex_);
  const bool is_over = ended_.wait_until(lock, deadline, [this] {
    return is_failing_ || (index_.dirty_bytes() == 0 && on_way_ == 0);
  });
  is_draining_ = false;
  return is_over && !is_failing_;
}

void Flusher::stop() {
  std::deque<WriteRef> waiting;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    waiting.swap(urgent_);
    called_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  for (const WriteRef& write : waiting) {
    for (const Done& done : write->waiters) done(Status::cancelled);
    write->waiters.clear();
  }
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return on_way_ == 0; });
  writes_.clear();
}

FlusherCounts Flusher::counts() const {
  FlusherCounts now;
  now.pieces = pieces_.load();
  now.bytes = bytes_.load();
  now.failed = failed_.load();
  now.is_losing = is_failing_.load();
  const std::lock_guard lock(mutex_);
  now.on_way_bytes = on_way_bytes_;
  return now;
}

}  // namespace gd2fs
