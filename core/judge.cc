#include "judge.h"

#include <chrono>

namespace gd2fs {

void Judge::ask(std::string tags, std::vector<Case> cases, OnVerdicts on_verdicts) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_closed_ && open_.size() < JUDGED_LOTS_MAX) {
      open_.emplace(++last_, std::move(on_verdicts));
      waiting_.push_back({last_, std::move(tags), std::move(cases)});
      asked_.notify_one();
      return;
    }
  }
  on_verdicts({});
}

std::vector<Judge::Lot> Judge::take(std::int64_t timeout_ms, std::size_t cases_max) {
  std::vector<Lot> lots;
  std::size_t cases = 0;
  std::unique_lock lock(mutex_);
  asked_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                  [this] { return is_closed_ || !waiting_.empty(); });
  while (!waiting_.empty() &&
         (lots.empty() || cases + waiting_.front().cases.size() <= cases_max)) {
    cases += waiting_.front().cases.size();
    lots.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return lots;
}

void Judge::answer(std::uint64_t number, std::vector<Verdict> verdicts) {
  OnVerdicts on_verdicts;
  {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(number);
    if (found == open_.end()) return;
    on_verdicts = std::move(found->second);
    open_.erase(found);
  }
  on_verdicts(std::move(verdicts));
}

void Judge::close() {
  std::map<std::uint64_t, OnVerdicts> open;
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    is_sitting_ = false;
    waiting_.clear();
    open.swap(open_);
    asked_.notify_all();
  }
  for (const auto& [number, on_verdicts] : open) on_verdicts({});
}

}  // namespace gd2fs
