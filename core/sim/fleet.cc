#include "fleet.h"

#include <algorithm>
#include <cmath>

namespace gd2fs::sim {

namespace {

constexpr std::size_t BINS_MAX = 100'000;

}  // namespace

Fleet::Fleet(const FleetOptions& options, const Trace& trace)
    : options_(options),
      trace_(trace),
      balancer_(options.balance, options.instances, options.seed, trace.block_count),
      active_(options.instances),
      instance_of_(trace.size()),
      found_(trace.size()) {
  if (options_.store)
    store_ = std::make_unique<Cluster>(*options_.store, trace.block_count, options.block_bytes);
  settle_blocks();
  instances_.reserve(options.instances);
  for (std::uint32_t at = 0; at < options.instances; ++at) {
    const bool has_pages = options.slots == 0;
    instances_.push_back({.engine = Engine(options_.engine, trace_),
                          .device = PrivateCache(has_pages ? options.device_blocks : 0),
                          .host = PrivateCache(has_pages ? options.host_blocks : 0),
                          .slots = Slots(trace_, options.slots, options.host_blocks),
                          .in = Link(options.engine_bytes_per_s),
                          .out = Link(options.engine_bytes_per_s),
                          .from_host = Link(options.host_bytes_per_s)});
  }
  if (!options_.engine.is_instant() || is_measured()) {
    first_token_s_.resize(trace.size());
    done_s_.resize(trace.size());
  }
  if (options_.slots != 0 && trace.size() != 0) {
    const std::uint32_t sessions = *std::max_element(trace.session.begin(), trace.session.end());
    last_done_.assign(std::size_t{sessions} + 1, NO_REQUEST);
  }
  if (options_.workers != 0) link_turns();
}

/// Of a trace that was recorded: where it was, as long as there are as many nodes.
void Fleet::settle_blocks() {
  if (store_ == nullptr || trace_.node_count != store_->nodes().size()) return;
  for (Request request = 0; request < trace_.node.size(); ++request)
    store_->settle(trace_.all_of(request), trace_.node[request]);
}

void Fleet::link_turns() {
  next_turn_.assign(trace_.size(), NO_REQUEST);
  arrived_.resize(trace_.size());
  std::vector<Request> last;
  for (Request request = 0; request < trace_.size(); ++request) {
    const std::uint32_t session = trace_.session[request];
    if (session >= last.size()) last.resize(session + 1, NO_REQUEST);
    if (last[session] == NO_REQUEST) {
      ready_.push_back(request);
    } else {
      next_turn_[last[session]] = request;
    }
    last[session] = request;
  }
  next_arrival_ = static_cast<Request>(trace_.size());
  for (std::uint32_t worker = 0; worker < options_.workers && !ready_.empty(); ++worker) {
    expect(options_.turn_s, Kind::arrival, ready_.front());
    ready_.pop_front();
  }
}

bool Fleet::run(std::size_t requests) {
  const std::size_t until = std::min(trace_.size(), answered_ + requests);
  while (answered_ < until) step();
  return answered_ == trace_.size();
}

void Fleet::step() {
  const bool is_arrival =
      next_arrival_ < trace_.size() &&
      (events_.empty() || trace_.arrives_s[next_arrival_] <= events_.top().at_s);
  if (is_arrival) {
    const Request request = next_arrival_++;
    apply_changes(trace_.arrives_s[request]);
    return arrive(request, trace_.arrives_s[request]);
  }
  const Event event = events_.top();
  events_.pop();
  apply_changes(event.at_s);
  switch (event.kind) {
    case Kind::arrival:
      arrived_[event.target] = event.at_s;
      return arrive(event.target, event.at_s);
    case Kind::loaded: {
      const std::uint32_t at = instance_of_[event.target];
      instances_[at].engine.wait(event.target);
      return settle(at, event.at_s);
    }
    case Kind::engine:
      if (event.version != instances_[event.target].engine.version) return;
      instances_[event.target].expected_s = -1;
      return settle(event.target, event.at_s);
    case Kind::slot: return fill_slots(instances_[event.target], event.at_s);
    case Kind::first_token:
      return on_computed(event.target, instances_[instance_of_[event.target]], event.at_s);
    case Kind::done:
      return on_finished(event.target, instances_[instance_of_[event.target]], event.at_s);
  }
}

void Fleet::expect(double at_s, Kind kind, std::uint32_t target, std::uint32_t version) {
  events_.push({at_s, event_number_++, kind, target, version});
}

void Fleet::apply_changes(double now_s) {
  while (tide_at_ < options_.tide.size() && options_.tide[tide_at_].from_s <= now_s)
    set_active(options_.tide[tide_at_++].instances);
  while (deaths_at_ < options_.deaths.size() && options_.deaths[deaths_at_].at_s <= now_s)
    store_->kill(options_.deaths[deaths_at_++].node);
}

/// Those that leave answer what they have, but their caches go with them.
void Fleet::set_active(std::uint32_t count) {
  for (std::uint32_t at = count; at < active_; ++at) {
    instances_[at].device.clear();
    instances_[at].host.clear();
    instances_[at].slots.clear();
  }
  active_ = count;
}

double Fleet::arrived_s(Request request) const noexcept {
  return arrived_.empty() ? trace_.arrives_s[request] : arrived_[request];
}

/// Of the last token of a prompt the answer's first is made: it is always computed.
std::uint32_t Fleet::found_tokens(Request request) const noexcept {
  const std::uint64_t tokens = std::uint64_t{found_[request]} * trace_.block_tokens;
  const std::uint64_t most = std::max(1u, trace_.input_tokens[request]) - 1;
  return static_cast<std::uint32_t>(std::min(tokens, most));
}

Bin& Fleet::bin(double now_s) {
  const double width_s = options_.bin_s > 0 ? options_.bin_s : 1;
  const auto at = std::min(static_cast<std::size_t>(std::max(now_s, 0.0) / width_s), BINS_MAX);
  if (at >= bins_.size()) bins_.resize(at + 1);
  return bins_[at];
}

void Fleet::arrive(Request request, double now_s) {
  const std::uint32_t at = balancer_.choose(trace_, request, active_);
  Instance& instance = instances_[at];
  instance_of_[request] = static_cast<std::uint16_t>(at);
  if (!instance.slots.is_there()) return enter(request, instance, now_s);
  instance.without_slot.push_back(request);
  fill_slots(instance, now_s);
}

void Fleet::fill_slots(Instance& instance, double now_s) {
  while (!instance.without_slot.empty() && instance.slots.has_idle()) {
    const Request request = instance.without_slot.front();
    instance.without_slot.pop_front();
    enter(request, instance, now_s);
  }
}

/// The engine has it now.
void Fleet::enter(Request request, Instance& instance, double now_s) {
  if (instance.slots.is_there()) {
    take_slot(request, instance);
  } else {
    look_up(request, instance);
  }
  if (is_measured()) return answer_as_measured(request, now_s);
  if (options_.engine.is_instant()) return answer_at_once(request, instance, now_s);
  const double here_s = load(request, instance, now_s);
  use_store_hits(request);
  count_found();
  if (here_s > now_s) return expect(here_s, Kind::loaded, request);
  instance.engine.wait(request);
  settle(instance_of_[request], now_s);
}

/// The leading run of its blocks that are somewhere, the nearest place first.
void Fleet::look_up(Request request, Instance& instance) {
  tiers_ = {};
  read_.clear();
  const auto prompt = trace_.prompt_of(request);
  std::uint32_t found = 0;
  for (; found < prompt.size(); ++found) {
    const Block block = prompt[found];
    if (instance.device.has(block)) {
      ++tiers_.device;
    } else if (instance.host.has(block)) {
      ++tiers_.host;
    } else {
      const Cluster::Found there = store_ ? store_->find(block) : Cluster::Found{};
      if (there.where == Where::nowhere) break;
      if (read_.from.empty()) before_store_ = {found, tiers_};
      read_.add(there.node, there.where);
    }
  }
  found_[request] = found;
}

/// What a slot has is of no use beyond what it has in common with the prompt. A conversation is
/// stored as a whole, and found by its name.
void Fleet::take_slot(Request request, Instance& instance) {
  tiers_ = {};
  read_.clear();
  before_store_ = {};
  if (store_ == nullptr) {
    tiers_.device = found_[request] = instance.slots.take(request);
    return;
  }
  const Request stored = stored_turn(request);
  found_[request] = instance.slots.take_in_turn(request, stored);
  if (stored == NO_REQUEST) {
    tiers_.device = found_[request];
    return;
  }
  for (const Block block : trace_.prompt_of(request).first(found_[request])) {
    const Cluster::Found there = store_->find(block);
    read_.add(there.node, there.where);
  }
}

/// The turn before, if all that it has left is in the store; or else NO_REQUEST.
Request Fleet::stored_turn(Request request) {
  const Request before = last_done_[trace_.session[request]];
  if (before == NO_REQUEST) return NO_REQUEST;
  const auto blocks = trace_.all_of(before);
  const bool is_whole = std::all_of(blocks.begin(), blocks.end(), [&](Block block) {
    return store_->find(block).where != Where::nowhere;
  });
  return is_whole ? before : NO_REQUEST;
}

/// When all that was found is on the device. What takes too long is not found after all.
double Fleet::load(Request request, Instance& instance, double now_s) {
  const double host_bytes = static_cast<double>(tiers_.host) * options_.block_bytes;
  const double host_s = instance.from_host.pass(now_s, host_bytes);
  const std::uint32_t blocks = read_.memory_blocks + read_.disk_blocks;
  if (blocks == 0) return host_s;
  const double bytes = blocks * options_.block_bytes;
  const double there_s =
      std::max(store_->would_end_s(read_, now_s), instance.in.would_end_s(now_s, bytes));
  const double took_s = there_s + options_.load_s - now_s;
  const double fresh = double{1} * blocks * trace_.block_tokens;
  const double before = double{1} * found_tokens(request);
  const bool may_decline = options_.never_slower && options_.slots == 0;
  if (may_decline && took_s > options_.engine.compute_s(fresh, before - fresh)) {
    decline_store_hits(request);
    return host_s;
  }
  store_->pass(read_, now_s);
  instance.in.pass(now_s, bytes);
  return std::max(host_s, there_s + options_.load_s);
}

/// What was found ends where the first block of the store begins.
void Fleet::decline_store_hits(Request request) {
  counts_.declined_blocks += found_[request] - before_store_.blocks;
  found_[request] = before_store_.blocks;
  tiers_ = before_store_.tiers;
  read_.clear();
}

void Fleet::use_store_hits(Request request) {
  if (read_.from.empty()) return;
  const auto prompt = trace_.prompt_of(request);
  for (std::uint32_t at = found_[request]; at-- > 0;) store_->read(prompt[at]);
}

void Fleet::count_found() {
  counts_.found.device += tiers_.device;
  counts_.found.host += tiers_.host;
  counts_.found.memory += read_.memory_blocks;
  counts_.found.disk += read_.disk_blocks;
}

/// Engines that take no time: what was found is counted, then everything is used from the last
/// block to the first, so that a prefix is fresher than what follows it.
void Fleet::answer_at_once(Request request, Instance& instance, double now_s) {
  count_found();
  const double blocks = double{1} * read_.memory_blocks + read_.disk_blocks;
  if (blocks > 0) {
    store_->pass(read_, now_s);
    instance.in.pass(now_s, blocks * options_.block_bytes);
  }
  const auto all = trace_.all_of(request);
  for (std::size_t at = all.size(); at-- > 0;) {
    const bool is_own = instance.device.has(all[at]) || instance.host.has(all[at]);
    if (store_ && !is_own) store_->read(all[at]);
    keep(all.subspan(at, 1), instance, now_s);
  }
  leave(request, instance, now_s);
  end(request, now_s);
}

/// At the times of somebody's measurement, whatever engines could do.
void Fleet::answer_as_measured(Request request, double now_s) {
  use_store_hits(request);
  count_found();
  const double arrived_at_s = arrived_s(request);
  expect(std::max(now_s, arrived_at_s + trace_.measured_first_s[request]), Kind::first_token,
         request);
  expect(std::max(now_s, arrived_at_s + trace_.measured_done_s[request]), Kind::done, request);
}

void Fleet::settle(std::uint32_t at, double now_s) {
  Instance& instance = instances_[at];
  Engine& engine = instance.engine;
  const double busy_s = engine.busy_s;
  engine.advance(now_s, gaps_);
  bin(now_s).busy_s += engine.busy_s - busy_s;
  for (;;) {
    if (const Request done = engine.take_computed(now_s); done != NO_REQUEST)
      on_computed(done, instance, now_s);
    for (Request done; (done = engine.take_finished()) != NO_REQUEST;)
      on_finished(done, instance, now_s);
    if (!engine.may_begin()) break;
    begin(instance, now_s);
  }
  engine.resume(now_s, gaps_);
  const double next_s = engine.next_s(now_s);
  if (next_s == instance.expected_s) return;
  instance.expected_s = next_s;
  ++engine.version;
  if (std::isfinite(next_s)) expect(next_s, Kind::engine, at, engine.version);
}

/// Others may have brought more of its prompt meanwhile.
void Fleet::begin(Instance& instance, double now_s) {
  const Request request = instance.engine.take_waiting();
  const auto prompt = trace_.prompt_of(request);
  std::uint32_t& found = found_[request];
  for (; found < prompt.size(); ++found) {
    if (instance.device.has(prompt[found])) {
      ++counts_.found.device;
    } else if (instance.host.has(prompt[found])) {
      ++counts_.found.host;
    } else {
      break;
    }
  }
  const std::uint32_t before = found_tokens(request);
  const std::uint32_t all = std::max(1u, trace_.input_tokens[request]);
  const double took_s = options_.engine.compute_s(all - before, before);
  counts_.computed_s += took_s;
  counts_.saved_s += options_.engine.compute_s(all, 0) - took_s;
  instance.engine.begin({request, all - before, before}, now_s, gaps_);
}

void Fleet::on_computed(Request request, Instance& instance, double now_s) {
  first_token_s_[request] = static_cast<float>(now_s - arrived_s(request));
  keep(trace_.prompt_of(request), instance, now_s);
}

void Fleet::on_finished(Request request, Instance& instance, double now_s) {
  done_s_[request] = static_cast<float>(now_s - arrived_s(request));
  keep(trace_.all_of(request).subspan(trace_.prompt_blocks[request]), instance, now_s);
  leave(request, instance, now_s);
  end(request, now_s);
}

/// The slot is for the next one.
void Fleet::leave(Request request, Instance& instance, double now_s) {
  if (!instance.slots.is_there()) return;
  instance.slots.give(request, now_s);
  last_done_[trace_.session[request]] = request;
  if (!instance.without_slot.empty()) expect(now_s, Kind::slot, instance_of_[request]);
}

/// From the last to the first, so that a prefix is fresher than what follows it.
void Fleet::keep(std::span<const Block> blocks, Instance& instance, double now_s) {
  std::uint64_t copies = 0;
  for (std::size_t at = blocks.size(); at-- > 0;) {
    instance.device.use(blocks[at]);
    instance.host.use(blocks[at]);
    if (store_) copies += store_->put(blocks[at], now_s);
  }
  instance.out.pass(now_s, static_cast<double>(copies) * options_.block_bytes);
}

void Fleet::end(Request request, double now_s) {
  ++answered_;
  balancer_.note_end(instance_of_[request]);
  counts_.asked_blocks += trace_.prompt_blocks[request];
  counts_.input_tokens += trace_.input_tokens[request];
  counts_.output_tokens += trace_.output_tokens[request];
  counts_.found_tokens += found_tokens(request);
  counts_.ended_s = std::max(counts_.ended_s, now_s);
  Bin& came = bin(arrived_s(request));
  came.requests += 1;
  came.asked_blocks += trace_.prompt_blocks[request];
  came.found_blocks += found_[request];
  if (!first_token_s_.empty()) came.first_token_s += static_cast<double>(first_token_s_[request]);
  bin(now_s).answered += 1;
  if (next_turn_.empty()) return;
  if (next_turn_[request] != NO_REQUEST) ready_.push_back(next_turn_[request]);
  if (ready_.empty()) return;
  expect(now_s + options_.turn_s, Kind::arrival, ready_.front());
  ready_.pop_front();
}

}  // namespace gd2fs::sim
