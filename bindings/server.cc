#include "../core/server.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>

#include "../core/placement.h"
#include "fault.h"
#include "gil.h"
#include "key_trace.h"
#include "modules.h"
#include "rdma.h"
#include "signals.h"
#include "tally.h"
#include "tls.h"

namespace nb = nanobind;

namespace gd2fs::bindings {

namespace {

/// name, addresses ("ADDR:PORT"), weight
using Peer = std::tuple<std::string, std::vector<std::string>, std::uint32_t>;

wire::MapNode map_node_of(const Peer& peer) {
  const auto& [name, addresses, weight] = peer;
  wire::MapNode node;
  node.id = node_id(name);
  node.weight = weight;
  node.addresses = name + "=";
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (i > 0) node.addresses += "+";
    node.addresses += addresses[i];
  }
  return node;
}

/// name, how many copies
using Replicas = std::pair<std::string, std::uint8_t>;
/// name, addresses, weight, boot, state, left_by: as wire::MapNode has them
using Member = std::tuple<std::string, std::vector<std::string>, std::uint32_t, std::uint64_t,
                          std::uint8_t, std::uint8_t>;

wire::Provider provider_of(const std::string& text) {
  if (text == "static") return wire::Provider::fixed;
  if (text == "etcd") return wire::Provider::etcd;
  if (text == "kubernetes") return wire::Provider::kubernetes;
  raise(FaultKind::invalid_request, "no provider `" + text + "`",
        "use `static`, `etcd` or `kubernetes`");
}

void set_replicas(wire::Map& map, std::uint8_t replicas, const std::vector<Replicas>& namespaces) {
  const auto check = [](std::uint8_t count) {
    if (count >= 1 && count <= REPLICAS_MAX) return;
    raise(FaultKind::invalid_request, std::to_string(count) + " replicas",
          "choose 1 to " + std::to_string(REPLICAS_MAX));
  };
  if (namespaces.size() > MAP_NAMESPACES_MAX) {
    raise(FaultKind::invalid_request, std::to_string(namespaces.size()) + " namespaces",
          "at most " + std::to_string(MAP_NAMESPACES_MAX) + " have replicas of their own");
  }
  check(replicas);
  map.replicas = replicas;
  for (const auto& [name, count] : namespaces) {
    check(count);
    map.namespaces.push_back({name, count});
  }
}

wire::MapNode map_node_of(const Member& member) {
  const auto& [name, addresses, weight, boot, state, left_by] = member;
  wire::MapNode node = map_node_of(Peer(name, addresses, weight));
  node.boot = boot;
  node.state = static_cast<wire::NodeState>(std::min<std::uint8_t>(state, 3));
  node.left_by = static_cast<wire::LeftBy>(std::min<std::uint8_t>(left_by, 2));
  return node;
}

wire::Map map_of(const std::vector<Peer>& peers, const nb::bytes& list_hash) {
  wire::Map map;
  map.epoch = 1;  // a static list is one epoch for ever
  if (list_hash.size() != map.list_hash.size()) {
    raise(FaultKind::invalid_request,
          "the list's hash is " + std::to_string(list_hash.size()) + " bytes, not 16",
          "use gd2fs.membership.list_hash");
  }
  const auto* hash = static_cast<const std::byte*>(list_hash.data());
  std::copy_n(hash, map.list_hash.size(), map.list_hash.begin());
  for (const Peer& peer : peers) map.nodes.push_back(map_node_of(peer));
  return map;
}

ZeroCopy zero_copy_of(const std::string& text) {
  if (text == "auto") return ZeroCopy::automatic;
  if (text == "on") return ZeroCopy::on;
  if (text == "off") return ZeroCopy::off;
  raise(FaultKind::invalid_request, "zero copy is `" + text + "`", "use `auto`, `on` or `off`");
}

using Place = std::tuple<std::string, std::uint64_t>;  // folder, bytes

TierOptions tier_of(const std::vector<Place>& places, std::uint64_t bytes_per_s,
                    const std::string& write, const std::string& keep) {
  TierOptions tier;
  for (const auto& [folder, bytes] : places) tier.disk.places.push_back({folder, bytes});
  tier.disk.write_bytes_per_s = bytes_per_s;
  if (write != "back" && write != "through")
    raise(FaultKind::invalid_request, "`" + write + "` is no way to write", "`back` or `through`");
  if (keep != "inclusive" && keep != "exclusive") {
    raise(FaultKind::invalid_request, "`" + keep + "` is no way to keep copies",
          "`inclusive` or `exclusive`");
  }
  tier.demote = write == "through" ? Demote::through : Demote::back;
  tier.keep = keep == "exclusive" ? DiskKeep::exclusive : DiskKeep::inclusive;
  return tier;
}

PolicyKind policy_of(const std::string& text) {
  for (const PolicyKind each : {PolicyKind::lru, PolicyKind::s3_fifo, PolicyKind::priority})
    if (text == policy_name(each)) return each;
  raise(FaultKind::invalid_request, "no policy `" + text + "`",
        "use `lru`, `s3-fifo` or `priority`");
}

std::optional<Demote> demote_of(const std::optional<std::string>& text) {
  if (!text) return {};
  if (*text == "none") return Demote::none;
  if (*text == "back") return Demote::back;
  if (*text == "through") return Demote::through;
  raise(FaultKind::invalid_request, "demote is `" + *text + "`", "use `none`, `back` or `through`");
}

std::optional<DiskKeep> keep_of(const std::optional<std::string>& text) {
  if (!text) return {};
  if (*text == "inclusive") return DiskKeep::inclusive;
  if (*text == "exclusive") return DiskKeep::exclusive;
  raise(FaultKind::invalid_request, "keep is `" + *text + "`", "use `inclusive` or `exclusive`");
}

std::uint8_t eviction_class_of(std::uint32_t number) {
  if (number < EVICTION_CLASSES) return static_cast<std::uint8_t>(number);
  raise(FaultKind::invalid_request, "class " + std::to_string(number),
        "use 0, which goes first, to " + std::to_string(EVICTION_CLASSES - 1));
}

/// name, SHA-256 of the secret, what it may, where (nowhere: in every namespace)
using Known = std::tuple<std::string, nb::bytes, std::string, std::vector<std::string>>;

Rights rights_of(const std::string& right, const std::vector<std::string>& namespaces) {
  if (right == "cluster") return Rights::of_cluster();
  for (const auto& [name, each] : {std::pair("read", Right::read), std::pair("write", Right::write),
                                   std::pair("admin", Right::admin)})
    if (right == name) return Rights(each, namespaces);
  raise(FaultKind::invalid_request, "no right `" + right + "`",
        "use `read`, `write`, `admin` or `cluster`");
}

std::vector<serve::KnownToken> known_of(const std::vector<Known>& tokens) {
  std::vector<serve::KnownToken> known;
  for (const auto& [name, key, right, namespaces] : tokens) {
    Token token{name, {}};
    if (key.size() != token.key.size())
      raise(FaultKind::invalid_request, "the key of token `" + name + "` is not 32 bytes", "");
    std::copy_n(static_cast<const std::byte*>(key.data()), key.size(), token.key.begin());
    known.push_back({std::move(token), rights_of(right, namespaces)});
  }
  return known;
}

/// The server as Python holds it: `stop` may come from any thread, and twice.
class BoundServer {
 public:
  BoundServer(std::string cluster, std::string name, std::vector<std::string> listen,
              const std::vector<Peer>& peers, const nb::bytes& list_hash, std::uint64_t boot,
              std::size_t threads, std::size_t memory_bytes, const std::string& arena,
              const std::string& zero_copy, std::uint32_t hold_silence_ms, bool is_shared,
              bool is_traceable, std::string congestion, std::size_t socket_buffer_bytes,
              const std::string& provider, std::uint64_t epoch, std::uint8_t replicas,
              const std::vector<Replicas>& namespaces, std::uint32_t lease_ms,
              const std::vector<Member>& members, bool is_judged, std::uint64_t move_bytes_per_s,
              const std::vector<Place>& nvme, std::uint64_t nvme_bytes_per_s,
              const std::string& nvme_write, const std::string& nvme_keep, std::string state_dir,
              const std::vector<Known>& tokens, const nb::dict& tls, bool is_spread,
              const nb::dict& rdma) {
    auto arena_options = parse_arena(arena, memory_bytes);
    if (!arena_options) {
      raise(FaultKind::invalid_request, arena_options.error().message, arena_options.error().hint);
    }
    ServerOptions options;
    options.cluster = std::move(cluster);
    options.tokens = known_of(tokens);
    options.name = std::move(name);
    options.listen = std::move(listen);
    options.map = map_of(peers, list_hash);
    for (const Member& each : members) options.map.nodes.push_back(map_node_of(each));
    options.map.provider = provider_of(provider);
    options.map.epoch = epoch;
    options.map.lease_ms = lease_ms;
    set_replicas(options.map, replicas, namespaces);
    options.boot = boot;
    options.threads = threads;
    options.zero_copy = zero_copy_of(zero_copy);
    if (hold_silence_ms != 0) options.hold_silence_ms = hold_silence_ms;
    options.is_shared = is_shared;
    options.is_judged = is_judged;
    options.is_traceable = is_traceable;
    if (move_bytes_per_s != 0) options.move_bytes_per_s = move_bytes_per_s;
    options.state_dir = std::move(state_dir);
    options.store.arena = *arena_options;
    if (is_spread) options.store.numa = numa::read_machine();
    options.store.node_name = options.name;
    options.store.boot = boot;
    options.store.tier = tier_of(nvme, nvme_bytes_per_s, nvme_write, nvme_keep);
    options.store.tier.disk.node_name = options.cluster + "/" + options.name;
    options.sockets = {std::move(congestion), socket_buffer_bytes};
    options.tls = tls_of(tls);
    options.rdma = rdma_of(rdma);
    auto result = start_without_gil(options);
    if (!result) {
      raise(FaultKind::invalid_request, result.error().message, result.error().hint);
    }
    first_ = options.map;
    addresses_ = (*result)->addresses();
    absent_ = (*result)->absent();
    rung_ = (*result)->rung_name();
    is_sealed_ = (*result)->is_sealed();
    socket_name_ = (*result)->socket_name();
    socket_fault_ = (*result)->socket_fault();
    rdma_lack_ = (*result)->rdma_lack();
    recovery_ = (*result)->recovery();
    server_ = std::move(*result);
  }
  ~BoundServer() { stop(); }

