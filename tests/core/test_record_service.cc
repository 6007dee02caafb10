#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <algorithm>
#include <functional>

#include "local_cluster.h"
#include "map_history.h"
#include "raw_peer.h"
#include "record_parts.h"

namespace gd2fs::testing {
namespace {

constexpr std::uint32_t CHUNK = 64 * KiB;
constexpr std::int64_t LONG_MS = 600'000;

/// Nodes that share one map, which the test changes as a membership would.
class Nodes {
 public:
  Nodes(std::size_t count, wire::Provider provider, std::uint8_t replicas) {
    map_.epoch = 1;
    map_.provider = provider;
    map_.replicas = replicas;
    map_.list_hash.fill(std::byte{7});
    map_.lease_ms = provider == wire::Provider::fixed ? 0 : 600'000;
    servers_.resize(count);
    for (std::size_t node = 0; node < count; ++node) {
      wire::MapNode entry;
      entry.id = node_id(name(node));
      entry.boot = provider == wire::Provider::fixed ? 0 : node + 1;
      addresses_.push_back("127.0.0.1:" + std::to_string(free_port()));
      entry.addresses = name(node) + "=" + addresses_.back();
      map_.nodes.push_back(entry);
    }
    for (std::size_t node = 0; node < count; ++node) start(node);
  }

  static std::string name(std::size_t node) { return "node-" + std::to_string(node); }

  void start(std::size_t node) {
    ServerOptions options = options_of(64 * MiB, name(node));
    options.listen = {addresses_[node]};
    options.map = map_;
    options.boot = ++last_boot_;
    options.threads = 1;
    servers_[node] = start_node(options);
    servers_[node]->set_lease(boottime_ms() + LONG_MS);
  }
  void stop(std::size_t node) { servers_[node] = nullptr; }
  Server& operator[](std::size_t node) { return *servers_[node]; }

  /// Of the next map, for all nodes that run.
  void change(const std::function<void(wire::Map&)>& how) {
    std::erase_if(map_.nodes, [](const auto& each) { return each.state == wire::NodeState::gone; });
    map_.epoch += 3;
    how(map_);
    for (const auto& server : servers_)
      if (server != nullptr) server->apply_map(map_, false);
  }
  wire::Map& map() { return map_; }

  RawPeer peer(std::size_t node) {
    RawPeer peer = RawPeer::greeted(*servers_[node], wire::StreamClass::node);
    peer.epoch = map_.epoch;
    return peer;
  }
  /// A path whose owners are these, home first.
  std::string path_of(const std::vector<std::size_t>& owners) const {
    const MapHistory history({}, map_, 0);
    for (std::size_t index = 0;; ++index) {
      const std::string path = "/ns/" + std::to_string(index);
      const std::vector<Member> placed = history.owners(path);
      bool is_it = placed.size() >= owners.size();
      for (std::size_t at = 0; is_it && at < owners.size(); ++at)
        is_it = placed[at].id == node_id(name(owners[at]));
      if (is_it) return path;
    }
  }

 private:
  wire::Map map_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::uint64_t last_boot_ = 0;
};

struct Seen {
  wire::ResponseItem answer;
  std::vector<wire::Segment> segments;
};

Seen look(RawPeer& peer, const std::string& path) {
  const Frame frame =
      peer.response(peer.ask(Op::meta, {file_piece(path, 0, 0, FILE_BYTES_MAX, 0)}));
  wire::TableReader table(frame.table);
  Seen seen;
  seen.answer = wire::decode_response(table, frame.header.items)->at(0);
  if (table.left() > 0) seen.segments = wire::decode_meta_body(table)->segments;
  return seen;
}

wire::ResponseItem create(RawPeer& peer, const std::string& path) {
  return peer.answer(Op::create, file_piece(path, 0, 0, CHUNK, 0));
}

wire::Item commit_of(const std::string& path, const wire::ResponseItem& seen, std::uint64_t tag,
                     std::uint64_t offset) {
  wire::Item item;
  item.name = path;
  item.gen = seen.gen;
  item.seen_seq = seen.seq;
  item.tag = tag;
  item.offset = offset;
  item.length = 1'000;
  return item;
}

wire::ResponseItem commit(RawPeer& peer, const std::string& path, const wire::ResponseItem& seen,
                          std::uint64_t tag, std::uint64_t offset) {
  return peer.answer(Op::commit, commit_of(path, seen, tag, offset));
}

/// What a request is answered once it is no longer told to come again.
wire::ResponseItem settled(const std::function<wire::ResponseItem()>& ask) {
  wire::ResponseItem answer;
  REQUIRE(eventually([&] { return (answer = ask()).status != Status::retry; }));
  return answer;
}

void leave(wire::Map& map, std::size_t node, wire::LeftBy how) {
  for (wire::MapNode& each : map.nodes) {
    if (each.id != node_id(Nodes::name(node))) continue;
    each.state = wire::NodeState::gone;
    each.left_by = how;
  }
}

/// Takes connections and answers nothing.
class Mute {
 public:
  Mute() {
    auto at = tcp::resolve({"127.0.0.1", 0});
    listener_ = std::move(*tcp::listen_at(at->front()));
  }
  std::string address() const { return tcp::address_text(tcp::local_address(listener_.get())); }

