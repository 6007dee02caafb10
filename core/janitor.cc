#include "janitor.h"

#include <chrono>

namespace gd2fs::serve {
namespace {

constexpr auto PAUSE = std::chrono::milliseconds(250);
constexpr std::int64_t SWEEP_MS = 1'000;
constexpr std::size_t RECORDS_PER_SWEEP = 4096;
constexpr std::size_t STAGED_PER_SWEEP = 1024;
constexpr std::size_t DOUBTS_MAX = 65'536;  // others are found by their age
constexpr std::size_t ASKING_MAX = 64;
constexpr std::int64_t ANSWER_MS = 500;
constexpr std::int64_t AGAIN_MS = 1'000;
// A home that does not answer for so long is as good as gone, and the piece goes.
constexpr std::int64_t PATIENCE_MS = 10'000;

}  // namespace

Janitor::~Janitor() { stop(); }

void Janitor::start() {
  find_outlived();
  thread_ = std::thread([this] { loop(); });
}

void Janitor::stop() {
  if (!thread_.joinable()) return;
  add([] {});
  thread_.join();
}

void Janitor::add(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  is_called_ = true;
  called_.notify_one();
}

void Janitor::writer_vanished(std::vector<Store::StagedName> names) {
  for (Store::StagedName& name : names) doubt(std::move(name), PATIENCE_MS);
  const std::lock_guard lock(mutex_);
  is_called_ = true;
  called_.notify_one();
}

void Janitor::doubt(Store::StagedName name, std::int64_t patience_ms) {
  const std::lock_guard lock(mutex_);
  if (doubted_.size() >= DOUBTS_MAX) return;
  if (doubted_.emplace(name.name, name.chunk, name.tag).second)
    doubts_.push_back({std::move(name), boottime_ms() + patience_ms, 0});
}

void Janitor::loop() {
  while (!node_.is_stopping.load(std::memory_order_relaxed)) {
    {
      std::unique_lock lock(mutex_);
      called_.wait_for(lock, PAUSE, [this] { return is_called_; });
      is_called_ = false;
    }
    run_tasks();
    const std::int64_t now_ms = boottime_ms();
    settle_doubts(now_ms);
    if (now_ms - swept_ms_ < SWEEP_MS) continue;
    swept_ms_ = now_ms;
    node_.records.expire(now_ms, RECORDS_PER_SWEEP);
    if (node_.curves.is_turn_due(now_ms)) node_.curves.turn(now_ms, node_.tallies.namespaces());
    // One that fails is counted, and tried again later.
    const bool is_due = node_.record_log != nullptr && node_.record_log->is_copy_due(now_ms);
    if (is_due) node_.records.copy_log();
    find_aged();
  }
}

void Janitor::run_tasks() {
  std::deque<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const auto& task : tasks) task();
}

void Janitor::find_aged() {
  for (auto& name : node_.store->staged_before(boottime_ms() - STAGED_MS, STAGED_PER_SWEEP))
    doubt(std::move(name), PATIENCE_MS);
}

/// What an earlier process of this node had staged has no writer any more. The whole cluster may be
/// starting: home gets longer to answer than after a writer's end.
void Janitor::find_outlived() {
  for (auto& name : node_.store->staged_before(boottime_ms(), DOUBTS_MAX))
    doubt(std::move(name), STAGED_MS);
}

void Janitor::settle_doubts(std::int64_t now_ms) {
  std::deque<Doubt> due;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t left = doubts_.size(); left > 0; --left) {
      Doubt next = std::move(doubts_.front());
      doubts_.pop_front();
      const bool is_due = next.at_ms <= now_ms && asking_ + due.size() < ASKING_MAX;
      (is_due ? due : doubts_).push_back(std::move(next));
    }
    asking_ += due.size();
    is_called_ = is_called_ || !due.empty();  // those that follow do not wait for the next pause
  }
  for (Doubt& each : due) {
    if (node_.is_stopping.load(std::memory_order_relaxed)) return;
    run_tasks();  // someone waits for those; for this nobody does
    settle(std::move(each));
  }
}

void Janitor::settle(Doubt doubt) {
  const Store::StagedName& name = doubt.name;
  const PieceRef piece = node_.store->find_piece(name.name, name.chunk, name.tag, false);
  if (!piece || piece->state() != PieceState::staged)
    return take(std::move(doubt), Status::have, 0);
  std::uint32_t home = 0;
  if (!node_.is_home(name.name, home)) return ask_home(home, std::move(doubt));
  std::uint64_t seq = 0;
  const Status status = node_.lease.is_good(boottime_ms())
                            ? node_.records.is_listed(name.name, name.chunk, name.tag, seq)
                            : Status::fenced;
  take(std::move(doubt), status, seq);
}

void Janitor::ask_home(std::uint32_t home, Doubt doubt) {
  const ClusterViewRef view = node_.view();
  if (home >= view->map.nodes.size()) return take(std::move(doubt), Status::retry, 0);
  auto rpc = std::make_shared<Rpc>(wire::Op::is_listed, nullptr, now_ms() + ANSWER_MS);
  rpc->request.head.map_epoch = view->map.epoch;
  wire::Item item;
  item.name = doubt.name.name;
  item.chunk = doubt.name.chunk;
  item.tag = doubt.name.tag;
  rpc->add(std::move(item));
  Rpc* const sent = rpc.get();
  rpc->done = [this, sent, doubt = std::move(doubt)] {
    const Status status = sent->item_status(0);
    take(doubt, status, status == Status::ok ? sent->answers.front().seq : 0);
  };
  node_.peers.ask(view->map.nodes[home].id, std::move(rpc));
}

/// Listed at home: its writer had it acknowledged, only PUBLISH is missing. Not listed: nobody will
/// ever ask for it. Home does not say: it is asked again, for a while.
void Janitor::take(Doubt doubt, Status status, std::uint64_t seq) {
  const Store::StagedName& name = doubt.name;
  const bool is_sure = status == Status::ok || status == Status::miss || status == Status::have;
  const bool is_over = is_sure || boottime_ms() >= doubt.give_up_ms;
  if (status == Status::ok) {
    node_.store->publish(name.name, name.chunk, name.tag, seq);
  } else if (is_over && status != Status::have) {
    node_.store->drop_piece(name.name, name.chunk, name.tag, Cause::unlisted);
  }
  const std::lock_guard lock(mutex_);
  --asking_;
  if (is_over) {
    doubted_.erase({name.name, name.chunk, name.tag});
    return;
  }
  doubt.at_ms = boottime_ms() + AGAIN_MS;
  doubts_.push_back(std::move(doubt));
}

}  // namespace gd2fs::serve