  const std::vector<std::string>& addresses() const { return addresses_; }
  const std::vector<std::string>& absent() const { return absent_; }
  const std::string& rung() const { return rung_; }
  bool is_sealed() const { return is_sealed_; }
  const std::string& socket_name() const { return socket_name_; }
  const std::string& socket_fault() const { return socket_fault_; }
  const std::string& rdma_lack() const { return rdma_lack_; }

  nb::dict recovery() const {
    const auto& [arena, records] = recovery_;
    nb::dict dict;
    dict["is_arena_kept"] = arena.is_kept;
    dict["is_arena_attached"] = arena.is_attached;
    dict["arena_fault"] = arena.fault;
    dict["pages"] = arena.pages;
    dict["pieces"] = arena.pieces;
    dict["bytes"] = arena.bytes;
    dict["expired"] = arena.expired;
    dict["partial"] = arena.partial;
    dict["unsound"] = arena.unsound;
    dict["arena_ms"] = arena.took_ms;
    dict["are_records_kept"] = records.is_kept;
    dict["records_fault"] = records.fault;
    dict["records"] = records.records;
    dict["expired_records"] = records.expired;
    dict["is_log_torn"] = records.is_torn;
    dict["records_ms"] = records.took_ms;
    return dict;
  }

  nb::dict counts() const {
    std::shared_ptr<Server> server = server_copy();
    if (!server) raise(FaultKind::closed, "the server is stopped", "start a new one");
    nb::dict counts = dict_of(server->counts());
    counts["tls_is_stale"] = !server->tls_fault().empty();
    return counts;
  }

