#include "janitor.h"

#include <chrono>

namespace gd2fs::serve {
namespace {

constexpr auto PAUSE = std::chrono::milliseconds(250);
constexpr std::int64_t SWEEP_MS = 1'000;
constexpr std::size_t RECORDS_PER_SWEEP = 4096;
constexpr std::size_t STAGED_PER_SWEEP = 1024;
constexpr std::size_t VANISHED_MAX = 65'536;  // others are found by their age

}  // namespace

Janitor::~Janitor() { stop(); }

void Janitor::start() {
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
  const std::lock_guard lock(mutex_);
  for (Store::StagedName& name : names) {
    if (vanished_.size() == VANISHED_MAX) break;
    vanished_.push_back(std::move(name));
  }
  is_called_ = true;
  called_.notify_one();
}

void Janitor::loop() {
  while (!node_.is_stopping.load(std::memory_order_relaxed)) {
    {
      std::unique_lock lock(mutex_);
      called_.wait_for(lock, PAUSE, [this] { return is_called_; });
      is_called_ = false;
    }
    run_tasks();
    settle_vanished();
    const std::int64_t now_ms = boottime_ms();
    if (now_ms - swept_ms_ < SWEEP_MS) continue;
    swept_ms_ = now_ms;
    node_.records.expire(now_ms, RECORDS_PER_SWEEP);
    settle_aged();
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

void Janitor::settle_vanished() {
  std::deque<Store::StagedName> names;
  {
    const std::lock_guard lock(mutex_);
    names.swap(vanished_);
  }
  for (const Store::StagedName& name : names) {
    if (node_.is_stopping.load(std::memory_order_relaxed)) return;
    const PieceRef piece = node_.store->find_piece(name.name, name.chunk, name.tag, false);
    if (piece && piece->state() == PieceState::staged) settle(name);
  }
}

void Janitor::settle_aged() {
  for (const auto& name : node_.store->staged_before(boottime_ms(), STAGED_PER_SWEEP)) {
    if (node_.is_stopping.load(std::memory_order_relaxed)) return;
    settle(name);
  }
}

/// Listed at home: its writer had it acknowledged, only PUBLISH is missing. Else nobody will ever
/// ask for it.
void Janitor::settle(const Store::StagedName& name) {
  run_tasks();  // someone waits for those; for this nobody does
  if (const auto seq = home_.seq_of(name)) {
    node_.store->publish(name.name, name.chunk, name.tag, *seq);
  } else {
    node_.store->drop_piece(name.name, name.chunk, name.tag);
  }
}

}  // namespace gd2fs::serve
