// Barrier: no mutation is answered in a new epoch before everyone who may still act under an older
// one has confirmed it, or cannot act any more (R5).
//
// Only a lease that is over fences a member for sure. One that someone took out, or that is silent,
// is waited for until its lease must be over: the time to live after this node learned of the map.
// So members that left some maps ago count as well. What a node that has just come
// cannot know, the others tell it with their confirmations.
#pragma once

#include <cstdint>
#include <vector>

#include "map_history.h"

namespace gd2fs {

class Barrier {
 public:
  /// A map is in force. A static list has no barrier.
  void begin(const MapHistory& history, std::int64_t now_ms);
  /// That member has this epoch or a later one; `wait_ms`: how long it still waits for others.
  void confirmed(const Member& member, std::uint64_t epoch, std::int64_t wait_ms,
                 std::int64_t now_ms);

  bool is_open(std::int64_t now_ms) const;
  /// Who has to confirm.
  std::vector<Member> awaited(std::int64_t now_ms) const;
  /// How long members that are no part of the map any more may still act.
  std::int64_t wait_ms(std::int64_t now_ms) const;

 private:
  struct Awaited {
    Member member;
    std::uint64_t epoch;    // or a later one is to be confirmed
    std::int64_t until_ms;  // its lease is over then
    bool is_gone;
  };

  void await(const Member& member, bool is_gone, const MapHistory& history, std::int64_t now_ms);

  std::vector<Awaited> awaited_;
  bool is_new_here_ = true;          // no barrier was passed yet: older maps are not known
  std::int64_t others_wait_ms_ = 0;  // until when members wait for some that this node never knew
};

}  // namespace gd2fs