  nb::dict tally() const { return tally_dict(running()->tally()); }
  nb::tuple take_slow() { return slow_tuple(running()->take_slow()); }
  void set_slow(std::uint32_t limit_ms) { running()->set_slow(limit_ms); }

  nb::dict curves() const {
    const std::shared_ptr<Server> server = running();
    ServerCurves curves;
    {
      GilReleased released;
      curves = server->curves();
    }
    return curves_dict(curves);
  }
  void set_curves(bool is_on) { running()->set_curves(is_on); }

  void begin_key_trace(const nb::bytes& key, const std::string& name_space) {
    serve::KeyTrace::Naming naming = naming_of(key, name_space);
    running()->key_trace().begin(std::move(naming));
  }
  nb::tuple take_key_trace(std::size_t entries_max) {
    return taken_tuple(running()->key_trace().take(entries_max));
  }
  bool is_key_trace_on() const { return running()->key_trace().is_on(); }
  void end_key_trace() { running()->key_trace().end(); }

  void apply_map(std::uint64_t epoch, const std::vector<Member>& nodes, std::uint8_t replicas,
                 const std::vector<Replicas>& namespaces, bool is_gap) {
    wire::Map map;
    map.epoch = epoch;
    map.provider = first_.provider;
    map.list_hash = first_.list_hash;
    map.lease_ms = first_.lease_ms;
    set_replicas(map, replicas, namespaces);
    for (const Member& each : nodes) map.nodes.push_back(map_node_of(each));
    const std::shared_ptr<Server> server = server_copy();
    if (!server) raise(FaultKind::closed, "the server is stopped", "start a new one");
    GilReleased released;
    server->apply_map(std::move(map), is_gap);
  }

