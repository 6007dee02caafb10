#include "desk.h"

#include <chrono>

#include "limits.h"

namespace gd2fs {

void Desk::ask(std::string text, OnAnswer on_answer) {
  {
    const std::lock_guard lock(mutex_);
    if (is_manned_ && !is_closed_ && open_.size() < QUESTIONS_MAX) {
      open_.emplace(++last_, std::move(on_answer));
      waiting_.push_back({last_, std::move(text)});
      asked_.notify_one();
      return;
    }
  }
  on_answer({});
}

std::optional<Desk::Question> Desk::take(std::int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  is_manned_ = true;
  asked_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                  [this] { return is_closed_ || !waiting_.empty(); });
  if (waiting_.empty()) return {};
  Question next = std::move(waiting_.front());
  waiting_.pop_front();
  return next;
}

void Desk::answer(std::uint64_t number, std::string text) {
  OnAnswer on_answer;
  {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(number);
    if (found == open_.end()) return;
    on_answer = std::move(found->second);
    open_.erase(found);
  }
  on_answer(std::move(text));
}

void Desk::close() {
  std::map<std::uint64_t, OnAnswer> open;
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    waiting_.clear();
    open.swap(open_);
    asked_.notify_all();
  }
  for (const auto& [number, on_answer] : open) on_answer({});
}

}  // namespace gd2fs