 private:
  tcp::Descriptor listener_;
};

TEST_CASE("a record outlives its home: its backup has it, and goes on in a new map") {
  Nodes nodes(2, wire::Provider::etcd, 2);
  const std::string path = nodes.path_of({0, 1});
  RawPeer home = nodes.peer(0);
  const auto made = settled([&] { return create(home, path); });
  const auto first = commit(home, path, made, 11, 0);
  REQUIRE(first.status == Status::ok);

  nodes.stop(0);
  RawPeer backup = nodes.peer(1);
  const Seen seen = look(backup, path);
  CHECK(seen.answer.gen == made.gen);
  REQUIRE(seen.segments.size() == 1);
  CHECK(seen.segments[0].tag == 11);
  CHECK(commit(backup, path, seen.answer, 12, 1'000).status == Status::retry);

  nodes.change([](wire::Map& map) { leave(map, 0, wire::LeftBy::lease_expired); });
  RawPeer after = nodes.peer(1);
  CHECK(commit(after, path, seen.answer, 12, 1'000).status == Status::ok);
  CHECK(look(after, path).segments.size() == 2);
}

TEST_CASE("a request of an older map gets the map, one of a newer map is to come again") {
  Nodes nodes(1, wire::Provider::etcd, 1);
  const std::string path = nodes.path_of({0});
  RawPeer before = nodes.peer(0);
  nodes.change([](wire::Map&) {});
  RawPeer peer = nodes.peer(0);
  REQUIRE(settled([&] { return create(peer, path); }).status == Status::ok);

  peer.epoch = 1;
  const auto id = peer.ask(Op::meta, {file_piece(path, 0, 0, 10, 0)});
  CHECK(peer.answers(id).at(0).status == Status::stale_map);
  const Frame told = peer.receive();
  CHECK(told.header.kind == Kind::map);
  CHECK(wire::decode_map(told.table)->epoch == nodes.map().epoch);
  peer.epoch = nodes.map().epoch + 1;
  CHECK(look(peer, path).answer.status == Status::retry);
}

TEST_CASE("without a lease a node says nothing about records, but all about pages") {
  Nodes nodes(1, wire::Provider::etcd, 1);
  const std::string path = nodes.path_of({0});
  RawPeer peer = nodes.peer(0);
  REQUIRE(settled([&] { return create(peer, path); }).status == Status::ok);
  REQUIRE(peer.put(page("here"), random_bytes(10, 1)) == Status::ok);

  nodes[0].set_lease(0);

  CHECK(look(peer, path).answer.status == Status::fenced);
  wire::Item unlink;
  unlink.name = path;
  CHECK(peer.answer(Op::unlink, unlink).status == Status::fenced);
  CHECK(peer.fetch(Op::get, {page("here", 10)}).answers[0].status == Status::ok);
  nodes[0].set_lease(boottime_ms() + LONG_MS);
  CHECK(look(peer, path).answer.status == Status::ok);
}

TEST_CASE("under a list, a home that comes back empty has its records from its backup") {
  Nodes nodes(2, wire::Provider::fixed, 2);
  const std::string path = nodes.path_of({0, 1});
  wire::ResponseItem made, first;
  {
    RawPeer home = nodes.peer(0);
    made = settled([&] { return create(home, path); });
    first = commit(home, path, made, 21, 0);
    REQUIRE(first.status == Status::ok);
  }
  nodes.stop(0);
  nodes.start(0);

  RawPeer home = nodes.peer(0);
  Seen seen;
  CHECK(eventually([&] { return (seen = look(home, path)).answer.status == Status::ok; }));
  CHECK(seen.answer.gen == made.gen);
  REQUIRE(seen.segments.size() == 1);
  CHECK(seen.segments[0].tag == 21);
  CHECK(settled([&] { return commit(home, path, seen.answer, 22, 0); }).status == Status::ok);
  RawPeer backup = nodes.peer(1);
  CHECK(look(backup, path).segments.at(0).tag == 22);
}

TEST_CASE("under a list, changes wait for an owner that is away, and reads do not") {
  Nodes nodes(2, wire::Provider::fixed, 2);
  const std::string path = nodes.path_of({0, 1});
  RawPeer home = nodes.peer(0);
  const auto made = settled([&] { return create(home, path); });
  REQUIRE(commit(home, path, made, 31, 0).status == Status::ok);

  nodes.stop(1);

  // The first may have reached it; once it is known to be down, none is even tried.
  CHECK(eventually(
      [&] { return commit(home, path, look(home, path).answer, 32, 0).status == Status::retry; }));
  CHECK(look(home, path).segments.at(0).tag == 31);

  nodes.start(1);
  CHECK(settled([&] { return commit(home, path, look(home, path).answer, 33, 500); }).status ==
        Status::ok);
  // It had nothing: so it was sent all of the record, not the change alone.
  RawPeer backup = nodes.peer(1);
  CHECK(look(backup, path).segments.size() == 2);
}

TEST_CASE("what waits for a backup when the map changes is not acknowledged, and not shown") {
  Mute mute;
  Nodes nodes(2, wire::Provider::etcd, 2);
  nodes.change([&](wire::Map& map) { leave(map, 1, wire::LeftBy::lease_expired); });
  nodes.change([&](wire::Map& map) {
    wire::MapNode silent;
    silent.id = node_id("mute");
    silent.boot = 77;
    silent.addresses = "mute=" + mute.address();
    map.nodes.push_back(silent);
    std::erase_if(map.nodes, [](const auto& each) { return each.state == wire::NodeState::gone; });
  });
  std::string path;
  const MapHistory history({}, nodes.map(), 0);
  for (std::size_t index = 0; path.empty(); ++index) {
    const std::string candidate = "/ns/" + std::to_string(index);
    if (history.owners(candidate).front().id == node_id("node-0")) path = candidate;
  }
  RawPeer peer = nodes.peer(0);

  const auto id = peer.ask(Op::create, {file_piece(path, 0, 0, CHUNK, 0)});
  peer.ask(Op::ping, {});  // it has taken the CREATE when it answers this
  REQUIRE(peer.response(peer.last_id).header.kind == Kind::response);
  nodes.change([](wire::Map& map) {
    for (wire::MapNode& each : map.nodes)
      if (each.id == node_id("mute")) each.state = wire::NodeState::gone;
  });

  const Status status = peer.answers(id).at(0).status;
  CHECK((status == Status::unknown || status == Status::stale_map));
  RawPeer after = nodes.peer(0);
  CHECK(look(after, path).answer.status != Status::ok);
}

TEST_CASE("no change is answered while a member of the map before may not know the new one") {
  Mute mute;
  Nodes nodes(1, wire::Provider::etcd, 1);
  const auto add = [&](wire::Map& map) {
    wire::MapNode silent;
    silent.id = node_id("mute");
    silent.boot = 77;
    silent.addresses = "mute=" + mute.address();
    map.nodes.push_back(silent);
  };
  nodes.change(add);
  nodes.change([](wire::Map& map) { map.nodes.back().weight = 2; });
  const std::string path = nodes.path_of({0});
  RawPeer peer = nodes.peer(0);

  const auto id = peer.ask(Op::create, {file_piece(path, 0, 0, CHUNK, 0)}, 0, 300);
  const Status waited = peer.answers(id).at(0).status;
  CHECK((waited == Status::expired || waited == Status::retry));

  // Taken out by someone, its lease may live on; that its lease is over is enough.
  nodes.change([](wire::Map& map) {
    map.nodes.back().state = wire::NodeState::gone;
    map.nodes.back().left_by = wire::LeftBy::lease_expired;
  });
  RawPeer after = nodes.peer(0);
  CHECK(settled([&] { return create(after, path); }).status == Status::ok);
}

TEST_CASE("records go to the homes that a new map gives them, without being asked for") {
  constexpr std::size_t FILES = 200;
  Nodes nodes(2, wire::Provider::etcd, 1);
  nodes.change([](wire::Map& map) { leave(map, 1, wire::LeftBy::lease_expired); });
  RawPeer peer = nodes.peer(0);
  for (std::size_t index = 0; index < FILES; ++index)
    REQUIRE(settled([&] { return create(peer, "/ns/" + std::to_string(index)); }).status ==
            Status::ok);
  REQUIRE(nodes[1].counts().records == 0);

  nodes.change([&](wire::Map& map) {
    wire::MapNode back;
    back.id = node_id("node-1");
    back.boot = 2;
    back.addresses = "node-1=" + nodes[1].addresses().front();
    map.nodes.push_back(back);
  });

  CHECK(eventually(
      [&] { return nodes[0].counts().records_left == 0 && nodes[1].counts().records_left == 0; }));
  const MapHistory history({}, nodes.map(), 0);
  std::size_t moved = 0;
  for (std::size_t index = 0; index < FILES; ++index) {
    const std::string path = "/ns/" + std::to_string(index);
    const bool is_there = history.owners(path).front().id == node_id("node-1");
    moved += is_there ? 1 : 0;
    RawPeer owner = nodes.peer(is_there ? 1 : 0);
    CHECK(look(owner, path).answer.status == Status::ok);
  }
  CHECK(moved > 0);
  CHECK(nodes[1].counts().records == moved);
}

TEST_CASE("under a list, nodes that come back empty in turn have all their records again") {
  constexpr std::size_t COUNT = 200;
  Nodes nodes(3, wire::Provider::fixed, 2);
  const MapHistory history({}, nodes.map(), 0);
  std::vector<std::size_t> records_of(3), home_of(COUNT);
  const auto path_of = [](std::size_t index) { return "/ns/" + std::to_string(index); };
  const auto owner = [&](std::size_t index, std::size_t rank) {
    const Member member = history.owners(path_of(index)).at(rank);
    for (std::size_t node = 0; node < 3; ++node)
      if (member.id == node_id(Nodes::name(node))) return node;
    return std::size_t{3};
  };
  for (std::size_t index = 0; index < COUNT; ++index) {
    home_of[index] = owner(index, 0);
    ++records_of[home_of[index]];
    ++records_of[owner(index, 1)];
    RawPeer home = nodes.peer(home_of[index]);
    REQUIRE(settled([&] { return create(home, path_of(index)); }).status == Status::ok);
  }
  for (std::size_t node = 0; node < 3; ++node) {
    nodes.stop(node);
    nodes.start(node);
    CHECK(eventually([&] {
      bool is_settled = nodes[node].counts().records == records_of[node];
      for (std::size_t each = 0; each < 3; ++each)
        is_settled = is_settled && nodes[each].counts().records_left == 0;
      return is_settled;
    }));
  }
  std::size_t found = 0;
  for (std::size_t index = 0; index < COUNT; ++index) {
    RawPeer home = nodes.peer(home_of[index]);
    const auto seen = settled([&] { return look(home, path_of(index)).answer; });
    found += seen.status == Status::ok ? 1 : 0;
  }
  CHECK(found == COUNT);
}

TEST_CASE("records outlast any number of maps that come before all of them have moved") {
  constexpr std::size_t COUNT = 2'000;
  Nodes nodes(3, wire::Provider::etcd, 2);
  std::map<std::string, std::size_t> home_of;
  const MapHistory history({}, nodes.map(), 0);
  for (std::size_t index = 0; index < COUNT; ++index) {
    const std::string path = "/ns/" + std::to_string(index);
    for (std::size_t node = 0; node < 3; ++node) {
      if (history.owners(path).front().id == node_id(Nodes::name(node))) home_of[path] = node;
    }
  }
  {
    std::vector<RawPeer> homes;
    for (std::size_t node = 0; node < 3; ++node) homes.push_back(nodes.peer(node));
    for (const auto& each : home_of)
      REQUIRE(settled([&] { return create(homes[each.second], each.first); }).status == Status::ok);
  }
  nodes.change([](wire::Map& map) { map.replicas = 3; });  // all of them have to go to one more
  for (std::size_t count = 0; count < 3 * MAPS_KEPT; ++count) nodes.change([](wire::Map&) {});
  std::size_t lost = 0;
  std::vector<RawPeer> homes;
  for (std::size_t node = 0; node < 3; ++node) homes.push_back(nodes.peer(node));
  for (const auto& [path, home] : home_of) {
    const auto seen = settled([&] { return look(homes[home], path).answer; });
    lost += seen.status == Status::ok ? 0 : 1;
  }
  CHECK(lost == 0);
}

TEST_CASE("a record of many ranges goes in parts, and is the same at the other end") {
  FullRecord full;
  full.is_there = true;
  full.record.chunk_bytes = CHUNK;
  full.record.gen = 5;
  full.record.version = {3, 2, 1};
  full.record.size = 40'000'000;
  full.record.size_most = 40'000'000;
  for (std::uint64_t at = 0; at < 20'000; ++at)
    full.record.spans.set(at * 2'000, at * 2'000 + 1'000, at + 1, at + 2);

  FullRecord copy;
  std::size_t parts = 0;
  for (std::optional<std::uint64_t> next = 0; next; ++parts) {
    wire::Bytes part;
    next = encode_part(part, full, *next);
    CHECK(part.size() <= TABLE_BYTES_MAX);
    wire::TableReader table(part);
    const auto is_last = decode_part(table, copy);
    REQUIRE(is_last.has_value());
    CHECK(*is_last == !next);
  }

  CHECK(parts == 3);
  CHECK(copy.record.gen == 5);
  CHECK(copy.record.version == full.record.version);
  CHECK(copy.record.spans.count() == 20'000);
  CHECK(copy.record.spans.first_after(39'998'000)->second.tag == 20'000);
  wire::Bytes part;
  encode_part(part, full, RANGES_PER_PART);
  wire::TableReader table(part);
  CHECK_FALSE(decode_part(table, copy).has_value());
}

/// What a node says to this record, as a home would send it.
Status replicate(RawPeer& peer, const FullRecord& full) {
  Replication attempt;
  attempt.version = full.record.version;
  attempt.full = std::make_shared<const FullRecord>(full);
  wire::Request request;
  request.head.op = Op::replicate;
  request.head.map_epoch = peer.epoch;
  request.items = {file_piece("/ns/f", 0, 0, 0, 0)};
  encode_attempt(request.body, attempt, 0);
  Bytes out;
  wire::encode_request(out, ++peer.last_id, 0, request);
  peer.send(out);
  return peer.answers(peer.last_id).at(0).status;
}

TEST_CASE("a record that cannot be is refused, and one of a later epoch") {
  Nodes nodes(2, wire::Provider::etcd, 2);
  RawPeer peer = nodes.peer(1);
  const auto with = [&](const std::function<void(FullRecord&)>& spoil) {
    FullRecord full;
    full.is_there = true;
    full.record.chunk_bytes = CHUNK;
    full.record.gen = 5;
    full.record.version = {peer.epoch, 1, 1};
    full.record.size = full.record.size_most = 1000;
    spoil(full);
    return replicate(peer, full);
  };

  CHECK(with([](auto& full) { full.record.replicas = 9; }) == Status::invalid);
  CHECK(with([](auto& full) { full.record.size_most = 999; }) == Status::invalid);
  CHECK(with([](auto& full) { full.record.size_most = FILE_BYTES_MAX + 1; }) == Status::invalid);
  CHECK(with([](auto& full) { full.expires_in_ms = std::int64_t{1} << 62; }) == Status::invalid);
  CHECK(with([](auto& full) { ++full.record.version.epoch; }) == Status::invalid);
  CHECK(with([](auto& full) { full.record.replicas = 8; }) == Status::ok);
}

}  // namespace
}  // namespace gd2fs::testing
