#include "loader.h"

#include <algorithm>

#include "assertion.h"
#include "store.h"

namespace gd2fs {

namespace {

// Less than the second after which a client gives up a node that says nothing. What waits for the
// disk to take what is to leave memory is seldom that late.
constexpr std::int64_t STARVED_MS = 500;
constexpr std::size_t ENDED_PER_PUMP = 8;  // each looks for memory in vain first

}  // namespace

void Loader::load(const PieceRef& piece, LoadRank rank, StopRef stop, Done done) {
  if (piece->is_whole()) return done(Status::ok, piece);
  bool is_refused = false;
  {
    const std::lock_guard lock(mutex_);
    is_refused = is_stopping_;
    if (!is_refused) {
      LoadRef& load = loads_[piece.get()];
      const bool is_new = load == nullptr;
      if (is_new) load = std::make_shared<Load>(Load{piece, nullptr, rank, false, {}});
      load->waiters.push_back({std::move(stop), std::move(done)});
      const bool is_sooner = !is_new && rank < load->rank;
      if (is_sooner) load->rank = rank;  // what stands in the other queue is passed over there
      const bool is_to_stand_in = is_new || (is_sooner && !load->is_begun);
      if (is_to_stand_in) waiting_[static_cast<std::size_t>(rank)].push_back(load);
    }
  }
  if (is_refused) return done(Status::cancelled, nullptr);
  if (!is_starved()) pump();  // else somebody is about to
}

void Loader::pump() {
  std::size_t ended = 0;
  while (const LoadRef load = next()) {
    if (begin(load) != Begun::starved) continue;
    if (wait_for_room(load)) return host_.on_starved();
    finish(load, Status::retry, nullptr);
    if (++ended < ENDED_PER_PUMP) continue;
    is_starved_ = true;
    return host_.on_starved();
  }
}

/// False: nothing has found room for so long that who asked is told.
bool Loader::wait_for_room(const LoadRef& load) {
  const std::int64_t now_ms = boottime_ms();
  const std::lock_guard lock(mutex_);
  const bool is_anew = starved_since_ms_ == 0 || now_ms - starved_last_ms_ > STARVED_MS;
  if (is_anew) starved_since_ms_ = now_ms;
  starved_last_ms_ = now_ms;
  if (now_ms - starved_since_ms_ >= STARVED_MS) return false;
  load->is_begun = false;
  waiting_[static_cast<std::size_t>(load->rank)].push_front(load);
  is_starved_ = true;
  return true;
}

/// The next one that somebody wants still.
Loader::LoadRef Loader::next() {
  for (;;) {
    LoadRef load;
    bool is_wanted = false;
    {
      const std::lock_guard lock(mutex_);
      const auto queue = std::find_if(waiting_.begin(), waiting_.end(),
                                      [](const auto& each) { return !each.empty(); });
      is_starved_ = false;
      if (queue == waiting_.end()) return nullptr;
      load = std::move(queue->front());
      queue->pop_front();
      const auto rank = static_cast<LoadRank>(queue - waiting_.begin());
      // It stands in two queues when it was asked for again with a better rank.
      const auto known = loads_.find(load->cold.get());
      if (load->is_begun || load->rank != rank) continue;
      if (known == loads_.end() || known->second != load) continue;
      load->is_begun = true;
      is_wanted = !is_stopped(*load);
      if (!is_wanted) loads_.erase(known);  // who asks from now on is no waiter of this one
    }
    if (is_wanted) return load;
    finish(load, Status::cancelled, nullptr);
  }
}

Loader::Begun Loader::begin(const LoadRef& load) {
  const DiskCopyRef copy = index_.copy_of(*load->cold);
  if (copy == nullptr) {
    // Dropped, or loaded by an earlier one, and perhaps on disk alone again.
    const PieceRef now = index_.current(*load->cold);
    if (now == nullptr || now == load->cold) {
      finish(load, Status::miss, nullptr);
    } else {
      for (const Waiter& each : end(load)) this->load(now, load->rank, each.stop, each.done);
    }
    return Begun::over;
  }
  auto [room, warm] = host_.reserve(*load->cold);
  if (room == Status::full) {
    finish(load, Status::full, nullptr);
    return Begun::over;
  }
  if (warm == nullptr) return Begun::starved;
  std::vector<std::span<std::byte>> runs;
  warm->runs(0, warm->length(), runs);
  bool is_stopping = false;
  {
    const std::lock_guard lock(mutex_);
    is_stopping = is_stopping_;
    starved_since_ms_ = 0;
    if (!is_stopping) {
      load->warm = warm;
      ++on_way_;
      on_way_bytes_ += warm->length();
    }
  }
  if (is_stopping) {
    finish(load, Status::cancelled, nullptr);
    return Begun::over;
  }
  disk_.used(copy);
  disk_.read(copy, 0, std::move(runs), warm, [this, load, copy](Status status) {
    if (status == Status::ok) disk_.set_owner(copy, load->warm);
    take(load, status);
  });
  return Begun::yes;
}

/// On a thread of the disk.
void Loader::take(const LoadRef& load, Status status) {
  const PieceRef warm = std::exchange(load->warm, nullptr);
  const std::uint64_t bytes = warm->length();
  Index::Removed removed;
  if (status != Status::ok) {
    ++failed_;
  } else if (!is_right(*warm)) {
    ++corrupt_;
    status = Status::corrupt;
  }
  if (status != Status::ok) {
    // What cannot be read has gone from the disk meanwhile, or the disk does not give it.
    const Cause cause = status == Status::corrupt ? Cause::corrupt : Cause::disk_lost;
    removed.push_back(index_.take(load->cold, {cause}));
    finish(load, Status::miss, nullptr);
  } else if (index_.swap_in(load->cold, warm, host_.is_exclusive(*warm), removed)) {
    ++pieces_;
    bytes_ += bytes;
    host_.on_loaded(warm);
    finish(load, Status::ok, warm);
  } else {
    finish(load, Status::miss, nullptr);
  }
  removed.clear();
  pump();
  const std::lock_guard lock(mutex_);
  on_way_bytes_ -= bytes;
  if (--on_way_ == 0) ended_.notify_all();
}

void Loader::finish(const LoadRef& load, Status status, const PieceRef& piece) {
  for (const Waiter& waiter : end(load)) waiter.done(status, piece);
}

/// Who asks from now on is no waiter of this one. Those who are.
std::vector<Loader::Waiter> Loader::end(const LoadRef& load) {
  const std::lock_guard lock(mutex_);
  const auto known = loads_.find(load->cold.get());
  if (known != loads_.end() && known->second == load) loads_.erase(known);
  return std::exchange(load->waiters, {});
}

bool Loader::is_right(const Piece& piece) {
  for (std::size_t block = 0; block < piece.hashes().size(); ++block) {
    const std::uint64_t at = block * BLOCK_BYTES;
    const std::uint64_t bytes = std::min<std::uint64_t>(BLOCK_BYTES, piece.length() - at);
    if (piece.hash_of(at, bytes) != piece.hashes()[block]) return false;
  }
  return true;
}

/// Nobody who asked wants it any more.
bool Loader::is_stopped(const Load& load) {
  return std::all_of(load.waiters.begin(), load.waiters.end(), [](const Waiter& each) {
    return each.stop != nullptr && each.stop->load(std::memory_order_relaxed);
  });
}

void Loader::stop() {
  std::vector<LoadRef> waiting;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    for (auto& queue : waiting_) queue.clear();
    for (const auto& [cold, load] : loads_)
      if (load->warm == nullptr) waiting.push_back(load);
  }
  for (const LoadRef& load : waiting) finish(load, Status::cancelled, nullptr);
  waiting.clear();
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return on_way_ == 0; });
}

LoadCounts Loader::counts() const {
  LoadCounts now;
  now.pieces = pieces_.load();
  now.bytes = bytes_.load();
  now.failed = failed_.load();
  now.corrupt = corrupt_.load();
  const std::lock_guard lock(mutex_);
  for (const auto& queue : waiting_) now.queued += queue.size();
  now.on_way_bytes = on_way_bytes_;
  return now;
}

}  // namespace gd2fs