  void set_lease(std::int64_t until_ms) {
    if (const std::shared_ptr<Server> server = server_copy()) server->set_lease(until_ms);
  }

  void set_tokens(const std::vector<Known>& tokens) {
    const std::shared_ptr<Server> server = running();
    const std::vector<serve::KnownToken> known = known_of(tokens);
    GilReleased released;
    server->set_tokens(known);
  }

  void set_rules(const std::string& name_space, const std::string& policy,
                 const std::optional<std::string>& demote, const std::optional<std::string>& keep,
                 std::uint64_t quota_bytes, std::uint64_t disk_quota_bytes, std::uint32_t ttl_s,
                 std::optional<std::uint64_t> pin_bytes_max, std::uint32_t eviction_class) {
    const NamespaceRules rules{.policy = policy_of(policy),
                               .demote = demote_of(demote),
                               .keep = keep_of(keep),
                               .quota_bytes = quota_bytes,
                               .disk_quota_bytes = disk_quota_bytes,
                               .ttl_s = ttl_s,
                               .pin_bytes_max = pin_bytes_max.value_or(~std::uint64_t{0}),
                               .eviction_class = eviction_class_of(eviction_class)};
    const std::shared_ptr<Server> server = running();
    Status status = Status::ok;
    {
      GilReleased released;
      status = server->set_rules(name_space, rules);
    }
    if (status != Status::ok) {
      raise(FaultKind::invalid_request,
            "`" + name_space + "` would be one namespace too many with rules of its own",
            "at most " + std::to_string(RULED_NAMESPACES_MAX) + " have some");
    }
  }

  void set_move_rate(std::uint64_t bytes_per_s) { running()->set_move_rate(bytes_per_s); }
  void set_nvme_rate(std::uint64_t bytes_per_s) {
    const std::shared_ptr<Server> server = running();
    GilReleased released;
    server->set_nvme_rate(bytes_per_s);
  }

