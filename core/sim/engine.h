// Engine: one instance that computes prompts and decodes answers in batches.
//
// Prompts are computed one after the other, ahead of decoding: either alone, as a step of their own
// in which nobody gets a token, or in chunks that go along with decoding steps. Between such
// changes of the batch all of it decodes at the same pace, so time passes in a few large steps.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "histogram.h"
#include "trace.h"

namespace gd2fs::sim {

/// What one instance can do. Seconds.
struct EngineRates {
  double token_s = 0;              // of a prompt, to compute
  double attention_s = 0;          // more, for each token before it
  double prompt_s = 0;             // for each prompt, whatever its length
  double step_s = 0;               // of decoding, whatever the batch
  double step_request_s = 0;       // more, for each request in it
  double step_token_s = 0;         // more, for each token before, of all requests in it
  std::uint32_t chunk_tokens = 0;  // computed along with a decoding step; 0: prompts have own steps
  std::uint32_t requests_max = 0;  // decoded at the same time
  std::uint64_t tokens_max = 0;    // of their prompts and answers; 0: unlimited

  bool is_instant() const noexcept { return requests_max == 0; }
  double compute_s(double fresh, double before) const noexcept {
    return prompt_s + fresh * (token_s + attention_s * (before + fresh / 2));
  }
};

struct Waiting {
  Request request;
  std::uint32_t fresh, before;  // tokens to compute, and those that were found
};

class Engine {
 public:
  Engine(const EngineRates& rates, const Trace& trace) : rates_(&rates), trace_(&trace) {}

  // ---- what happens; whoever calls asks `next_s` afterwards
  void wait(Request request) { waiting_.push_back(request); }
  /// When something will happen by itself; never: it has nothing to do.
  double next_s(double now_s) const noexcept;
  /// Up to now, everything that goes by itself.
  void advance(double now_s, Histogram& gaps);

  /// The next one that waits may begin: there is room, and no other prompt is computed.
  bool may_begin() const noexcept;
  Request take_waiting();
  void begin(const Waiting& prompt, double now_s, Histogram& gaps);
  /// The prompt whose computation is over now, or NO_REQUEST.
  Request take_computed(double now_s);
  /// One whose answer is complete now, or NO_REQUEST.
  Request take_finished();
  /// Nobody waits who may begin: tokens come again, or the next chunks of a prompt.
  void resume(double now_s, Histogram& gaps);

  std::uint32_t version = 0;  // of what it is expected to do next
  double busy_s = 0, compute_busy_s = 0;

 private:
  struct Running {
    double ends_at;  // in steps
    Request request;
    bool operator<(const Running& other) const noexcept { return ends_at > other.ends_at; }
  };

  void compute_on(double now_s, Histogram& gaps);
  double pace_s() const noexcept;
  bool has_room() const noexcept;
  double tokens_of(Request request) const noexcept;

  const EngineRates* rates_;
  const Trace* trace_;
  std::deque<Request> waiting_;
  std::vector<Running> running_;  // a heap: whoever ends first
  double steps_ = 0;              // of decoding, so far
  double since_s_ = 0;            // as far as everything is worked out
  double context_ = 0;            // tokens of all running
  double promised_ = 0;           // tokens that these may come to
  Request computing_ = NO_REQUEST;
  double computed_s_ = 0;   // up to the end of these chunks,
  double chunks_ = 0;       // after which somebody's answer is complete, or the prompt computed
  double chunks_left_ = 0;  // and those after them
  double compute_left_s_ = 0;
  bool is_between_ = false;  // chunks of one prompt
  // Of a row of prompts without a decoding step in between:
  double row_began_s_ = -1;
  double stalled_ = 0;               // requests that were decoded before
  std::vector<double> joined_at_s_;  // and those whose first token came in it
};

}  // namespace gd2fs::sim
