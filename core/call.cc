#include "call.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <map>

namespace gd2fs {

namespace {

constexpr std::uint64_t SHARE_BYTES_MIN = 1 * MiB;  // not cut further for the streams' sake
constexpr std::uint64_t SENT_SHARES = 32;  // of one stream: the last ones end at about one time
constexpr std::uint64_t SENT_BYTES_MAX = 4 * MiB;
// A copy out of shared memory is quicker than waking the node's threads, and so is what a card
// moves: few requests, large ones.
constexpr std::uint64_t LEASED_SHARES = 2;
constexpr std::uint64_t LEASED_BYTES_MAX = 32 * MiB;

/// Counts the answers that are still to come.
struct Gather {
  Gather(std::size_t count, std::function<void()> next) : left(count), then(std::move(next)) {}
  std::atomic<std::size_t> left;
  std::function<void()> then;
};

}  // namespace

bool Cutter::begins(std::size_t name_bytes, std::uint64_t body_bytes) {
  const std::size_t tags_bytes = op_ == wire::Op::offer ? TAGS_BYTES_MAX : 0;
  const std::size_t table_bytes =
      wire::request_table_bytes(op_, items_ + 1, names_bytes_ + name_bytes) + tags_bytes;
  const bool is_new = items_ == 0 || items_ == ITEMS_MAX || table_bytes > TABLE_BYTES_MAX ||
                      (bytes_ > 0 && bytes_ + body_bytes > bytes_max_);
  if (is_new) {
    items_ = 0;
    names_bytes_ = 0;
    bytes_ = 0;
  }
  ++items_;
  names_bytes_ += name_bytes;
  bytes_ += body_bytes;
  return is_new;
}

RpcRef Call::new_rpc(wire::Op op) const {
  auto rpc = std::make_shared<Rpc>(op, context_.operation, context_.deadline_ms);
  rpc->request.head.map_epoch = network().routes()->map.epoch;
  rpc->request.head.trace = options().trace;
  return rpc;
}

std::uint64_t Call::share_bytes(std::size_t node, std::uint64_t bytes) const {
  const Transport transport = network().link(node).transport();
  const bool is_leased = transport == Transport::shm || transport == Transport::rdma;
  const std::uint64_t shares = is_leased ? LEASED_SHARES : SENT_SHARES;
  const std::uint64_t most = is_leased ? LEASED_BYTES_MAX : SENT_BYTES_MAX;
  const std::uint64_t share = bytes / (shares * network().stream_count());
  return std::clamp(share / BLOCK_BYTES * BLOCK_BYTES, SHARE_BYTES_MIN, most);
}

void Call::scatter(std::vector<Sent> rpcs, std::function<void()> then) {
  sent_ = std::move(rpcs);
  if (sent_.empty()) return then();
  auto gather = std::make_shared<Gather>(sent_.size(), std::move(then));
  std::map<std::size_t, std::vector<RpcRef>> by_node;
  const bool has_memory = std::any_of(sent_.begin(), sent_.end(),
                                      [](const Sent& each) { return !each.rpc->memory.empty(); });
  Bouncer* const bouncer = has_memory ? network().bouncer() : nullptr;
  std::vector<Bouncer::JobRef> bounced;
  for (Sent& each : sent_) {
    std::function<void()> done = [self = shared_from_this(), gather] {
      if (gather->left.fetch_sub(1) == 1) gather->then();
    };
    const auto job = bouncer == nullptr ? nullptr : bouncer->take(each.rpc, each.node, [&] {
      return network().link(each.node).transport() == Transport::rdma;
    });
    if (job != nullptr) done = bouncer->then(job, std::move(done));
    if (each.others.empty()) {
      each.rpc->done = std::move(done);
    } else {
      Hedge::watch(network(), each.rpc, each.node, std::move(each.others), std::move(done));
    }
    if (job == nullptr) {
      by_node[each.node].push_back(each.rpc);
    } else {
      bounced.push_back(job);
    }
  }
  // From the first submit on the next step may run, on another thread.
  Network& whole = network();
  for (auto& [node, list] : by_node) whole.link(node).submit(std::move(list));
  for (const Bouncer::JobRef& job : bounced) bouncer->begin(job);
}

void Call::send(std::size_t node, RpcRef rpc, std::function<void()> then) {
  std::vector<Sent> one;
  one.push_back({node, std::move(rpc)});
  scatter(std::move(one), std::move(then));
}

bool Call::after(std::int64_t delay_ms, std::function<void()> then) {
  if (delay_ms >= left_ms()) return false;
  network().after(delay_ms, [self = shared_from_this(), then = std::move(then)] { then(); });
  return true;
}

void Call::finish(Outcome outcome) {
  assert(on_end_ != nullptr);
  const OnEnd on_end = std::move(on_end_);
  on_end_ = nullptr;
  sent_.clear();
  on_end(std::move(outcome));
}

namespace {

/// What to do about a node that cannot be reached.
const char* advice_of(Transport transport) {
  const bool is_chosen = transport == Transport::shm || transport == Transport::unix_socket ||
                         transport == Transport::rdma;
  return is_chosen ? "allow the transport `auto`, or take it as a miss"
                   : "retry, or take it as a miss";
}

}  // namespace

void Call::fail(Status status, const std::string& what, std::size_t node) {
  Link& link = network().link(node);
  Outcome outcome = outcome_of(status);
  outcome.message = what + ": node `" + link.node_name() + "` answered " + status_name(status);
  if (status == Status::unavailable)
    outcome.message = what + ": node `" + link.node_name() + "` cannot be reached (" +
                      link.last_fault() + "); " + advice_of(link.options().transport);
  const std::string gpu_fault = network().bounce_fault();
  if (status == Status::unavailable && !link.is_down() && !gpu_fault.empty())
    outcome.message = what + ": memory of the GPU could not be copied (" + gpu_fault + ")";
  if (status == Status::expired)
    outcome.message = what + ": node `" + link.node_name() +
                      "` did not answer before the deadline; retry, or allow more time";
  if (status == Status::unknown)
    outcome.message = what + ": node `" + link.node_name() +
                      "` did not confirm it; read it back before doing it again";
  finish(std::move(outcome));
}

}  // namespace gd2fs
