#include "mover.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace gd2fs::serve {
namespace {

constexpr auto TURN = std::chrono::microseconds(250);
constexpr auto REST = std::chrono::microseconds(500);  // between two turns: for whoever has clients
constexpr auto REPEAT = std::chrono::microseconds(2'000);
constexpr std::size_t PLANS_PER_LOOK = 16;  // between two looks at the clock
constexpr int NICE = 10;
constexpr std::int64_t OTHERS_MS = 500;     // until a copy is offered by who is not the first to
constexpr std::int64_t LET_GO_MS = 2'000;   // after a map; for those who go by the one before
constexpr std::int64_t LATE_MS = 300;       // what comes late is looked at together
constexpr std::int64_t PAUSE_MIN_MS = 100;  // between walks that did not settle all
constexpr std::int64_t PAUSE_MAX_MS = 5'000;
constexpr std::int64_t PASS_SHARE = 4;  // walks take at most a fifth of the time
constexpr std::int64_t IDLE_MS = 60'000;

void subtract(std::atomic<std::uint64_t>& from, std::uint64_t by) {
  from.store(from.load() - std::min(from.load(), by));
}

}  // namespace

Mover::Mover(Node& node)
    : node_(node), courier_(node, [this](std::function<void()> task) { post(std::move(task)); }) {}

Mover::~Mover() { stop(); }

void Mover::take_map(ClusterViewRef view) {
  const bool is_first = epoch_.load() == 0;
  if (is_first) {
    settled_epoch_ = view->map.epoch;
    maps_[view->map.epoch] = {view};
    view_ = view;
    is_member_ = is_member(view->map, node_.id);
    epoch_ = view->map.epoch;
    return;
  }
  epoch_ = view->map.epoch;
  post([this, view] { begin_map(view); });
}

void Mover::note_late() {
  if (is_late_.exchange(true)) return;
  post([this] { next_pass_ms_ = std::min(next_pass_ms_, boottime_ms() + LATE_MS); });
}

void Mover::note_arrival(const NodeId& node, std::uint64_t boot) {
  post([this, node, boot] { take_arrival(node, boot); });
}

void Mover::repeat(std::function<bool()> task) {
  post([this, task = std::move(task)] { repeated_.push_back(task); });
}

Mover::Progress Mover::progress() const noexcept {
  Progress now;
  const bool is_done = !is_late_.load() && settled_epoch_.load() == epoch_.load();
  now.left = std::max<std::uint64_t>(left_.load(), is_done ? 0 : 1);
  now.left_bytes = left_bytes_.load();
  now.is_settled = now.left == 0;
  return now;
}

// ---- the thread ----------------------------------------------------------------------

/// The thread is made when there is something to do: with a static list there never is.
void Mover::post(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (is_stopping_) return;
  tasks_.push_back(std::move(task));
  if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  called_.notify_one();
}

void Mover::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    called_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  tasks_.clear();
  repeated_.clear();
  found_.clear();
}

void Mover::loop() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), NICE);
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const auto pause = pause_until_next(boottime_ms());
      called_.wait_for(lock, pause, [this] { return is_stopping_ || !tasks_.empty(); });
      if (is_stopping_) return;
    }
    run_tasks();
    std::erase_if(repeated_, [](const auto& task) { return task(); });
    if (is_due(boottime_ms())) begin_pass(boottime_ms());
    if (pass_.is_running) step();
    courier_.pump(!has_work());
  }
}

void Mover::run_tasks() {
  std::deque<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const auto& task : tasks) task();
}

/// Until there is something to do again, if nothing is posted before.
std::chrono::microseconds Mover::pause_until_next(std::int64_t now_ms) const {
  if (has_work() && !is_blocked_) return REST;
  if (!repeated_.empty()) return REPEAT;
  std::int64_t next = std::min(courier_.next_ms(now_ms), now_ms + IDLE_MS);
  if (is_blocked_) next = std::min(next, now_ms + PAUSE_MIN_MS);
  if (!pass_.is_running) next = std::min(next, next_pass_ms_);
  return std::chrono::milliseconds(std::max<std::int64_t>(next - now_ms, 0));
}

// ---- maps ----------------------------------------------------------------------------

