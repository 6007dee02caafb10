#include "record_call.h"

#include <algorithm>
#include <utility>

namespace gd2fs {

namespace {

constexpr std::int64_t STALE_MS = 1;  // the map is on its way, behind the answer
constexpr std::int64_t PAUSE_MS_MAX = 64;
constexpr std::uint32_t RETRY_MS_MAX = 200;
constexpr std::size_t SCOUTS_MAX = 3;  // nodes beyond the owners: one that is up is asked

}  // namespace

wire::Item RecordCall::new_item() const {
  wire::Item item;
  item.name = path_;
  return item;
}

std::size_t RecordCall::home() const {
  return has_asked_ ? asked_ : network().routes()->owner(path_, 0);
}

std::size_t RecordCall::replicas_of(const Routes& routes, const FileFacts& facts) const {
  const std::size_t wanted =
      facts.replicas != 0 ? facts.replicas : routes.placement.replicas(path_);
  return std::clamp<std::size_t>(wanted, 1, REPLICAS_MAX);
}

void RecordCall::ask(wire::Op op, wire::Item item, std::function<void()> then) {
  question_ = {};
  question_.op = op;
  question_.item = std::move(item);
  question_.then = std::move(then);
  ask_rank();
}

void RecordCall::ask_rank() {
  const RoutesRef routes = network().routes();
  const std::size_t owners = is_read() ? routes->placement.replicas(path_) : 1;
  const auto order = routes->placement.owners(path_, 0, owners);
  const std::size_t rank = std::min(question_.rank, order.size() - 1);
  RpcRef rpc = new_rpc(question_.op);
  rpc->request.head.map_epoch = question_.epoch = routes->map.epoch;
  rpc->has_others = order.size() > 1;
  rpc->add(question_.item);
  asked_ = routes->slots[order[rank]];
  has_asked_ = true;
  send(asked_, std::move(rpc), [self = self()] { self->take(); });
}

void RecordCall::take() {
  const Status status = answer_status();
  switch (status) {
    case Status::stale_map: return ask_later(STALE_MS);
    case Status::retry: {
      const std::uint32_t wish =
          answer().status == Status::ok ? answer().answers.front().detail : 0;
      return ask_later(std::clamp(wish, RETRY_MS, RETRY_MS_MAX));
    }
    case Status::fenced:
    case Status::unavailable: return is_read() ? ask_next() : scout();
    case Status::miss:
      if (is_read()) return ask_next();
      return end();
    default: return end();
  }
}

/// The next backup. Of many answers that say nothing, one that came from a node counts.
void RecordCall::ask_next() {
  if (question_.kept.rpc == nullptr || answer_status() == Status::miss)
    question_.kept = {asked_, sent().front().rpc};
  const RoutesRef routes = network().routes();
  const auto order = routes->placement.owners(path_, 0, routes->placement.replicas(path_));
  if (++question_.rank < order.size()) return ask_rank();
  scout();
}

void RecordCall::ask_later(std::int64_t pause_ms) {
  const bool is_newer = network().routes()->map.epoch > question_.epoch;
  const std::int64_t patience_ms = std::min<std::int64_t>(
      std::int64_t{1} << std::min<std::size_t>(question_.pauses, 10), PAUSE_MS_MAX);
  ++question_.pauses;
  question_.rank = 0;
  Sent kept = std::exchange(question_.kept, {});
  if (after(is_newer ? 0 : std::max(pause_ms, patience_ms), [self = self()] { self->ask_rank(); }))
    return;
  question_.kept = std::move(kept);
  end_with_kept();
}

/// Nobody answered who should. Whoever knows a newer map says so, whatever it is asked.
void RecordCall::scout() {
  if (question_.kept.rpc == nullptr) question_.kept = {asked_, sent().front().rpc};
  const RoutesRef routes = network().routes();
  if (routes->map.epoch > question_.epoch) return ask_later(0);
  const std::size_t owners = is_read() ? routes->placement.replicas(path_) : 1;
  const auto order = routes->placement.owners(path_, 0, owners + SCOUTS_MAX);
  const bool is_fixed = routes->map.provider == wire::Provider::fixed;
  for (std::size_t rank = owners; rank < order.size() && !is_fixed; ++rank) {
    if (routes->links[order[rank]]->is_down()) continue;
    RpcRef rpc = new_rpc(wire::Op::meta);
    rpc->request.head.map_epoch = question_.epoch;
    rpc->has_others = true;
    rpc->add(new_item());
    return send(routes->slots[order[rank]], std::move(rpc),
                [self = self()] { self->take_scouted(); });
  }
  is_fixed || is_over() ? end_with_kept() : wait_for_map();
}

void RecordCall::take_scouted() {
  const bool is_told =
      answer_status() == Status::stale_map || network().routes()->map.epoch > question_.epoch;
  if (is_told) return ask_later(STALE_MS);
  is_over() ? end_with_kept() : wait_for_map();
}

/// A reader has its answer, if only that nobody has one. Of a change, only what a node has said.
bool RecordCall::is_over() const {
  const RpcRef& kept = question_.kept.rpc;
  const bool has_word = kept != nullptr && kept->item_status(0) == Status::miss;
  return is_read() && (!is_change() || has_word);
}

/// Nothing was carried out: there is time until the deadline.
void RecordCall::wait_for_map() { ask_later(RETRY_MS); }

void RecordCall::end_with_kept() {
  if (question_.kept.rpc != nullptr) {
    asked_ = question_.kept.node;
    restore(std::move(question_.kept));
  }
  end();
}

void RecordCall::end() {
  const std::function<void()> then = std::move(question_.then);  // it may ask anew
  then();
}

}  // namespace gd2fs