  nb::dict spread() const {
    const numa::Spread spread = running()->spread();
    nb::dict bytes;
    for (const auto& [node, count] : spread.bytes) bytes[nb::int_(node)] = count;
    nb::dict dict;
    dict["bytes"] = bytes;
    dict["fault"] = spread.fault;
    dict["near_bytes"] = spread.near_bytes;
    dict["far_bytes"] = spread.far_bytes;
    return dict;
  }

  nb::list spaces() const {
    nb::list list;
    for (const Store::SpaceCounts& each : running()->spaces()) {
      list.append(nb::make_tuple(nb::bytes(each.name.data(), each.name.size()), each.bytes,
                                 each.pinned_bytes, each.disk_bytes, each.quota_bytes,
                                 each.disk_quota_bytes));
    }
    return list;
  }

  nb::list departures(std::size_t groups_max) const {
    const std::shared_ptr<Server> server = running();
    std::vector<DepartureGroup> groups;
    {
      GilReleased released;
      groups = server->departures(groups_max);
    }
    nb::list list;
    for (const DepartureGroup& each : groups) {
      list.append(nb::make_tuple(each.first_ms, each.last_ms, std::string(cause_name(each.cause)),
                                 std::string(policy_name(each.policy)),
                                 nb::bytes(each.name_space.data(), each.name_space.size()),
                                 nb::bytes(each.for_whom.data(), each.for_whom.size()), each.pieces,
                                 each.bytes));
    }
    return list;
  }

  std::optional<std::pair<std::uint64_t, nb::bytes>> next_question(std::int64_t timeout_ms) {
    const std::shared_ptr<Server> server = server_copy();
    if (!server) return {};
    std::optional<Desk::Question> question;
    {
      GilReleased released;
      question = server->settings_desk().take(timeout_ms);
    }
    if (!question) return {};
    return std::pair(question->number, nb::bytes(question->text.data(), question->text.size()));
  }

  void answer(std::uint64_t number, nb::bytes text) {
    const std::shared_ptr<Server> server = server_copy();
    if (!server) return;
    std::string copy(text.c_str(), text.size());
    GilReleased released;
    server->settings_desk().answer(number, std::move(copy));
  }

  /// By lot: number, tags, cases; a case: name, is_page, bytes, ttl_s, class.
  nb::list next_cases(std::int64_t timeout_ms, std::size_t count_max) {
    nb::list list;
    const std::shared_ptr<Server> server = server_copy();
    if (!server) return list;
    std::vector<Judge::Lot> lots;
    {
      GilReleased released;
      lots = server->judge().take(timeout_ms, count_max);
    }
    for (const Judge::Lot& lot : lots) {
      nb::list cases;
      for (const Case& each : lot.cases) {
        cases.append(nb::make_tuple(nb::bytes(each.name.data(), each.name.size()), each.is_page,
                                    each.bytes, each.ttl_s, each.eviction_class));
      }
      list.append(nb::make_tuple(lot.number, nb::bytes(lot.tags.data(), lot.tags.size()), cases));
    }
    return list;
  }

  /// A verdict: is it admitted, time to live, class; None: as it was.
  using Said = std::tuple<bool, std::optional<std::uint32_t>, std::optional<std::uint32_t>>;
  void give_verdicts(std::uint64_t number, const std::vector<Said>& said) {
    std::vector<Verdict> verdicts;
    for (const auto& [is_admitted, ttl_s, eviction_class] : said) {
      verdicts.push_back({is_admitted, ttl_s, {}});
      if (eviction_class) verdicts.back().eviction_class = eviction_class_of(*eviction_class);
    }
    const std::shared_ptr<Server> server = server_copy();
    if (!server) return;
    GilReleased released;
    server->judge().answer(number, std::move(verdicts));
  }

  void close_desk() {
    if (const std::shared_ptr<Server> server = server_copy()) {
      GilReleased released;
      server->settings_desk().close();
      server->judge().close();
    }
  }

  bool is_draining_wished() const {
    const std::shared_ptr<Server> server = server_copy();
    return server != nullptr && server->is_draining_wished();
  }

  void reload_tls() {
    const std::shared_ptr<Server> server = running();
    const Error fault = [&] {
      GilReleased released;
      return server->reload_tls();
    }();
    if (!fault.message.empty()) raise(fault);
  }

