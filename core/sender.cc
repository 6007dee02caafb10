#include "sender.h"

#include <algorithm>

namespace gd2fs::serve {
namespace {

constexpr std::size_t REPLIES_BYTES_ALONE = 64 * KiB;  // past this they go without a DATA frame
constexpr std::size_t REPLIES_BYTES_MAX = 1 * MiB;

}  // namespace

bool Sender::has_work() const noexcept {
  return outgoing_.is_sealed() || !replies_.bytes.empty() || !jobs_.empty();
}

bool Sender::is_full() const noexcept { return replies_.bytes.size() >= REPLIES_BYTES_MAX; }

Sender::Turn Sender::turn(int fd, std::size_t payload_max, std::uint64_t consumed) {
  if (!outgoing_.is_sealed()) compose(payload_max, consumed);
  Turn turn;
  if (outgoing_.is_empty()) return turn;
  turn.sent = outgoing_.send(fd);
  if (turn.sent == Outgoing::Sent::all) {
    turn.ends = outgoing_.ends;
    outgoing_.clear();
  }
  return turn;
}

void Sender::compose(std::size_t payload_max, std::uint64_t consumed) {
  outgoing_.head.swap(replies_.bytes);
  outgoing_.ends = replies_.ends;
  replies_.ends = 0;
  if (outgoing_.head.size() < REPLIES_BYTES_ALONE && !jobs_.empty()) {
    const auto job = choose();
    if (job->next_frame(node_, outgoing_, payload_max, consumed)) {
      ++outgoing_.ends;
      jobs_.erase(job);
    } else {
      std::rotate(job, job + 1, jobs_.end());
    }
  }
  outgoing_.seal();
}

std::deque<ReadJob>::iterator Sender::choose() {
  is_small_turn_ = !is_small_turn_;
  if (is_small_turn_) return jobs_.begin();
  const auto small =
      std::find_if(jobs_.begin(), jobs_.end(), [](const ReadJob& job) { return job.is_small(); });
  return small == jobs_.end() ? jobs_.begin() : small;
}

bool Sender::end(std::uint64_t request, Status status) {
  const auto found = std::find_if(jobs_.begin(), jobs_.end(),
                                  [&](const ReadJob& job) { return job.request() == request; });
  if (found == jobs_.end()) return false;
  found->end(replies_.bytes, status);
  ++replies_.ends;
  jobs_.erase(found);
  return true;
}

void Sender::expire(std::int64_t now_ms) {
  for (std::size_t index = jobs_.size(); index-- > 0;) {
    const std::int64_t deadline_ms = jobs_[index].deadline_ms();
    if (deadline_ms != 0 && now_ms >= deadline_ms) end(jobs_[index].request(), Status::expired);
  }
}

void Sender::abandon() {
  jobs_.clear();
  replies_ = {};
}

}  // namespace gd2fs::serve
