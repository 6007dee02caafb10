#include "barrier.h"

#include <algorithm>

#include "rules.h"

namespace gd2fs {

void Barrier::await(const Member& member, bool is_gone, const MapHistory& history,
                    std::int64_t now_ms) {
  const auto& self = history.self();
  if (member == self || history.has_expired(member)) return;
  awaited_.push_back({member, history.epoch(), now_ms + history.lease_ms(), is_gone});
}

void Barrier::begin(const MapHistory& history, std::int64_t now_ms) {
  if (history.is_static()) return;
  is_new_here_ = !history.has_before() || (is_new_here_ && !is_open(now_ms));
  std::vector<Member> before = history.members_before();
  if (!history.has_before()) {
    before = history.members();
    const std::vector<Member> gone = history.unsure_gone();
    before.insert(before.end(), gone.begin(), gone.end());
  }
  std::erase_if(awaited_, [&](const Awaited& each) {
    return now_ms >= each.until_ms || history.has_expired(each.member) ||
           std::find(before.begin(), before.end(), each.member) != before.end();
  });
  for (Awaited& each : awaited_) each.is_gone = true;
  for (const Member& member : before) await(member, !history.has_now(member), history, now_ms);
}

void Barrier::confirmed(const Member& member, std::uint64_t epoch, std::int64_t wait_ms,
                        std::int64_t now_ms) {
  std::erase_if(awaited_,
                [&](const Awaited& each) { return each.member == member && epoch >= each.epoch; });
  if (is_new_here_) others_wait_ms_ = std::max(others_wait_ms_, now_ms + wait_ms);
}

bool Barrier::is_open(std::int64_t now_ms) const {
  if (!is_kept(Rule::barrier)) return true;
  return now_ms >= others_wait_ms_ &&
         std::all_of(awaited_.begin(), awaited_.end(),
                     [&](const Awaited& each) { return now_ms >= each.until_ms; });
}

std::vector<Member> Barrier::awaited(std::int64_t now_ms) const {
  std::vector<Member> members;
  for (const Awaited& each : awaited_) {
    if (now_ms < each.until_ms) members.push_back(each.member);
  }
  return members;
}

std::int64_t Barrier::wait_ms(std::int64_t now_ms) const {
  std::int64_t until_ms = std::max(others_wait_ms_, now_ms);
  for (const Awaited& each : awaited_) {
    if (each.is_gone) until_ms = std::max(until_ms, each.until_ms);
  }
  return until_ms - now_ms;
}

}  // namespace gd2fs