  std::string tls_fault() const { return running()->tls_fault(); }

  void stop() {
    GilReleased released;
    std::shared_ptr<Server> stopping;
    {
      std::lock_guard guard(lock_);
      stopping = std::move(server_);
      server_.reset();
    }
  }

 private:
  static Result<std::unique_ptr<Server>> start_without_gil(const ServerOptions& options) {
    GilReleased released;
    SignalsBlocked blocked;
    return Server::start(options);
  }

  static nb::dict dict_of(const ServerCounts& counts) {
    nb::dict dict;
    const StoreCounts& store = counts.store;
    dict["arena_bytes"] = store.arena_bytes;
    dict["free_bytes"] = store.free_bytes;
    dict["filling_bytes"] = store.filling_bytes;
    dict["staged_bytes"] = store.staged_bytes;
    dict["live_bytes"] = store.live_bytes;
    dict["zombie_bytes"] = store.zombie_bytes;
    dict["record_bytes"] = store.record_bytes;
    dict["pages"] = store.pages;
    dict["pieces"] = store.pieces;
    dict["free_runs"] = store.free_runs;
    dict["longest_free_bytes"] = store.longest_free_bytes;
    dict["evicted_pieces"] = store.evicted_pieces;
    dict["evicted_bytes"] = store.evicted_bytes;
    dict["expired_pieces"] = store.expired_pieces;
    dict["corrupt_pieces"] = store.corrupt_pieces;
    dict["connections"] = counts.connections;
    dict["accepted"] = counts.accepted;
    dict["refused"] = counts.refused;
    dict["protocol_faults"] = counts.protocol_faults;
    dict["strangers"] = counts.strangers;
    dict["denied"] = counts.denied;
    for (std::size_t at = 0; at < REFUSALS.size(); ++at)
      dict[("refused_" + std::string(REFUSALS[at])).c_str()] = counts.refused_for[at];
    dict["requests"] = counts.requests;
    dict["hits"] = counts.hits;
    dict["misses"] = counts.misses;
    dict["bytes_in"] = counts.bytes_in;
    dict["bytes_out"] = counts.bytes_out;
    dict["bytes_spliced"] = counts.bytes_spliced;
    dict["held_bytes"] = counts.held_bytes;
    dict["cut_off"] = counts.cut_off;
    dict["corrupt_in"] = counts.corrupt_in;
    dict["leases"] = counts.leases;
    dict["views"] = counts.views;
    dict["view_bytes"] = counts.view_bytes;
    dict["bytes_leased"] = counts.bytes_leased;
    dict["records"] = counts.records;
    dict["record_log_bytes"] = counts.record_log_bytes;
    dict["record_log_faults"] = counts.record_log_faults;
    dict["records_left"] = counts.records_left;
    dict["epoch"] = counts.epoch;
    dict["moves_left"] = counts.moves_left;
    dict["moves_left_bytes"] = counts.moves_left_bytes;
    dict["moved"] = counts.moved;
    dict["unjudged"] = counts.unjudged;
    dict["moved_bytes"] = counts.moved_bytes;
    dict["is_settled"] = counts.is_settled ? 1 : 0;
    dict["tls_reloads"] = counts.tls.reloads;
    dict["tls_reload_faults"] = counts.tls.reload_faults;
    dict["tls_expires_s"] = counts.tls.expires_s;
    add_tier(dict, counts);
    return dict;
  }

