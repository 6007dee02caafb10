// When a path is given up.
//
// A path can die without a word: a cable, a switch. A stream that has waited for half its limit
// asks the node for a word (a live one answers at once, whatever else it does), and has the others
// of the link look too. When they hear the node and this one still does not, its path is given up:
// what it had is asked anew by them. When nobody hears anything the node is at fault. Then
// deadlines decide, unless other nodes can be asked for the same: they are, once the node has not
// even said a word for a second.
#include <algorithm>
#include <utility>

#include "link.h"
#include "stream.h"

namespace gd2fs {

namespace {

constexpr std::int64_t SILENT_MS = 1'000;  // no byte for so long, and a deadline passed

}  // namespace

void Stream::hear(std::int64_t now) {
  heard_ms_ = now;
  link_.heard(index_, now);
  if (asked_ms_ == 0) return;
  asked_ms_ = doubted_ms_ = 0;
  link_.set_doubtful(index_, false);
}

void Stream::ask_for_word(std::int64_t now) {
  if (asked_ms_ != 0) return;
  asked_ms_ = now;
  acknowledge(0, wire::CONFIRM);
  thread_.wake_at(now + silence_ms() / 2);
}

/// More patience when a request cannot be asked again elsewhere.
std::int64_t Stream::silence_ms() const {
  for (const auto& [request, pending] : pending_)
    if (pending.rpc != nullptr && !pending.rpc->is_idempotent()) return Silence::MS_MAX;
  return silence_.limit_ms();
}

void Stream::look() {
  const std::int64_t now = now_ms();
  if (state_ == State::idle && now >= retry_at_ms_ && link_.may_connect()) connect(now);
  pump();
  if (state_ != State::ready || is_unix_) return;
  ask_for_word(now);
  flush();
}

/// Bytes that get through say that the path works, as long as more are on their way: the last ones
/// may be just the question for a word.
void Stream::note_sent(std::int64_t now) {
  const std::uint64_t waiting = channel_.unreached_bytes();
  const std::uint64_t reached = channel_.sent_bytes() - std::min(waiting, channel_.sent_bytes());
  if (reached > reached_bytes_ && (waiting != 0 || !out_->is_empty())) sent_ms_ = now;
  reached_bytes_ = reached;
}

/// When to look again.
std::int64_t Stream::watch_silence(std::int64_t now) {
  const bool is_waiting = !pending_.empty() || asked_ms_ != 0;
  if (state_ != State::ready || is_unix_ || !is_waiting || !link_.has_paths()) return NEVER_MS;
  note_sent(now);
  const std::int64_t step_ms = silence_ms() / 2;
  const std::int64_t quiet_at = std::max(heard_ms_, sent_ms_) + step_ms;
  if (now < quiet_at) return quiet_at;
  // It may have been asked before, for the sake of one request: then the others have not been.
  if (doubted_ms_ == 0) {
    doubted_ms_ = now;
    ask_for_word(now);
    link_.set_doubtful(index_, true);
    link_.doubt(index_);
    flush();
    return now + step_ms;
  }
  if (now < doubted_ms_ + step_ms) return doubted_ms_ + step_ms;
  // What this thread has had no time to read is no silence.
  const bool is_lost = link_.others_heard_since(index_, asked_ms_) && !channel_.has_unread();
  if (is_lost) give_up_silent(now);
  return now + step_ms;
}

void Stream::give_up_silent(std::int64_t now) {
  channel_.abandon();
  close();
  back_off(now);
  link_.stream_lost(index_, "one of its paths has gone silent");
  release_pending(now, false);
  thread_.post([this] { pump(); });
}

std::int64_t Stream::expire_held(std::int64_t now) {
  if (held_ == nullptr) return NEVER_MS;
  if (now < held_->deadline_ms) return held_->deadline_ms;
  std::exchange(held_, nullptr)->finish(Status::expired);
  return NEVER_MS;
}

bool Stream::has_others_waiting() const {
  const bool is_pending = std::any_of(pending_.begin(), pending_.end(), [](const auto& each) {
    return each.second.rpc != nullptr && each.second.rpc->has_others;
  });
  // While it is asked for a word nothing is taken.
  return is_pending || (asked_ms_ != 0 && link_.has_others_waiting());
}

/// Is the node stopped, or cut off? When to look again.
std::int64_t Stream::watch_node(std::int64_t now) {
  if (state_ != State::ready || !has_others_waiting()) return NEVER_MS;
  if (!is_unix_) note_sent(now);
  const std::int64_t quiet_since = std::max(heard_ms_, sent_ms_);
  if (now < quiet_since + SILENT_MS / 2) return quiet_since + SILENT_MS / 2;
  ask_for_word(now);
  flush();
  if (state_ != State::ready) return NEVER_MS;
  const std::int64_t silent_at = std::max(quiet_since + SILENT_MS, asked_ms_ + SILENT_MS / 2);
  if (now < silent_at) return silent_at;
  // What this thread has had no time to read is no silence.
  const bool is_node = !link_.others_heard_since(index_, quiet_since);
  if (is_node && !channel_.has_unread()) link_.node_silent();
  return now + SILENT_MS / 2;
}

/// A node that works on a request up to its deadline, reading a slow disk, say, may have said
/// nothing for as long: it is asked for a word before that counts against it.
std::int64_t Stream::ask_at_ms(const Pending& pending) const {
  const std::int64_t deadline_ms = pending.rpc->deadline_ms;
  if (asked_ms_ != 0 || heard_ms_ > deadline_ms - SILENT_MS) return NEVER_MS;
  return deadline_ms - std::min((deadline_ms - pending.since_ms) / 2, SILENT_MS / 2);
}

/// The node, not just the path.
bool Stream::is_silent(std::int64_t now) const {
  const std::int64_t since = now - SILENT_MS;
  return heard_ms_ <= since && !link_.others_heard_since(index_, since);
}

}  // namespace gd2fs