void Mover::begin_map(const ClusterViewRef& view) {
  view_ = view;
  maps_[view->map.epoch] = {view};
  if (maps_.size() > MAPS_KEPT) maps_.erase(maps_.begin());
  for (auto& [epoch, known] : maps_) known.is_same = is_same_placement(known.view->map, view->map);
  const StoreCounts now = node_.store->counts();
  left_ = now.pages + now.pieces;
  left_bytes_ = now.live_bytes;
  is_member_ = is_member(view->map, node_.id);
  applied_ms_ = boottime_ms();
  pause_ms_ = PAUSE_MIN_MS;
  courier_.forget_faults();
  found_.clear();
  new_pass();
  next_pass_ms_ = applied_ms_;
}

/// A list knows no boots: the map stays as it is, and its pieces settled.
void Mover::take_arrival(const NodeId& node, std::uint64_t boot) {
  const bool is_fixed = view_->map.provider == wire::Provider::fixed;
  if (!is_fixed || node == node_.id || !is_member(view_->map, node)) return;
  std::uint64_t& known = boots_[node];
  if (boot == known) return;  // told twice. A clock may have been set back: not `<`
  known = boot;
  if (std::find(returned_.begin(), returned_.end(), node) == returned_.end())
    returned_.push_back(node);
  settled_epoch_ = 0;
  applied_ms_ = boottime_ms();
  pause_ms_ = PAUSE_MIN_MS;
  courier_.forget_faults();
  found_.clear();
  new_pass();
  next_pass_ms_ = applied_ms_;
}

// ---- walks ---------------------------------------------------------------------------

bool Mover::is_due(std::int64_t now_ms) const {
  return !pass_.is_running && now_ms >= next_pass_ms_;
}

void Mover::new_pass() {
  pass_ = Pass{};
  pass_.number = ++last_pass_;
}

void Mover::begin_pass(std::int64_t now_ms) {
  if (is_late_.load()) settled_epoch_ = 0;
  is_late_ = false;
  next_pass_ms_ = NEVER_MS;
  new_pass();
  pass_.is_running = true;
  pass_.returned = returned_;
  pass_.began_ms = now_ms;
  pass_.cursor.is_over = !is_member_;  // it is asked for nothing, and has nothing to give
}

bool Mover::has_work() const {
  return pass_.is_running && !(pass_.cursor.is_over && found_.empty());
}

void Mover::step() {
  const auto turn_ends = std::chrono::steady_clock::now() + TURN;
  is_blocked_ = false;
  for (std::size_t steps = 1; has_work(); ++steps) {
    if (found_.empty()) {
      find_some();
    } else if (place(found_.front())) {
      found_.pop_front();
    } else {
      is_blocked_ = true;
      break;
    }
    const bool is_look = found_.empty() || steps % PLANS_PER_LOOK == 0;
    if (is_look && std::chrono::steady_clock::now() > turn_ends) break;
  }
  if (!has_work() && courier_.count() == 0) end_pass();
}

/// What is settled is passed over by a look at its epoch.
void Mover::find_some() {
  const std::uint64_t epoch = view_->map.epoch;
  node_.store->walk(pass_.cursor, [&](const PieceRef& piece, std::uint64_t used_ns) {
    const bool is_settled = piece->settled_epoch() >= epoch && !piece->is_handed_over();
    if (is_settled && pass_.returned.empty()) return;
    found_.push_back({piece, used_ns});
  });
}

/// False: not now, a node that needs it has enough on its way.
bool Mover::place(const Found& found) {
  Piece& piece = *found.piece;
  const std::uint64_t epoch = view_->map.epoch;
  if (piece.state() != PieceState::live) {
    // Gone, unless it was loaded meanwhile.
    const PieceRef now = node_.store->current(piece);
    const bool is_same = now != nullptr && now != found.piece && now->tag() == piece.tag();
    return !is_same || place({now, found.used_ns});
  }
  if (piece.settled_epoch() >= epoch) {
    if (!piece.is_handed_over()) return place_returned(found);
    let_go(found.piece);
    return true;
  }
  const auto known = maps_.find(piece.settled_epoch());
  const ClusterView* const then = known == maps_.end() ? nullptr : known->second.view.get();
  if (then != nullptr && known->second.is_same) {
    settle(piece, epoch, piece.is_handed_over());
    return true;
  }
  const MovePlan plan = plan_move(node_.id, then, *view_,
                                  {.name = piece.name(),
                                   .chunk = piece.chunk(),
                                   .replicas = piece.replicas(),
                                   .is_handed_over = piece.is_handed_over()});
  if (plan.targets.empty()) {
    settle(piece, epoch, !plan.is_owner);
    if (!plan.is_owner) let_go(found.piece);
    return true;
  }
  return bring(found, plan);
}

