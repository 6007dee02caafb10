#include "engine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace gd2fs::sim {

namespace {

constexpr double NEVER_S = std::numeric_limits<double>::infinity();
constexpr double STEPS_EQUAL = 1e-6;  // as near as sums of steps come to a whole number

double whole_steps(double steps) { return std::ceil(steps - STEPS_EQUAL); }

}  // namespace

double Engine::pace_s() const noexcept {
  return rates_->step_s + rates_->step_request_s * static_cast<double>(running_.size()) +
         rates_->step_token_s * context_;
}

double Engine::tokens_of(Request request) const noexcept {
  return double{1} * trace_->input_tokens[request] + trace_->output_tokens[request];
}

bool Engine::has_room() const noexcept {
  if (running_.empty()) return true;
  if (running_.size() >= rates_->requests_max) return false;
  return rates_->tokens_max == 0 ||
         promised_ + tokens_of(waiting_.front()) <= static_cast<double>(rates_->tokens_max);
}

double Engine::next_s(double now_s) const noexcept {
  if (computing_ != NO_REQUEST) return computed_s_;
  if (running_.empty()) return NEVER_S;
  double steps = std::max(0.0, running_.front().ends_at - steps_);
  // Somebody waits for the step to be over.
  if (!waiting_.empty() && has_room())
    steps = std::min(steps, std::max(0.0, whole_steps(steps_) - steps_));
  return now_s + steps * pace_s();
}

void Engine::advance(double now_s, Histogram& gaps) {
  const double passed_s = now_s - since_s_;
  since_s_ = now_s;
  if (computing_ != NO_REQUEST || running_.empty() || passed_s <= 0) {
    if (computing_ != NO_REQUEST) busy_s += passed_s, compute_busy_s += passed_s;
    return;
  }
  const double pace = pace_s();
  const double steps = passed_s / pace;
  steps_ += steps;
  const auto count = static_cast<double>(running_.size());
  context_ += steps * count;
  busy_s += passed_s;
  gaps.add(pace, steps * count);
}

bool Engine::may_begin() const noexcept {
  return !waiting_.empty() && computing_ == NO_REQUEST && has_room() &&
         whole_steps(steps_) - steps_ <= STEPS_EQUAL;
}

Request Engine::take_waiting() {
  const Request request = waiting_.front();
  waiting_.pop_front();
  return request;
}

void Engine::begin(const Waiting& prompt, double now_s, Histogram& gaps) {
  computing_ = prompt.request;
  compute_left_s_ = rates_->compute_s(prompt.fresh, prompt.before);
  chunks_left_ = 0;
  if (rates_->chunk_tokens != 0 && !running_.empty()) {
    chunks_left_ = std::ceil(static_cast<double>(prompt.fresh) / rates_->chunk_tokens);
  } else if (row_began_s_ < 0) {
    row_began_s_ = now_s;
    stalled_ = static_cast<double>(running_.size());
  }
  compute_on(now_s, gaps);
}

/// As many chunks as there are until an answer is complete, or all of the prompt.
void Engine::compute_on(double now_s, Histogram& gaps) {
  const auto count = static_cast<double>(running_.size());
  double took_s = compute_left_s_;
  chunks_ = chunks_left_;
  if (chunks_left_ > 0 && count > 0) {
    const double until_end = whole_steps(running_.front().ends_at - steps_);
    chunks_ = std::clamp(until_end, 1.0, chunks_left_);
    took_s *= chunks_ / chunks_left_;
    compute_left_s_ -= took_s;
    took_s += chunks_ * pace_s();
    gaps.add(took_s / chunks_, chunks_ * count);
  }
  chunks_left_ -= chunks_;
  is_between_ = false;
  computed_s_ = now_s + took_s;
  since_s_ = now_s;
}

Request Engine::take_computed(double now_s) {
  if (computing_ == NO_REQUEST || now_s < computed_s_) return NO_REQUEST;
  if (is_between_) return NO_REQUEST;
  steps_ = whole_steps(steps_) + chunks_;
  context_ += chunks_ * static_cast<double>(running_.size());
  is_between_ = chunks_left_ > 0;
  if (is_between_) return NO_REQUEST;
  const Request request = std::exchange(computing_, NO_REQUEST);
  context_ += trace_->input_tokens[request] + 1;
  promised_ += tokens_of(request);
  const double more = std::max(1u, trace_->output_tokens[request]) - 1.0;
  running_.push_back({steps_ + more, request});
  std::push_heap(running_.begin(), running_.end());
  if (row_began_s_ >= 0 && more > 0) joined_at_s_.push_back(now_s);
  return request;
}

Request Engine::take_finished() {
  if ((computing_ != NO_REQUEST && !is_between_) || running_.empty()) return NO_REQUEST;
  if (running_.front().ends_at > steps_ + STEPS_EQUAL) return NO_REQUEST;
  const Request request = running_.front().request;
  std::pop_heap(running_.begin(), running_.end());
  running_.pop_back();
  const double tokens = tokens_of(request);
  promised_ -= tokens;
  context_ = running_.empty() ? 0 : std::max(0.0, context_ - tokens);
  return request;
}

/// What a row of prompts cost those who waited for their next token: one gap of each is longer.
void Engine::resume(double now_s, Histogram& gaps) {
  if (is_between_) compute_on(now_s, gaps);
  if (computing_ != NO_REQUEST || row_began_s_ < 0) return;
  if (!running_.empty()) {
    const double pace = pace_s();
    gaps.add(now_s - row_began_s_ + pace, stalled_);
    for (const double joined_s : joined_at_s_) gaps.add(now_s - joined_s + pace, 1);
    gaps.add(pace, -stalled_ - static_cast<double>(joined_at_s_.size()));
  }
  row_began_s_ = -1;
  joined_at_s_.clear();
}

}  // namespace gd2fs::sim
