// Slots: what an engine keeps that has no pages, as llama.cpp's server: each slot has the prompt
// and the answer that it computed last. Whole ones that give way go to host memory.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "trace.h"

namespace gd2fs::sim {

class Slots {
 public:
  /// `host_blocks`: how many blocks host memory has room for; 0: none is used. The trace stays.
  Slots(const Trace& trace, std::uint32_t count, std::uint64_t host_blocks)
      : trace_(&trace), slots_(count), host_blocks_(host_blocks) {}

  bool is_there() const noexcept { return !slots_.empty(); }
  bool has_idle() const noexcept;

  /// The request has a slot from here on, the one that the engine chooses: how many blocks of its
  /// prompt are in it. There is an idle one.
  std::uint32_t take(Request request);
  /// The same where a front gives slots out in turn. `restored`: whose blocks are loaded into it
  /// before; NO_REQUEST: what it has stays.
  std::uint32_t take_in_turn(Request request, Request restored);
  /// Its answer is complete: the slot is idle, and has all of its blocks.
  void give(Request request, double now_s);
  void clear();

  std::uint64_t evicted() const noexcept { return evicted_; }

 private:
  static constexpr double NEVER_S = -1;

  struct Slot {
    Request has = NO_REQUEST;  // all of its blocks; of a busy one, in the end
    double used_s = NEVER_S;   // when it was given back
    bool is_busy = false;
  };

  std::span<const Block> blocks_of(Request request) const noexcept;
  Slot* most_alike(std::span<const Block> prompt, float& share);
  Slot* least_recent();
  void exchange(Slot& slot, std::span<const Block> prompt);
  void keep_in_host(Request request);
  void keep_idle_ones();
  std::uint32_t begin(Slot& slot, Request request);

  const Trace* trace_;
  std::vector<Slot> slots_;
  std::uint64_t host_blocks_, host_used_ = 0;
  std::deque<Request> host_;  // the first to have come first
  std::uint64_t evicted_ = 0;
};

}  // namespace gd2fs::sim
