#include "sender.h"

#include <algorithm>

namespace gd2fs::serve {
namespace {

constexpr std::size_t REPLIES_BYTES_ALONE = 64 * KiB;  // past this they go without a DATA frame
constexpr std::size_t REPLIES_BYTES_MAX = 1 * MiB;

}  // namespace

bool Sender::has_work() const noexcept {
  return outgoing_.is_sealed() || !replies_.bytes.empty() || jobs_.size() > waiting_count_ ||
         !arena_frame_.empty();
}

bool Sender::is_full() const noexcept { return replies_.bytes.size() >= REPLIES_BYTES_MAX; }

Outgoing::Sent Sender::turn(Channel& channel, std::size_t payload_max, std::uint64_t consumed) {
  ended_.clear();
  if (!outgoing_.is_sealed()) {
    arena_frame_.empty() ? compose(payload_max, consumed) : compose_arena();
  }
  if (outgoing_.is_empty()) return Outgoing::Sent::all;
  const Outgoing::Sent sent = outgoing_.send(channel);
  if (sent == Outgoing::Sent::all) {
    ended_.swap(outgoing_.ends);
    outgoing_.clear();
  }
  return sent;
}

void Sender::lease_arena() {
  wire::encode_arena(arena_frame_, node_.store->arena().bytes());
  arena_frame_at_ = replies_.bytes.size();
}

/// First what came before it, then the frame alone.
void Sender::compose_arena() {
  if (arena_frame_at_ > 0) {
    const auto end = replies_.bytes.begin() + static_cast<std::ptrdiff_t>(arena_frame_at_);
    outgoing_.head.assign(replies_.bytes.begin(), end);
    replies_.bytes.erase(replies_.bytes.begin(), end);
    arena_frame_at_ = 0;
  } else {
    outgoing_.head.swap(arena_frame_);
    arena_frame_.clear();
    outgoing_.descriptor = node_.store->arena().descriptor();
    outgoing_.may_lease = true;
  }
  outgoing_.seal();
}

void Sender::compose(std::size_t payload_max, std::uint64_t consumed) {
  outgoing_.head.swap(replies_.bytes);
  outgoing_.ends.swap(replies_.ends);
  if (outgoing_.head.size() < REPLIES_BYTES_ALONE && jobs_.size() > waiting_count_) {
    const auto job = choose();
    const std::size_t room = outgoing_.begin_payload(payload_max, job->is_view());
    const ReadJob::Turn turn =
        job->next_frame(node_, outgoing_, viewer.get(), wake, room, consumed);
    tally_.moved(outgoing_.is_leasing() ? Transport::shm : by_, Direction::out,
                 outgoing_.payload.bytes());
    if (turn == ReadJob::Turn::over) {
      outgoing_.ends.push_back(job->request());
      jobs_.erase(job);
    } else {
      if (turn == ReadJob::Turn::waits) ++waiting_count_;
      std::rotate(job, job + 1, jobs_.end());
    }
  }
  outgoing_.seal();
}

std::deque<ReadJob>::iterator Sender::choose() {
  is_small_turn_ = !is_small_turn_;
  const auto first = std::find_if(jobs_.begin(), jobs_.end(),
                                  [](const ReadJob& job) { return !job.is_waiting(); });
  if (is_small_turn_) return first;
  const auto small = std::find_if(
      first, jobs_.end(), [](const ReadJob& job) { return job.is_small() && !job.is_waiting(); });
  return small == jobs_.end() ? first : small;
}

std::deque<ReadJob>::iterator Sender::find(std::uint64_t request) {
  return std::find_if(jobs_.begin(), jobs_.end(),
                      [&](const ReadJob& job) { return job.request() == request; });
}

void Sender::loaded(std::uint64_t request, Status status, PieceRef piece) {
  const auto job = find(request);
  if (job == jobs_.end() || !job->is_waiting()) return;
  job->loaded(status, std::move(piece));
  --waiting_count_;
}

bool Sender::end(std::uint64_t request, Status status) {
  const auto found = find(request);
  if (found == jobs_.end()) return false;
  if (found->is_waiting()) --waiting_count_;
  found->end(replies_.bytes, status);
  replies_.ends.push_back(request);
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
  waiting_count_ = 0;
  arena_frame_.clear();
  replies_ = {};
}

}  // namespace gd2fs::serve
