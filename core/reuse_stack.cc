#include "reuse_stack.h"

#include <algorithm>
#include <utility>

namespace gd2fs {

namespace {

constexpr std::size_t SLOTS_PER_KEY = 4;  // so that slots are numbered anew but seldom

}  // namespace

ReuseStack::ReuseStack(std::size_t keys_max)
    : keys_max_(std::max<std::size_t>(keys_max, 2)), tree_(1) {}

double ReuseStack::sampled_share() const noexcept {
  return (static_cast<double>(threshold_) + 1) * 0x1p-64;
}

std::optional<double> ReuseStack::needed(std::uint64_t place) const {
  const auto found = entry_of_.find(place);
  if (found == entry_of_.end()) return {};
  const auto since = static_cast<double>(used_since(found->second.slot));
  return since / sampled_share() + found->second.size;
}

void ReuseStack::use(std::uint64_t place, std::uint32_t size) {
  if (next_slot_ >= tree_.size()) renumber();
  const auto [found, is_new] = entry_of_.try_emplace(place);
  Entry& entry = found->second;
  if (!is_new) add(entry.slot, -std::int64_t{entry.size});
  entry = {next_slot_++, size};
  add(entry.slot, size);
  if (!is_new) return;
  places_.push(place);
  if (entry_of_.size() > keys_max_) forget_highest();
}

void ReuseStack::halve() {
  threshold_ /= 2;
  while (!places_.empty() && places_.top() > threshold_) {
    const std::uint64_t threshold = threshold_;
    forget_highest();
    threshold_ = threshold;
  }
}

/// The one farthest up goes, and with it all above.
void ReuseStack::forget_highest() {
  const std::uint64_t gone = places_.top();
  places_.pop();
  const auto found = entry_of_.find(gone);
  add(found->second.slot, -std::int64_t{found->second.size});
  entry_of_.erase(found);
  threshold_ = gone - 1;
}

std::int64_t ReuseStack::used_since(std::size_t slot) const noexcept {
  std::int64_t up_to = 0;
  for (std::size_t at = slot; at > 0; at &= at - 1) up_to += tree_[at];
  return total_ - up_to;
}

void ReuseStack::add(std::size_t slot, std::int64_t size) noexcept {
  total_ += size;
  for (std::size_t at = slot; at < tree_.size(); at += at & (~at + 1)) tree_[at] += size;
}

/// All slots are taken: those that count move to the front, in their order.
void ReuseStack::renumber() {
  std::vector<std::pair<std::size_t, std::uint64_t>> order;
  order.reserve(entry_of_.size());
  for (const auto& [place, entry] : entry_of_) order.emplace_back(entry.slot, place);
  std::sort(order.begin(), order.end());
  const std::size_t room = std::max<std::size_t>(64, order.size() + 1) * SLOTS_PER_KEY;
  tree_.assign(room, 0);
  total_ = 0;
  next_slot_ = 1;
  for (const auto& each : order) {
    Entry& entry = entry_of_[each.second];
    entry.slot = next_slot_++;
    add(entry.slot, entry.size);
  }
}

}  // namespace gd2fs