/// A piece that was where it belongs before a node of the list began anew.
bool Mover::place_returned(const Found& found) {
  const Piece& piece = *found.piece;
  const MovePlan plan = plan_return(node_.id, pass_.returned, *view_,
                                    {.name = piece.name(),
                                     .chunk = piece.chunk(),
                                     .replicas = piece.replicas(),
                                     .is_handed_over = piece.is_handed_over()});
  return plan.targets.empty() || bring(found, plan);
}

bool Mover::bring(const Found& found, const MovePlan& plan) {
  const std::int64_t now_ms = boottime_ms();
  const bool is_early = !plan.is_first && now_ms < applied_ms_ + OTHERS_MS;
  std::vector<NodeId> reachable;
  for (const NodeId& target : plan.targets) {
    const Courier::Room room =
        is_early ? Courier::Room::out_of_reach : courier_.room(target, now_ms);
    if (room == Courier::Room::busy) return false;
    if (room == Courier::Room::free) reachable.push_back(target);
  }
  ++pass_.unsettled;
  pass_.unsettled_bytes += found.piece->length();
  if (reachable.empty()) return true;
  const auto move = std::make_shared<Move>();
  move->piece = found.piece;
  move->epoch = view_->map.epoch;
  const std::uint64_t now_ns = steady_ns();
  move->idle_ms = (now_ns - std::min(now_ns, found.used_ns)) / 1'000'000;
  move->replicas = found.piece->replicas();
  move->is_owner = plan.is_owner;
  move->pass = pass_.number;
  move->missing_count = plan.targets.size() - reachable.size();
  move->done = [this](Move& ended) { moved(ended); };
  for (const NodeId& target : reachable) courier_.send(move, target);
  return true;
}

/// A copy that its owners will not have is kept here until it is the oldest here too.
void Mover::moved(Move& move) {
  if (move.missing_count > 0) return;
  // Loaded meanwhile, by whoever wanted to read it: what is known is known of that one.
  if (move.piece->state() != PieceState::live) {
    const PieceRef now = node_.store->current(*move.piece);
    if (now != nullptr && now->tag() == move.piece->tag()) move.piece = now;
  }
  const bool is_handed_over = !move.is_owner && move.refused_count == 0;
  if (move.epoch != view_->map.epoch) {  // it was on its way when the map changed
    if (move.piece->settled_epoch() < move.epoch) move.piece->settle(move.epoch, is_handed_over);
    return;
  }
  settle(*move.piece, move.epoch, is_handed_over);
  if (move.pass == pass_.number) {  // else this pass has seen it, or will
    pass_.unsettled -= std::min<std::uint64_t>(pass_.unsettled, 1);
    pass_.unsettled_bytes -= std::min(pass_.unsettled_bytes, move.piece->length());
  }
  if (is_handed_over) let_go(move.piece);
}

void Mover::settle(Piece& piece, std::uint64_t epoch, bool is_handed_over) {
  piece.settle(epoch, is_handed_over);
  ++pass_.settled;
  subtract(left_, 1);
  subtract(left_bytes_, piece.length());
}

/// Clients that go by the map before may still ask for it here.
void Mover::let_go(const PieceRef& piece) {
  if (boottime_ms() < applied_ms_ + LET_GO_MS) {
    ++pass_.kept;
  } else {
    node_.store->drop(piece, Cause::moved);
  }
}

void Mover::end_pass() {
  const std::int64_t now_ms = boottime_ms();
  pass_.is_running = false;
  left_ = pass_.unsettled;
  left_bytes_ = pass_.unsettled_bytes;
  const std::int64_t busy_ms = (now_ms - pass_.began_ms) * PASS_SHARE;
  if (pass_.unsettled > 0) {
    pause_ms_ = pass_.settled > 0 ? PAUSE_MIN_MS : std::min(pause_ms_ * 2, PAUSE_MAX_MS);
    const bool is_early = now_ms < applied_ms_ + OTHERS_MS;
    next_pass_ms_ = is_early ? applied_ms_ + OTHERS_MS : now_ms + std::max(pause_ms_, busy_ms);
  } else {
    settled_epoch_ = view_->map.epoch;
    returned_.clear();
  }
  if (is_late_.load()) next_pass_ms_ = std::min(next_pass_ms_, now_ms + std::max(LATE_MS, busy_ms));
  if (pass_.kept > 0) {
    next_pass_ms_ = std::min(next_pass_ms_, std::max(applied_ms_ + LET_GO_MS, now_ms + busy_ms));
  }
}

}  // namespace gd2fs::serve
