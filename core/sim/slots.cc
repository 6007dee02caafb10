#include "slots.h"

#include <algorithm>

namespace gd2fs::sim {

namespace {

// As llama.cpp has them (tools/server): of a prompt more than this much is alike, or the slot that
// was idle for longest is taken; of what a slot has less than this much is of use, and it is kept
// elsewhere; and of what lies in host memory at least this much is of use. Its shares are floats.
constexpr float ALIKE_MIN = 0.1f;
constexpr float OF_USE_MIN = 0.5f;
constexpr float OF_USE_HOST_MIN = 0.25f;

/// How many blocks they have in common. Equal blocks have equal ones before them.
std::size_t common(std::span<const Block> one, std::span<const Block> other) {
  std::size_t equal = 0, beyond = std::min(one.size(), other.size()) + 1;
  while (beyond - equal > 1) {
    const std::size_t middle = equal + (beyond - equal) / 2;
    (one[middle - 1] == other[middle - 1] ? equal : beyond) = middle;
  }
  return equal;
}

float share_of(std::size_t part, std::size_t whole) {
  return static_cast<float>(part) / static_cast<float>(whole);
}

}  // namespace

bool Slots::has_idle() const noexcept {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& s) { return !s.is_busy; });
}

std::uint32_t Slots::take(Request request) {
  const auto prompt = trace_->prompt_of(request);
  float share = 0;
  Slot* slot = most_alike(prompt, share);
  bool gives_way = slot == nullptr;
  if (slot == nullptr) {
    slot = least_recent();
  } else {
    const auto has = static_cast<float>(blocks_of(slot->has).size());
    gives_way = share * static_cast<float>(prompt.size()) / has < OF_USE_MIN;
  }
  if (gives_way && host_blocks_ != 0) exchange(*slot, prompt);
  const std::uint32_t found = begin(*slot, request);
  if (host_blocks_ != 0) keep_idle_ones();
  return found;
}

std::uint32_t Slots::take_in_turn(Request request, Request restored) {
  Slot* slot = nullptr;
  for (Slot& each : slots_) {
    if (!each.is_busy && (slot == nullptr || each.used_s < slot->used_s)) slot = &each;
  }
  if (restored != NO_REQUEST) slot->has = restored;
  return begin(*slot, request);
}

void Slots::give(Request request, double now_s) {
  const auto slot = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& each) {
    return each.is_busy && each.has == request;
  });
  slot->is_busy = false;
  slot->used_s = now_s;
}

void Slots::clear() {
  for (Slot& slot : slots_) {
    if (!slot.is_busy) slot = {};
  }
  host_.clear();
  host_used_ = 0;
}

std::span<const Block> Slots::blocks_of(Request request) const noexcept {
  return request == NO_REQUEST ? std::span<const Block>() : trace_->all_of(request);
}

/// The idle slot that has most of the prompt, if that is enough of it.
Slots::Slot* Slots::most_alike(std::span<const Block> prompt, float& share) {
  Slot* best = nullptr;
  for (Slot& slot : slots_) {
    if (slot.is_busy || blocks_of(slot.has).empty()) continue;
    const float alike = share_of(common(blocks_of(slot.has), prompt), prompt.size());
    if (alike > share && alike > ALIKE_MIN) {
      share = alike;
      best = &slot;
    }
  }
  return best;
}

/// Of several that were never used the last one; of several that one step gave back the first.
Slots::Slot* Slots::least_recent() {
  Slot* least = nullptr;
  for (Slot& slot : slots_) {
    if (slot.is_busy) continue;
    if (least == nullptr || slot.used_s < least->used_s || slot.used_s == NEVER_S) least = &slot;
  }
  return least;
}

/// What the slot has goes to host memory; what lies there and serves better comes out of it.
void Slots::exchange(Slot& slot, std::span<const Block> prompt) {
  keep_in_host(slot.has);
  const auto own = blocks_of(slot.has);
  float of_use = own.empty() ? -1.0f : share_of(common(own, prompt), own.size());
  float alike = share_of(common(own, prompt), prompt.size());
  auto best = host_.end();
  for (auto at = host_.begin(); at != host_.end(); ++at) {
    const auto there = blocks_of(*at);
    const std::size_t equal = common(there, prompt);
    const float of_use_here = share_of(equal, there.size());
    const float alike_here = share_of(equal, prompt.size());
    if (of_use_here < OF_USE_HOST_MIN || of_use_here <= of_use || alike_here <= alike) continue;
    of_use = of_use_here;
    alike = alike_here;
    best = at;
  }
  if (best == host_.end()) return;
  slot.has = *best;
  host_used_ -= blocks_of(*best).size();
  host_.erase(best);
}

/// Unless all of it lies there already. What it begins with need not lie there any more.
void Slots::keep_in_host(Request request) {
  const auto blocks = blocks_of(request);
  if (blocks.empty() || blocks.size() > host_blocks_) return;
  const auto is_within = [&](Request each) {
    return common(blocks_of(each), blocks) == blocks.size();
  };
  if (std::any_of(host_.begin(), host_.end(), is_within)) return;
  std::erase_if(host_, [&](Request each) {
    const auto there = blocks_of(each);
    if (common(there, blocks) != there.size()) return false;
    host_used_ -= there.size();
    return true;
  });
  while (host_used_ + blocks.size() > host_blocks_) {
    host_used_ -= blocks_of(host_.front()).size();
    host_.pop_front();
    ++evicted_;
  }
  host_.push_back(request);
  host_used_ += blocks.size();
}

/// As each request begins, what idle slots have is kept in host memory, too.
void Slots::keep_idle_ones() {
  for (const Slot& slot : slots_) {
    if (!slot.is_busy) keep_in_host(slot.has);
  }
}

std::uint32_t Slots::begin(Slot& slot, Request request) {
  const std::size_t found = common(blocks_of(slot.has), trace_->prompt_of(request));
  slot.has = request;
  slot.is_busy = true;
  return static_cast<std::uint32_t>(found);
}

}  // namespace gd2fs::sim