  static void add_tier(nb::dict& dict, const ServerCounts& counts) {
    const StoreCounts& store = counts.store;
    const DiskCounts disk = counts.disk.value_or(DiskCounts{});
    dict["loading_bytes"] = store.loading_bytes;
    dict["cold_pieces"] = store.cold_pieces;
    dict["cold_bytes"] = store.cold_bytes;
    dict["dirty_bytes"] = store.dirty_bytes;
    dict["demoted_pieces"] = store.demoted_pieces;
    dict["demoted_bytes"] = store.demoted_bytes;
    dict["loaded_pieces"] = store.loaded_pieces;
    dict["loaded_bytes"] = store.loaded_bytes;
    dict["undemoted_pieces"] = store.undemoted_pieces;
    dict["failed_loads"] = store.failed_loads;
    dict["failed_demotions"] = store.failed_demotions;
    dict["recovered_pieces"] = store.recovered_pieces;
    dict["recovered_bytes"] = store.recovered_bytes;
    dict["is_losing"] = store.is_losing ? 1 : 0;
    dict["nvme_bytes"] = disk.bytes_max;
    dict["nvme_usable_bytes"] = disk.usable_bytes;
    dict["nvme_live_bytes"] = disk.live_bytes;
    dict["nvme_file_bytes"] = disk.file_bytes;
    dict["nvme_records"] = disk.records;
    dict["nvme_written_bytes"] = disk.written_bytes;
    dict["nvme_moved_bytes"] = disk.moved_bytes;
    dict["nvme_read_bytes"] = disk.read_bytes;
    dict["nvme_lost_records"] = disk.lost_records;
    dict["nvme_failed_places"] = disk.failed_places;
    dict["nvme_read_errors"] = disk.read_errors;
    dict["nvme_write_errors"] = disk.write_errors;
    dict["nvme_sync_errors"] = disk.sync_errors;
    dict["nvme_full_errors"] = disk.full_errors;
    dict["nvme_torn"] = disk.torn_records;
    dict["nvme_corrupt_headers"] = disk.corrupt_headers;
    dict["nvme_scanned_bytes"] = disk.scanned_bytes;
    dict["nvme_scan_ms"] = disk.scan_ms;
    dict["nvme_is_uring"] = disk.is_uring ? 1 : 0;
  }

  std::shared_ptr<Server> running() const {
    std::shared_ptr<Server> server = server_copy();
    if (!server) raise(FaultKind::closed, "the server is stopped", "start a new one");
    return server;
  }

  std::shared_ptr<Server> server_copy() const {
    std::lock_guard guard(lock_);
    return server_;
  }

  mutable std::mutex lock_;  // Guards: server_. Never held while it starts or stops.
  std::shared_ptr<Server> server_;
  wire::Map first_;  // what the map says that never changes
  std::vector<std::string> addresses_;
  std::vector<std::string> absent_;
  std::string rung_;
  bool is_sealed_ = false;
  std::string socket_name_;
  std::string socket_fault_;
  std::string rdma_lack_;
  Recovery recovery_;
};

}  // namespace

