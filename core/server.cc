#include "server.h"

#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>

#include "janitor.h"
#include "mover.h"
#include "node.h"
#include "transport/tcp.h"
#include "transport/unix.h"
#include "worker.h"

namespace gd2fs {

using serve::ArenaRdma;
using serve::Counters;
using serve::Janitor;
using serve::Node;
using serve::Worker;

struct Server::State {
  State(const ServerOptions& options, std::unique_ptr<Store> store, tls::ContextPtr tls,
        ArenaRdma rdma)
      : node(options, std::move(store), std::move(tls), std::move(rdma)), janitor(node) {}
  ~State();

  Result<bool> listen();
  void listen_locally();
  void listen_on(tcp::Descriptor listener);
  void start();
  void accepted(tcp::Descriptor socket, const tcp::Address& peer);

  Node node;
  Janitor janitor;
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::string> addresses;
  std::string socket_name;
  std::string socket_fault;
  std::vector<std::string> absent;
  Recovery recovery;
};

namespace {

constexpr std::size_t THREADS_MAX = 256;
// To those who are not let in: in a moment it may be otherwise.
constexpr std::string_view FULL = "the node has as many connections as it may";
constexpr std::string_view TOO_MANY = "too many connections have not proven themselves yet";
constexpr std::string_view TOO_FAST = "too many connections of this source came to nothing";

/// What strangers are counted by: an address, of IPv6 its network of 64 bits, or a user.
std::string source_of(int fd, const tcp::Address& peer) {
  if (const auto local = local::peer_of(fd)) return "uid " + std::to_string(local->uid);
  if (peer.family() != AF_INET6) return tcp::host_text(peer);
  tcp::Address network = peer;
  auto* const six = reinterpret_cast<sockaddr_in6*>(&network.storage);  // by its family
  if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) return tcp::host_text(peer);
  std::fill_n(six->sin6_addr.s6_addr + 8, 8, std::uint8_t{0});
  return tcp::host_text(network);
}

// The record of TLS's alert internal_error, for who is turned away before its handshake.
constexpr std::byte ALERT[] = {std::byte{21}, std::byte{3}, std::byte{3}, std::byte{0},
                               std::byte{2},  std::byte{2}, std::byte{80}};

/// One line to someone who is not let in; under TLS an alert. Best effort: its socket buffer is
/// empty, so this fits or nothing does.
void turn_away(int fd, std::string_view reason, bool is_tls) {
  wire::Bytes out;
  if (is_tls) {
    out.assign(std::begin(ALERT), std::end(ALERT));
  } else {
    wire::encode_goodbye(out, reason, wire::MORE);
  }
  static_cast<void>(!send(fd, out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

struct Listeners {
  std::vector<tcp::Descriptor> sockets;
  std::vector<std::string> absent;  // addresses that the machine does not have yet
};

Result<Listeners> listeners_at(const ServerOptions& options) {
  Listeners listeners;
  for (const std::string& text : options.listen) {
    auto target = tcp::parse_host_port(text);
    if (!target) return target.error();
    auto resolved = tcp::resolve(*target);
    if (!resolved) return resolved.error();
    if (resolved->empty()) return Error{"`" + text + "` has no address", "name an address to bind"};
    const bool is_absent = tcp::bind_fault(resolved->front()) == EADDRNOTAVAIL;
    if (is_absent) listeners.absent.push_back(text);
    const bool is_hopeless = listeners.absent.size() == options.listen.size();
    auto listener = tcp::listen_at(resolved->front(), options.sockets, is_absent && !is_hopeless);
    if (!listener) return listener.error();
    listeners.sockets.push_back(std::move(*listener));
  }
  return listeners;
}

Result<ArenaRdma> open_arena_rdma(const ServerOptions& options, bool is_tls,
                                  std::span<std::byte> arena) {
  auto side = open_rdma(options.rdma, is_tls);
  if (!side) return side.error();
  if (side->context == nullptr) return ArenaRdma{nullptr, nullptr, side->lack};
  auto memory = side->context->register_memory(arena);
  if (memory) return ArenaRdma{side->context, std::move(*memory), ""};
  if (options.rdma.use == Rdma::on) return memory.error();
  return ArenaRdma{nullptr, nullptr, memory.error().message};
}

Result<bool> check(const ServerOptions& options) {
  if (options.listen.empty()) {
    return Error{"no address to listen on", "give at least one `ADDR:PORT`"};
  }
  if (Error fault = tcp::settings_fault(options.sockets); !fault.message.empty()) return fault;
  if (options.move_bytes_per_s == 0 || options.move_bytes_on_way == 0) {
    return Error{"no bytes may be moved between nodes", "choose 1 byte a second or more"};
  }
  if (options.tls.is_on() && options.tls.cert.empty()) {
    return Error{"a node needs a certificate for TLS", "give `--tls-cert` and `--tls-key`"};
  }
  if (options.threads == 0 || options.threads > THREADS_MAX) {
    return Error{std::to_string(options.threads) + " threads",
                 "choose 1 to " + std::to_string(THREADS_MAX)};
  }
  if (options.tokens.size() > TOKENS_MAX) {
    return Error{std::to_string(options.tokens.size()) + " tokens",
                 "a node knows at most " + std::to_string(TOKENS_MAX)};
  }
  if (options.cluster.size() > CLUSTER_BYTES_MAX || options.name.size() > NODE_NAME_BYTES_MAX ||
      options.map.nodes.size() > NODES_MAX) {
    return Error{"the name of the cluster or the node, or the list of nodes, is too long",
                 "names have at most 128 bytes, a cluster at most 1024 nodes"};
  }
  return true;
}

}  // namespace

Server::State::~State() {
  node.is_stopping.store(true, std::memory_order_relaxed);
  node.settings_desk.close();
  node.judge.close();
  node.mover->stop();
  for (const auto& worker : workers) worker->stop();
  janitor.stop();
  // Nobody changes anything any more. What is loaded now is told to workers, so they still exist.
  node.store->stop_tier(std::chrono::milliseconds(node.options.stop_write_ms));
  node.record_service.close();
  node.peers.close();
  if (node.record_log != nullptr) node.record_log->close();
}

Result<bool> Server::State::listen() {
  for (std::size_t index = 0; index < node.options.threads; ++index) {
    const numa::Node* near = numa::node_of_thread(node.options.store.numa, index);
    workers.push_back(std::make_unique<Worker>(node, janitor, near));
  }
  auto listeners = listeners_at(node.options);
  if (!listeners) return listeners.error();
  absent = std::move(listeners->absent);
  for (tcp::Descriptor& listener : listeners->sockets) {
    addresses.push_back(tcp::address_text(tcp::local_address(listener.get())));
    listen_on(std::move(listener));
  }
  listen_locally();
  return true;
}

void Server::State::listen_on(tcp::Descriptor listener) {
  workers.front()->listen_on(std::move(listener),
                             [this](tcp::Descriptor socket, const tcp::Address& peer) {
                               accepted(std::move(socket), peer);
                             });
}

/// Also without this socket the node serves, over TCP.
void Server::State::listen_locally() {
  const auto& nodes = node.options.map.nodes;
  const auto me = std::find_if(nodes.begin(), nodes.end(),
                               [this](const wire::MapNode& each) { return each.id == node.id; });
  if (me == nodes.end()) return;
  const std::string name =
      local::socket_name(node.options.cluster, node.options.map.list_hash, me->addresses);
  auto listener = local::listen_at(name);
  if (!listener) {
    socket_fault = listener.error().message;
    return;
  }
  socket_name = name;
  listen_on(std::move(*listener));
}

void Server::State::start() {
  janitor.start();
  for (const auto& worker : workers) worker->start();
}

/// Runs in the first worker; hands the connection to the one with the fewest.
void Server::State::accepted(tcp::Descriptor socket, const tcp::Address& peer) {
  std::size_t all = 0;
  for (const auto& worker : workers) all += worker->load();
  std::string host = source_of(socket.get(), peer);
  const bool is_full = all >= CONNECTIONS_MAX;
  const auto refusal = is_full ? Refusal::too_many : node.strangers.enter(host, boottime_ms());
  if (refusal) {
    node.counters.refuse(*refusal);
    const bool is_fast = *refusal == Refusal::rate;
    return turn_away(socket.get(),
                     is_full   ? FULL
                     : is_fast ? TOO_FAST
                               : TOO_MANY,
                     node.tls != nullptr && !local::peer_of(socket.get()));
  }
  Counters::add(node.counters.accepted);
  const auto least = std::min_element(workers.begin(), workers.end(),
                                      [](auto& a, auto& b) { return a->load() < b->load(); });
  (*least)->adopt(std::move(socket), std::move(host));
}

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options) {
  if (auto checked = check(options); !checked) return checked.error();
  tls::ContextPtr secured;
  if (options.tls.is_on()) {
    auto opened = tls::Context::open(options.tls);
    if (!opened) return opened.error();
    secured = std::move(*opened);
  }
  StoreOptions store_options = options.store;
  store_options.cluster = options.cluster;
  store_options.node_name = options.name;
  store_options.boot = options.boot;
  store_options.arena.is_shared = options.is_shared;
  if (!options.is_traceable) prctl(PR_SET_DUMPABLE, 0);
  auto store = Store::open(store_options);
  if (!store) return store.error();
  auto rdma = open_arena_rdma(options, secured != nullptr, (*store)->arena().memory());
  if (!rdma) return rdma.error();
  auto state =
      std::make_unique<State>(options, std::move(*store), std::move(secured), std::move(*rdma));
  state->recovery.arena = state->node.store->recovery();
  if (auto kept = restore_records(state->node, state->recovery.records); !kept) return kept.error();
  if (auto listening = state->listen(); !listening) return listening.error();
  state->start();
  state->node.announce();
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}
Server::~Server() = default;

std::vector<std::string> Server::addresses() const { return state_->addresses; }
std::vector<std::string> Server::absent() const { return state_->absent; }
numa::Spread Server::spread() const { return state_->node.store->spread(); }
std::string Server::rung_name() const { return state_->node.store->arena().rung_name(); }
bool Server::is_sealed() const { return state_->node.store->arena().is_sealed(); }
const std::string& Server::socket_name() const { return state_->socket_name; }
const std::string& Server::socket_fault() const { return state_->socket_fault; }
const std::string& Server::rdma_lack() const { return state_->node.rdma.lack; }
const Recovery& Server::recovery() const { return state_->recovery; }
ServerCounts Server::counts() const { return state_->node.counts(); }
ServerTally Server::tally() const { return state_->node.tally(); }
serve::SlowRequests::Taken Server::take_slow() { return state_->node.slow.take(); }
void Server::set_slow(std::uint32_t limit_ms) { state_->node.slow.set_limit(limit_ms); }
serve::KeyTrace& Server::key_trace() { return state_->node.key_trace; }
ServerCurves Server::curves() const { return state_->node.told_curves(); }
void Server::set_curves(bool is_on) { state_->node.curves.set(is_on); }

void Server::apply_map(wire::Map map, bool is_gap) {
  if (!state_->node.take_map(std::move(map), is_gap)) return;
  for (const auto& worker : state_->workers) worker->tell_map();
}

void Server::set_tokens(const std::vector<serve::KnownToken>& tokens) {
  state_->node.take_tokens(tokens);
  for (const auto& worker : state_->workers) worker->look_at_tokens();
}

void Server::set_lease(std::int64_t until_ms) { state_->node.lease.set(until_ms); }

Status Server::set_rules(std::string_view name_space, const NamespaceRules& rules) {
  state_->node.tallies.book.reserve(name_space);
  return state_->node.store->set_rules(name_space, rules);
}

std::vector<Store::SpaceCounts> Server::spaces() const { return state_->node.store->spaces(); }

std::vector<DepartureGroup> Server::departures(std::size_t groups_max) const {
  return state_->node.store->departures().recent(groups_max);
}

void Server::set_move_rate(std::uint64_t bytes_per_s) {
  state_->node.move_bytes_per_s.store(std::max<std::uint64_t>(bytes_per_s, 1));
}

void Server::set_nvme_rate(std::uint64_t bytes_per_s) {
  state_->node.store->set_disk_rate(bytes_per_s);
}

Error Server::reload_tls() {
  return state_->node.tls == nullptr ? Error{} : state_->node.tls->reload();
}

std::string Server::tls_fault() const {
  return state_->node.tls == nullptr ? "" : state_->node.tls->reload_fault();
}

Judge& Server::judge() { return state_->node.judge; }

Desk& Server::settings_desk() { return state_->node.settings_desk; }

bool Server::is_draining_wished() const { return state_->node.is_draining_wished.load(); }

}  // namespace gd2fs
