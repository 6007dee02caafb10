#include "node.h"

#include <algorithm>
#include <array>
#include <map>
#include <system_error>

#include "arrival.h"
#include "mover.h"

namespace gd2fs::serve {
namespace {

constexpr std::size_t CURVES_TOLD_MAX = 64;         // namespaces, those with most look-ups
constexpr std::size_t DISK_FAULT_BYTES_MAX = 1024;  // of a status

wire::Map with_boot(wire::Map map, const NodeId& id, std::uint64_t boot) {
  for (wire::MapNode& each : map.nodes) {
    if (each.id == id && each.boot == 0) each.boot = boot;  // a list does not know it
  }
  return map;
}

/// A small arena lets a stream have a few chunks on their way all the same: with less, every second
/// offer would have to come again.
std::uint64_t filling_of_one(std::uint64_t arena_bytes) {
  const std::uint64_t chunks = std::min<std::uint64_t>(4 * CHUNK_BYTES_DEFAULT, arena_bytes / 16);
  return std::max<std::uint64_t>(arena_bytes / FILLING_PER_CONNECTION_SHARE, chunks);
}

/// The answer of a self-test on memory of this very arena, unless the options spare it.
std::string try_splice(const ServerOptions& options, Store& store) {
  if (options.zero_copy == ZeroCopy::off) return "switched off";
  if (options.zero_copy == ZeroCopy::automatic && !store.arena().has_huge_pages()) {
    return "copies are quicker on small pages";
  }
  const Reserved probe = store.reserve({.name = "/splice/probe", .length = BLOCK_BYTES});
  if (probe.piece == nullptr) return "no memory to try it with";
  std::vector<std::span<std::byte>> runs;
  probe.piece->runs(0, BLOCK_BYTES, runs);
  return splice_fault(runs.front());
}

/// One line about the places that are not written to, and what that means.
std::string disk_fault_of(const DiskCounts& counts) {
  std::string fault;
  bool is_any_left = false;
  for (const DiskPlaceCounts& place : counts.places) {
    if (!place.is_failed) {
      is_any_left = true;
      continue;
    }
    if (!fault.empty()) fault += ", ";
    fault += place.folder + ": " + std::generic_category().message(place.error);
  }
  if (fault.empty()) return fault;
  const std::string_view rest =
      is_any_left ? "; others are written to" : "; evicted bytes go unwritten";
  return fault.substr(0, DISK_FAULT_BYTES_MAX - rest.size()).append(rest);
}

}  // namespace

Node::Node(const ServerOptions& from, std::unique_ptr<Store> opened, tls::ContextPtr secured,
           ArenaRdma transfers)
    : options(from),
      id(node_id(from.name)),
      store(std::move(opened)),
      tls(std::move(secured)),
      rdma(std::move(transfers)),
      splice_fault(try_splice(from, *store)),
      filling_bytes_max(filling_of_one(store->arena().bytes())),
      hold_budget(store->arena().bytes()),
      views(store->arena().bytes()),
      records(RECORDS_MAX),
      tokens(from.tokens),
      own_token(std::make_shared<TokenSource>(tokens.own())),
      peers(from.cluster, id, from.sockets, own_token, tls),
      lease(from.map.lease_ms > 0),
      record_service(records, lease, peers, {id, from.boot}, with_boot(from.map, id, from.boot)),
      move_bytes_per_s(from.move_bytes_per_s),
      mover(std::make_unique<Mover>(*this)),
      arrival(std::make_unique<Arrival>(peers, from.name, from.boot)),
      view_(std::make_shared<const ClusterView>(with_boot(from.map, id, from.boot))) {
  if (from.is_judged) judge.sit();
  peers.take_map(view_->map);
  mover->take_map(view_);
}

/// Nobody may be asked by the mover any more, and no answer find it gone.
Node::~Node() {
  mover->stop();
  record_service.close();
  peers.close();
}

wire::NodeStatus Node::status() const {
  const StoreCounts now = store->counts();
  wire::NodeStatus status;
  status.boot = options.boot;
  const ClusterViewRef now_in_force = view();
  status.epoch = now_in_force->map.epoch;
  for (const wire::MapNode& each : now_in_force->map.nodes) {
    if (each.id == id) status.state = each.state;
  }
  const Mover::Progress moves = mover->progress();
  status.moves_left = moves.left;
  status.moves_left_bytes = moves.left_bytes;
  status.records_left = record_service.left_count();
  status.arena_bytes = now.arena_bytes;
  status.arena_free_bytes = now.free_bytes;
  status.name = options.name;
  status.rung = store->arena().rung_name();
  status.is_sealed = store->arena().is_sealed();
  status.zero_copy = splice_fault.empty() ? "on" : "off: " + splice_fault;
  if (const auto disk = store->disk_counts()) {
    status.disk_bytes = disk->bytes_max;
    status.disk_live_bytes = disk->live_bytes;
    status.cold_bytes = now.cold_bytes;
    status.disk_fault = disk_fault_of(*disk);
  }
  return status;
}

ServerCounts Node::counts() const {
  const auto read = [](const std::atomic<std::uint64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  ServerCounts now;
  now.store = store->counts();
  now.disk = store->disk_counts();
  now.connections = connections.load(std::memory_order_relaxed);
  now.accepted = read(counters.accepted);
  now.refused = read(counters.refused);
  now.protocol_faults = read(counters.protocol_faults);
  const Tallies::Totals totals = tallies.totals();
  now.requests = totals.requests;
  now.hits = totals.hits;
  now.misses = totals.misses;
  now.bytes_in = totals.bytes_of(Direction::in);
  now.bytes_out = totals.bytes_of(Direction::out);
  now.bytes_spliced = totals.bytes_spliced;
  now.held_bytes = hold_budget.held_bytes.load(std::memory_order_relaxed);
  now.cut_off = read(counters.cut_off);
  now.corrupt_in = read(counters.corrupt_in);
  now.leases = totals.leases;
  const auto& by_shm = totals.bytes[static_cast<std::size_t>(Transport::shm)];
  now.bytes_leased = by_shm[static_cast<std::size_t>(Direction::out)];
  now.views = views.count();
  now.view_bytes = views.bytes();
  now.records = records.count();
  if (record_log != nullptr) {
    now.record_log_bytes = record_log->bytes();
    now.record_log_faults = record_log->faults();
  }
  now.records_left = record_service.left_count();
  now.epoch = view()->map.epoch;
  const Mover::Progress moves = mover->progress();
  now.moves_left = moves.left;
  now.moves_left_bytes = moves.left_bytes;
  now.is_settled = moves.is_settled;
  now.moved = read(counters.moved);
  now.moved_bytes = read(counters.moved_bytes);
  now.unjudged = read(counters.unjudged);
  now.denied = read(counters.denied);
  now.strangers = strangers.count();
  for (std::size_t at = 0; at < REFUSALS.size(); ++at)
    now.refused_for[at] = read(counters.refused_for[at]);
  if (tls != nullptr) now.tls = tls->counts();
  return now;
}

ServerTally Node::tally() const {
  return {.namespaces = tallies.namespaces(),
          .took = tallies.took(),
          .bytes = tallies.totals().bytes,
          .evicted = store->evicted(),
          .departed = store->departures().counts(),
          .peers = peers.counts()};
}

ServerCurves Node::told_curves() const {
  const StoreCounts now = store->counts();
  const StoreOptions& kept = options.store;
  // Between the marks at which eviction in the background starts and stops.
  const double used = (kept.evict_above + kept.evict_below) / 2;
  std::uint64_t taken = now.record_bytes;
  std::map<std::string, std::uint64_t> quotas;
  for (const Store::SpaceCounts& each : store->spaces()) {
    if (each.quota_bytes == 0) continue;
    taken += each.bytes;
    quotas[each.name] = each.quota_bytes;
  }
  const auto usable = static_cast<std::uint64_t>(static_cast<double>(now.arena_bytes) * used);
  ServerCurves told;
  told.span_ms = boottime_ms() - curves.since_ms();
  told.arena_bytes = now.arena_bytes;
  told.memory_bytes = usable - std::min(usable, taken);
  if (const auto disk = store->disk_counts()) told.disk_bytes = disk->usable_bytes;
  told.namespaces = curves.told(tallies.namespaces(), CURVES_TOLD_MAX);
  for (NamespaceCurve& each : told.namespaces) {
    const auto quota = quotas.find(each.name);
    if (quota != quotas.end()) each.quota_bytes = quota->second;
  }
  return told;
}

bool Node::has_quota(std::string_view name, bool is_page) const {
  return store->rules_of(name, is_page)->quota_bytes != 0;
}

void Node::follow_stored(const Piece& piece, Tally& tally) {
  const std::uint64_t place =
      piece.is_page() ? LiveCurves::place_of(piece.name_hash())
                      : LiveCurves::place_of(piece.name_hash(), piece.chunk(), piece.tag());
  if (!curves.follows(place)) return;
  const std::size_t lane = tally.of(piece.name(), piece.is_page()).number;
  curves.stored({lane, place, has_quota(piece.name(), piece.is_page())}, piece.length());
}

void Node::warm(std::span<const wire::Item> items) const {
  std::array<std::string_view, LOOKUPS_MAX> names;
  const std::size_t count = std::min(items.size(), names.size());
  for (std::size_t at = 0; at < count; ++at) names[at] = items[at].name;
  store->warm_pages(std::span(names).first(count));
}

ClusterViewRef Node::view() const {
  const std::lock_guard lock(view_mutex_);
  return view_;
}

bool Node::take_map(wire::Map map, bool is_gap) {
  const auto next =
      std::make_shared<const ClusterView>(with_boot(std::move(map), id, options.boot));
  {
    const std::lock_guard lock(view_mutex_);
    if (next->map.epoch <= view_->map.epoch) return false;
    view_ = next;
    peers.take_map(next->map);
  }
  record_service.take_map(next->map, is_gap);
  mover->take_map(next);
  return true;
}

void Node::take_tokens(const std::vector<KnownToken>& known) {
  tokens.set(known);
  own_token->set(tokens.own());
}

std::uint32_t Node::eager_bytes_max() const noexcept {
  return judge.is_sitting() ? 0 : EAGER_BYTES_MAX;
}

void Node::announce() { arrival->announce(view()->map); }

bool Node::is_home(std::string_view path, std::uint32_t& home) const {
  const ClusterViewRef now_in_force = view();
  if (now_in_force->placement.is_empty()) return true;
  home = now_in_force->placement.owner(path, 0);
  return now_in_force->map.nodes[home].id == id;
}

}  // namespace gd2fs::serve