void bind_server(nb::module_& module) {
  nb::class_<BoundServer>(module, "Server", "One node's arena and streams, served by own threads.")
      .def(nb::init<std::string, std::string, std::vector<std::string>, const std::vector<Peer>&,
                    const nb::bytes&, std::uint64_t, std::size_t, std::size_t, const std::string&,
                    const std::string&, std::uint32_t, bool, bool, std::string, std::size_t,
                    const std::string&, std::uint64_t, std::uint8_t, const std::vector<Replicas>&,
                    std::uint32_t, const std::vector<Member>&, bool, std::uint64_t,
                    const std::vector<Place>&, std::uint64_t, const std::string&,
                    const std::string&, std::string, const std::vector<Known>&, const nb::dict&,
                    bool, const nb::dict&>(),
           nb::arg("cluster"), nb::arg("name"), nb::arg("listen"), nb::arg("peers"),
           nb::arg("list_hash"), nb::arg("boot"), nb::arg("threads"), nb::arg("memory_bytes"),
           nb::arg("arena"), nb::arg("zero_copy") = "auto", nb::arg("hold_silence_ms") = 0,
           nb::arg("is_shared") = true, nb::arg("is_traceable") = true, nb::arg("congestion") = "",
           nb::arg("socket_buffer_bytes") = tcp::SocketSettings{}.buffer_bytes,
           nb::arg("provider") = "static", nb::arg("epoch") = 1, nb::arg("replicas") = 1,
           nb::arg("namespaces") = std::vector<Replicas>{}, nb::arg("lease_ms") = 0,
           nb::arg("members") = std::vector<Member>{}, nb::arg("is_judged") = false,
           nb::arg("move_bytes_per_s") = 0, nb::arg("nvme") = std::vector<Place>{},
           nb::arg("nvme_bytes_per_s") = 0, nb::arg("nvme_write") = "back",
           nb::arg("nvme_keep") = "inclusive", nb::arg("state_dir") = "",
           nb::arg("tokens") = std::vector<Known>{}, nb::arg("tls") = nb::dict(),
           nb::arg("is_spread") = false, nb::arg("rdma") = nb::dict())
      .def_prop_ro("addresses", &BoundServer::addresses)
      .def_prop_ro("absent", &BoundServer::absent)
      .def_prop_ro("rung", &BoundServer::rung)
      .def_prop_ro("is_sealed", &BoundServer::is_sealed)
      .def_prop_ro("socket_name", &BoundServer::socket_name)
      .def_prop_ro("socket_fault", &BoundServer::socket_fault)
      .def_prop_ro("rdma_lack", &BoundServer::rdma_lack)
      .def("recovery", &BoundServer::recovery)
      .def("counts", &BoundServer::counts)
      .def("tally", &BoundServer::tally)
      .def("take_slow", &BoundServer::take_slow)
      .def("set_slow", &BoundServer::set_slow, nb::arg("limit_ms"))
      .def("curves", &BoundServer::curves)
      .def("set_curves", &BoundServer::set_curves, nb::arg("is_on"))
      .def("begin_key_trace", &BoundServer::begin_key_trace, nb::arg("key"), nb::arg("namespace"))
      .def("take_key_trace", &BoundServer::take_key_trace, nb::arg("entries_max"))
      .def("is_key_trace_on", &BoundServer::is_key_trace_on)
      .def("end_key_trace", &BoundServer::end_key_trace)
      .def("apply_map", &BoundServer::apply_map, nb::arg("epoch"), nb::arg("nodes"), nb::kw_only(),
           nb::arg("replicas") = 1, nb::arg("namespaces") = std::vector<Replicas>{},
           nb::arg("is_gap") = false)
      .def("set_lease", &BoundServer::set_lease, nb::arg("until_boottime_ms"))
      .def("reload_tls", &BoundServer::reload_tls)
      .def("tls_fault", &BoundServer::tls_fault)
      .def("set_rules", &BoundServer::set_rules, nb::arg("namespace"), nb::kw_only(),
           nb::arg("policy") = "lru", nb::arg("demote") = nb::none(), nb::arg("keep") = nb::none(),
           nb::arg("quota_bytes") = 0, nb::arg("disk_quota_bytes") = 0, nb::arg("ttl_s") = 0,
           nb::arg("pin_bytes_max") = nb::none(),
           nb::arg("eviction_class") = EVICTION_CLASS_DEFAULT)
      .def("set_tokens", &BoundServer::set_tokens, nb::arg("tokens"))
      .def("set_move_rate", &BoundServer::set_move_rate, nb::arg("bytes_per_s"))
      .def("set_nvme_rate", &BoundServer::set_nvme_rate, nb::arg("bytes_per_s"))
      .def("spaces", &BoundServer::spaces)
      .def("spread", &BoundServer::spread)
      .def("departures", &BoundServer::departures)
      .def("next_question", &BoundServer::next_question, nb::arg("timeout_ms"))
      .def("answer", &BoundServer::answer, nb::arg("number"), nb::arg("text"))
      .def("next_cases", &BoundServer::next_cases, nb::arg("timeout_ms"), nb::arg("count_max"))
      .def("give_verdicts", &BoundServer::give_verdicts, nb::arg("number"), nb::arg("verdicts"))
      .def("close_desk", &BoundServer::close_desk)
      .def("is_draining_wished", &BoundServer::is_draining_wished)
      .def("stop", &BoundServer::stop);
}

}  // namespace gd2fs::bindings
