#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_disk.h"
#include "move_plan.h"
#include "moving_cluster.h"
#include "raw_peer.h"

namespace gd2fs {
namespace {

using testing::RawPeer;
using wire::Op;

constexpr std::size_t PAGE_BYTES = 8 * KiB;
constexpr std::size_t PAGES = 400;

std::string name_of(std::size_t number) {
  return page_name("pages", "key-" + std::to_string(number));
}

wire::Item page_item(std::size_t number, std::uint64_t length = PAGE_BYTES) {
  wire::Item item;
  item.name = name_of(number);
  item.flags = wire::ITEM_PAGE;
  item.length = length;
  item.tag = 5;
  return item;
}

/// The nodes as a reader sees them that asks each of them once.
class Asker {
 public:
  explicit Asker(MovingCluster& cluster) : cluster_(cluster) {}

  RawPeer& node(std::size_t at) {
    auto found = peers_.find(at);
    if (found == peers_.end())
      found = peers_.emplace(at, RawPeer::greeted(cluster_.server(at))).first;
    return found->second;
  }
  void put(std::size_t at, std::size_t number, std::uint64_t bytes = PAGE_BYTES) {
    const Status put = node(at).put(page_item(number, bytes), random_bytes(bytes, number));
    REQUIRE((put == Status::ok || put == Status::have));  // another node may have brought it
  }
  /// ok only with the right bytes.
  Status get(std::size_t at, std::size_t number, std::uint64_t bytes = PAGE_BYTES) {
    const testing::Fetched fetched = node(at).fetch(Op::get, {page_item(number, bytes)});
    if (fetched.answers.at(0).status == Status::ok)
      CHECK(fetched.bodies.at(0) == random_bytes(bytes, number));
    return fetched.answers.at(0).status;
  }
  /// Says how many of the pages one of their owners does not have.
  std::size_t missing(std::size_t count = PAGES) {
    std::size_t missing = 0;
    for (std::size_t number = 0; number < count; ++number)
      for (const std::size_t at : cluster_.owners(name_of(number)))
        missing += get(at, number) == Status::ok ? 0 : 1;
    return missing;
  }

 private:
  MovingCluster& cluster_;
  std::map<std::size_t, RawPeer> peers_;
};

void fill(MovingCluster& cluster, std::size_t count = PAGES) {
  Asker asker(cluster);
  for (std::size_t number = 0; number < count; ++number)
    for (const std::size_t at : cluster.owners(name_of(number))) asker.put(at, number);
}

TEST_CASE("three nodes become four: every page is at its owner, and no more moves than has to") {
  MovingCluster cluster(4, 3, 1);
  fill(cluster);
  cluster.add(3);
  cluster.start(3);
  cluster.apply();
  REQUIRE(cluster.is_settled());
  CHECK(Asker(cluster).missing() == 0);
  std::size_t of_new = 0;
  for (std::size_t number = 0; number < PAGES; ++number)
    of_new += cluster.owners(name_of(number)).front() == 3 ? 1 : 0;
  CHECK(of_new > PAGES / 8);
  CHECK(cluster.sum(&ServerCounts::moved) == of_new);
  CHECK(cluster.sum(&ServerCounts::moved_bytes) == of_new * PAGE_BYTES);
  // The copies at the former owners go.
  CHECK(eventually([&] { return cluster.pages() == PAGES; }));
  CHECK(Asker(cluster).missing() == 0);
}

TEST_CASE("a node that is drained ends with nothing, and the others have everything") {
  MovingCluster cluster(3, 3, 2);
  fill(cluster);
  cluster.drain(1);
  cluster.apply();
  REQUIRE(cluster.is_settled());
  CHECK(Asker(cluster).missing() == 0);
  CHECK(eventually([&] { return cluster.server(1).counts().store.pages == 0; }));
  cluster.stop(1);
  cluster.remove(1);
  cluster.apply();
  REQUIRE(cluster.is_settled());
  CHECK(Asker(cluster).missing() == 0);
  CHECK(cluster.pages() == 2 * PAGES);
}

TEST_CASE("a node is lost: there are two copies of everything again, each sent once") {
  MovingCluster cluster(4, 4, 2);
  fill(cluster);
  const std::uint64_t lost = cluster.server(2).counts().store.pages;
  cluster.stop(2);
  cluster.remove(2);
  cluster.apply();
  REQUIRE(cluster.is_settled());
  CHECK(Asker(cluster).missing() == 0);
  CHECK(cluster.pages() == 2 * PAGES);
  CHECK(cluster.sum(&ServerCounts::moved) == lost);
}

TEST_CASE("a node that comes back empty under its name gets its copies again") {
  MovingCluster cluster(3, 3, 2);
  fill(cluster);
  cluster.stop(0);
  cluster.entry(0).boot += 1'000;
  ServerOptions options = cluster.options_of(0);
  options.boot = cluster.entry(0).boot;
  cluster.start(0, options);
  cluster.apply();
  REQUIRE(cluster.is_settled());
  CHECK(Asker(cluster).missing() == 0);
}

TEST_CASE("a node of a list comes back empty: it gets its copies, and what others kept for it") {
  MovingCluster cluster(3, 3, 2, 64 * MiB, wire::Provider::fixed);
  fill(cluster);
  cluster.stop(0);
  std::size_t count = PAGES;
  {
    Asker asker(cluster);  // what is written meanwhile is at the next one of its order
    for (; count < PAGES + 50; ++count) {
      asker.put(1, count);
      asker.put(2, count);
    }
  }
  ServerOptions options = cluster.options_of(0);
  options.boot += 1'000;
  cluster.start(0, options);
  CHECK(eventually([&] { return cluster.pages() == 2 * count; }));
  CHECK(Asker(cluster).missing(count) == 0);
  CHECK(cluster.is_settled());
}

TEST_CASE("a node of a list that was away while another one began anew is told of it later") {
  MovingCluster cluster(3, 3, 3, 64 * MiB, wire::Provider::fixed);
  fill(cluster);
  cluster.stop(0);
  ServerOptions options = cluster.options_of(0);
  options.boot += 1'000;
  const ServerOptions other = cluster.options_of(1);
  cluster.stop(1);
  cluster.stop(2);
  cluster.start(0, options);
  {
    Asker asker(cluster);
    for (std::size_t number = 0; number < PAGES; ++number) asker.put(0, number);
  }
  cluster.start(1, other);
  cluster.start(2);
  CHECK(eventually([&] { return cluster.pages() == 3 * PAGES; }));
  CHECK(Asker(cluster).missing() == 0);
}

TEST_CASE("an owner that a writer has passed over gets its copy, and who stood in for it lets go") {
  MovingCluster cluster(3, 3, 2);
  {
    Asker asker(cluster);
    for (std::size_t number = 0; number < PAGES; ++number) {
      const std::vector<std::size_t> owners = cluster.owners(name_of(number));
      const std::size_t other = 3 - owners[0] - owners[1];
      wire::Item item = page_item(number);
      item.flags |= wire::ITEM_SHORT;
      for (const std::size_t at : {owners[0], other}) {
        const Status put = asker.node(at).put(item, random_bytes(PAGE_BYTES, number));
        REQUIRE((put == Status::ok || put == Status::have));
      }
    }
  }
  CHECK(eventually([&] { return cluster.pages() == 2 * PAGES; }));
  REQUIRE(cluster.is_settled());
  CHECK(Asker(cluster).missing() == 0);
}

TEST_CASE("a node of a list whose clock was set back gets its copies again") {
  MovingCluster cluster(2, 2, 2, 64 * MiB, wire::Provider::fixed);
  fill(cluster);
  for (const std::uint64_t later : {1'000u, 500u}) {
    cluster.stop(0);
    ServerOptions options = cluster.options_of(0);
    options.boot += later;
    cluster.start(0, options);
    CHECK(eventually([&] { return cluster.pages() == 2 * PAGES; }));
  }
}

TEST_CASE("more copies and fewer copies, by the map") {
  MovingCluster cluster(3, 3, 1);
  fill(cluster);
  cluster.set_replicas(3);
  cluster.apply();
  REQUIRE(cluster.is_settled());
  CHECK(cluster.pages() == 3 * PAGES);
  cluster.set_replicas(2);
  cluster.apply();
  REQUIRE(cluster.is_settled());
  CHECK(eventually([&] { return cluster.pages() == 2 * PAGES; }));
  CHECK(Asker(cluster).missing() == 0);
}

TEST_CASE("maps that follow each other while the walk runs") {
  MovingCluster cluster(4, 2, 1);
  fill(cluster);
  cluster.add(2, 1);
  cluster.add(3, 1);
  cluster.start(2);
  cluster.start(3);
  for (std::uint32_t weight = 1; weight <= MovingCluster::WEIGHT; weight *= 2) {
    cluster.entry(2).weight = cluster.entry(3).weight = weight;
    cluster.apply();
  }
  cluster.drain(0);
  cluster.apply();
  REQUIRE(cluster.is_settled());
  CHECK(Asker(cluster).missing() == 0);
  CHECK(eventually([&] { return cluster.pages() == PAGES; }));
}

TEST_CASE("a page that came by an older map goes on to where it belongs") {
  MovingCluster cluster(2, 1, 1);
  cluster.add(1);
  cluster.start(1);
  cluster.apply();
  REQUIRE(cluster.is_settled());
  std::size_t number = 0;
  while (cluster.owners(name_of(number)).front() != 1) ++number;
  RawPeer writer = RawPeer::greeted(cluster.server(0));
  wire::Request request;
  request.head.op = Op::offer;
  request.head.map_epoch = 1;
  request.items.push_back(page_item(number));
  wire::Bytes out;
  wire::encode_request(out, ++writer.last_id, wire::EAGER, request);
  writer.send(out);
  writer.send_body(writer.last_id, 0, random_bytes(PAGE_BYTES, number));
  REQUIRE(writer.answers(writer.last_id).at(0).status == Status::ok);
  CHECK(!cluster.server(0).counts().is_settled);
  REQUIRE(cluster.is_settled());
  CHECK(Asker(cluster).get(1, number) == Status::ok);
}

// ---- files ---------------------------------------------------------------------------

constexpr std::uint64_t TAG = 77;
constexpr std::uint64_t PIECE_BYTES = 300 * KiB;

wire::Item piece_item(std::size_t number, std::uint64_t chunk) {
  wire::Item item;
  item.name = "/files/file-" + std::to_string(number);
  item.chunk = chunk;
  item.offset = 4 * KiB;
  item.length = PIECE_BYTES;
  item.tag = TAG + number;
  return item;
}

TEST_CASE("pieces of files move with their place, and are live where they arrive") {
  constexpr std::size_t FILES = 12;
  MovingCluster cluster(3, 2, 1);
  {
    Asker asker(cluster);
    for (std::size_t number = 0; number < FILES; ++number) {
      const wire::Item item = piece_item(number, number % 3);
      RawPeer& owner = asker.node(cluster.owners(std::string(item.name), item.chunk).front());
      REQUIRE(owner.put(item, random_bytes(PIECE_BYTES, number)) == Status::ok);
      wire::Item publish = item;
      publish.offset = 9;
      REQUIRE(owner.answer(Op::publish, publish).status == Status::ok);
    }
  }
  cluster.add(2);
  cluster.start(2);
  cluster.apply();
  REQUIRE(cluster.is_settled());
  CHECK(cluster.server(2).counts().store.pieces > 0);
  Asker asker(cluster);
  for (std::size_t number = 0; number < FILES; ++number) {
    wire::Item item = piece_item(number, number % 3);
    RawPeer& owner = asker.node(cluster.owners(std::string(item.name), item.chunk).front());
    for (const std::uint64_t tag : {item.tag, std::uint64_t{0}}) {  // 0: the latest that is live
      item.tag = tag;
      const testing::Fetched fetched = owner.fetch(Op::read, {item});
      REQUIRE(fetched.answers.at(0).status == Status::ok);
      CHECK(fetched.answers.at(0).seq == 9);
      CHECK(fetched.bodies.at(0) == random_bytes(PIECE_BYTES, number));
    }
  }
}

// ---- advice --------------------------------------------------------------------------

TEST_CASE("advice: copies for those who will read, and one less") {
  MovingCluster cluster(3, 3, 1);
  Asker asker(cluster);
  const std::size_t owner = cluster.owners(name_of(0)).front();
  asker.put(owner, 0);
  wire::Item item = page_item(0, 0);
  item.tag = 0;
  item.sink = 3;
  const wire::ResponseItem more = asker.node(owner).answer(Op::advise, item);
  CHECK(more.status == Status::ok);
  CHECK(more.length == PAGE_BYTES);
  for (std::size_t at = 0; at < 3; ++at) CHECK(asker.get(at, 0) == Status::ok);
  CHECK(asker.node(owner).answer(Op::advise, page_item(1, 0)).status == Status::miss);

  // Its copies are three from now on, whoever changes.
  cluster.entry(owner).weight += 1;
  cluster.apply();
  REQUIRE(cluster.is_settled());
  CHECK(cluster.pages() == 3);

  item.sink = 0;
  item.flags |= wire::ITEM_DONTNEED;
  CHECK(Asker(cluster).node(owner).answer(Op::advise, item).status == Status::have);
  CHECK(Asker(cluster).get(owner, 0) == Status::ok);
}

TEST_CASE("advice about a node that cannot be reached is answered all the same") {
  MovingCluster cluster(2, 2, 1);
  Asker asker(cluster);
  std::size_t number = 0;
  while (cluster.owners(name_of(number)).front() != 0) ++number;
  asker.put(0, number);
  cluster.stop(1);
  wire::Item item = page_item(number, 0);
  item.sink = 2;
  const auto answers = asker.node(0).answers(asker.node(0).ask(Op::advise, {item}, 0, 5'000));
  CHECK(answers.at(0).status == Status::unavailable);
}

// ---- faults --------------------------------------------------------------------------

TEST_CASE("a target that does not answer holds nobody up, and gets its pages once it does") {
  MovingCluster cluster(4, 2, 1);
  fill(cluster);
  cluster.add(2);
  cluster.add(3);
  cluster.start(2);  // 3 is in the map, and not there
  cluster.apply();
  std::size_t of_third = 0;
  for (std::size_t number = 0; number < PAGES; ++number)
    of_third += cluster.owners(name_of(number)).front() == 2 ? 1 : 0;
  CHECK(eventually([&] { return cluster.server(2).counts().store.pages == of_third; }));
  CHECK(cluster.sum(&ServerCounts::moves_left) > 0);
  cluster.start(3);
  REQUIRE(cluster.is_settled());
  CHECK(Asker(cluster).missing() == 0);
}

/// Changes a byte of a page where it lies, in an arena that is a file.
void spoil(const std::string& path, std::span<const std::byte> content) {
  const int file = open(path.c_str(), O_RDWR);
  REQUIRE(file >= 0);
  const off_t bytes = lseek(file, 0, SEEK_END);
  void* const at =
      mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  REQUIRE(at != MAP_FAILED);
  const std::span arena(static_cast<std::byte*>(at), static_cast<std::size_t>(bytes));
  const auto found = std::search(arena.begin(), arena.end(), content.begin(), content.end());
  REQUIRE(found != arena.end());
  found[17] ^= std::byte{1};
  munmap(at, static_cast<std::size_t>(bytes));
  close(file);
}

TEST_CASE("a copy that has changed in memory is not spread, and not kept") {
  const std::string path = "/dev/shm/gd2fs-test-mover-" + std::to_string(getpid());
  MovingCluster cluster(2, 1, 1);
  cluster.stop(0);
  ServerOptions options = cluster.options_of(0);
  options.store.arena.rung = Rung::file;
  options.store.arena.path = path;
  cluster.start(0, options);
  fill(cluster, 40);
  cluster.add(1);
  std::size_t number = 0;  // it is to go to the other node
  while (cluster.owners(name_of(number)).front() != 1) ++number;
  REQUIRE(number < 40);
  spoil(path, random_bytes(PAGE_BYTES, number));
  cluster.start(1);
  cluster.apply();
  REQUIRE(cluster.is_settled());
  CHECK(cluster.server(0).counts().store.corrupt_pieces == 1);
  CHECK(cluster.server(1).counts().corrupt_in >= 1);
  Asker asker(cluster);
  CHECK(asker.missing(40) == 1);
  CHECK(asker.get(0, number) == Status::miss);
  CHECK(asker.get(1, number) == Status::miss);
  cluster.stop(0);
  unlink(path.c_str());
}

TEST_CASE("moves keep to the rate that they are allowed") {
  constexpr std::size_t COUNT = 256;  // 2 MiB
  MovingCluster cluster(2, 1, 1);
  cluster.stop(0);
  ServerOptions options = cluster.options_of(0);
  options.move_bytes_per_s = 2 * MiB;
  cluster.start(0, options);
  fill(cluster, COUNT);
  cluster.add(1);
  cluster.drain(0);
  cluster.start(1);
  const auto began = std::chrono::steady_clock::now();
  cluster.apply();
  REQUIRE(cluster.is_settled());
  const auto took = std::chrono::steady_clock::now() - began;
  CHECK(cluster.sum(&ServerCounts::moved) == COUNT);
  CHECK(took > std::chrono::milliseconds(500));  // a limit is no promise of speed: only too fast
                                                 // is wrong
  CHECK(Asker(cluster).missing(COUNT) == 0);
}

TEST_CASE("a small target that is full keeps what was used later, and nothing waits for it") {
  constexpr std::size_t SMALL = 16 * MiB;
  constexpr std::uint64_t BYTES = 256 * KiB;
  MovingCluster cluster(2, 1, 1);
  Asker asker(cluster);
  for (std::size_t number = 0; number < 80; ++number) asker.put(0, number, BYTES);
  cluster.add(1, 1'000'000);  // nearly all is to go there
  ServerOptions options = cluster.options_of(1);
  options.store.arena.bytes = SMALL;
  cluster.start(1, options);
  for (std::size_t number = 1'000; number < 1'100; ++number) asker.put(1, number, BYTES);
  const std::uint64_t before = cluster.server(1).counts().store.evicted_pieces;
  CHECK(before > 0);
  cluster.apply();
  REQUIRE(cluster.is_settled());
  // What came was older than all that is there; the newest of these is among those that stay.
  CHECK(Asker(cluster).get(1, 1'099, BYTES) == Status::ok);
  for (std::size_t number = 0; number < 80; ++number) {
    Asker reader(cluster);
    const bool is_somewhere =
        reader.get(0, number, BYTES) == Status::ok || reader.get(1, number, BYTES) == Status::ok;
    CHECK(is_somewhere);
  }
}

/// Two nodes with the same pages, most of them on disk alone, and a third that is yet to come.
struct TieredMovers {
  static constexpr std::uint64_t BYTES = 256 * KiB;
  static constexpr std::size_t COUNT = 80;
  MovingCluster cluster{3, 2, 2};
  std::shared_ptr<FakePlatter> platters[2];

  TieredMovers() {
    for (const std::size_t at : {0u, 1u}) {
      platters[at] = std::make_shared<FakePlatter>();
      ServerOptions options = cluster.options_of(at);
      options.store.arena.bytes = COUNT * BYTES / 3;
      options.store.tier.disk.places = {{"nowhere", 1 * GiB}};
      options.store.tier.open_disk = [platter = platters[at]](const DiskOptions&,
                                                              const Disk::Visit& visit) {
        auto opened = std::make_unique<FakeDisk>(platter);
        opened->visit_all(visit);
        return Result<std::unique_ptr<Disk>>(std::move(opened));
      };
      cluster.stop(at);
      cluster.start(at, options);
    }
    put_all(0);
    put_all(1);
    cluster.add(2);
    cluster.start(2);
  }

  void put_all(std::size_t at) {
    Asker asker(cluster);
    for (std::size_t number = 0; number < COUNT; ++number)
      REQUIRE(eventually([&] {  // a node that is busy with its disk says so
        const Status put =
            asker.node(at).put(page_item(number, BYTES), random_bytes(BYTES, number));
        return put == Status::ok || put == Status::have;
      }));
  }
  std::uint64_t reads() const { return platters[0]->reads + platters[1]->reads; }
  std::uint64_t moved() {
    return cluster.server(0).counts().moved + cluster.server(1).counts().moved;
  }
};

TEST_CASE("what is on disk is not read for a move to a node that has it") {
  TieredMovers movers;
  movers.put_all(2);
  REQUIRE(movers.cluster.server(0).counts().store.cold_pieces > TieredMovers::COUNT / 2);
  REQUIRE(movers.reads() == 0);

  movers.cluster.apply();
  REQUIRE(movers.cluster.is_settled());

  CHECK(movers.moved() == 0);
  CHECK(movers.reads() == 0);
}

TEST_CASE("what is on disk is read for a move to a node that wants it") {
  TieredMovers movers;

  movers.cluster.apply();
  REQUIRE(movers.cluster.is_settled());

  Asker reader(movers.cluster);
  std::size_t wanted = 0;
  for (std::size_t number = 0; number < TieredMovers::COUNT; ++number) {
    const auto owners = movers.cluster.owners(name_of(number));
    if (std::find(owners.begin(), owners.end(), 2u) == owners.end()) continue;
    ++wanted;
    CHECK(reader.get(2, number, TieredMovers::BYTES) == Status::ok);
  }
  CHECK(wanted > 10);
  CHECK(movers.moved() >= wanted);
  CHECK(movers.reads() > 0);
}

TEST_CASE("a node that is stopped in the middle of its moves stops") {
  MovingCluster cluster(2, 1, 1);
  fill(cluster, PAGES);
  cluster.stop(0);
  ServerOptions options = cluster.options_of(0);
  options.move_bytes_per_s = 64 * KiB;  // it would take a minute
  cluster.start(0, options);
  fill(cluster, PAGES);
  cluster.add(1);
  cluster.start(1);
  cluster.apply();
  REQUIRE(eventually([&] { return cluster.sum(&ServerCounts::moved) > 0; }));
  CHECK(cluster.server(0).counts().moves_left > 0);
  cluster.stop(0);
  CHECK(cluster.server(1).counts().store.pages > 0);
}

// ---- the plan ------------------------------------------------------------------------

wire::Map map_of(std::size_t nodes, std::uint8_t replicas) {
  wire::Map map;
  map.epoch = 1;
  map.replicas = replicas;
  for (std::size_t at = 0; at < nodes; ++at) {
    wire::MapNode node;
    node.id = node_id("n" + std::to_string(at));
    node.boot = at + 1;
    map.nodes.push_back(node);
  }
  return map;
}

TEST_CASE("whatever changes, every new owner has exactly one node that brings it a copy at once") {
  std::mt19937_64 random(1);
  std::size_t brought = 0;
  for (std::size_t round = 0; round < 2'000; ++round) {
    const auto replicas = static_cast<std::uint8_t>(1 + random() % 3);
    const wire::Map before = map_of(5, replicas);
    wire::Map after = before;
    ++after.epoch;
    for (wire::MapNode& node : after.nodes) {
      if (random() % 4 == 0) node.weight = 1 + static_cast<std::uint32_t>(random() % 3);
      if (random() % 6 == 0) node.state = wire::NodeState::draining;
      if (random() % 6 == 0) ++node.boot;
    }
    if (random() % 3 == 0) after.nodes.erase(after.nodes.begin() + random() % 5);
    const serve::ClusterView then(before), now(after);
    const std::string name = name_of(round);
    std::vector<NodeId> had;
    for (const std::uint32_t at : then.placement.owners(name, 0, replicas)) {
      const wire::MapNode& node = before.nodes[at];
      for (const wire::MapNode& other : after.nodes)
        if (other.id == node.id && other.boot == node.boot) had.push_back(node.id);
    }
    std::map<NodeId, std::size_t> offers;
    for (const NodeId& holder : had) {
      const auto plan = serve::plan_move(holder, &then, now, {.name = name});
      for (const NodeId& target : plan.targets) {
        CHECK(target != holder);
        if (plan.is_first) ++offers[target];
      }
    }
    for (const std::uint32_t at : now.placement.owners(name, 0, replicas)) {
      const NodeId& owner = after.nodes[at].id;
      const bool has_it = std::find(had.begin(), had.end(), owner) != had.end();
      if (has_it || had.empty()) continue;
      CHECK(offers[owner] == 1);
      ++brought;
    }
  }
  CHECK(brought > 500);
}

TEST_CASE("what stays the same asks nothing of anybody") {
  const wire::Map before = map_of(4, 2);
  wire::Map after = before;
  ++after.epoch;
  CHECK(serve::is_same_placement(before, after));
  std::swap(after.nodes[0], after.nodes[2]);
  CHECK(serve::is_same_placement(before, after));
  after.nodes[1].boot += 1;
  CHECK(!serve::is_same_placement(before, after));
  after = before;
  after.namespaces.push_back({"pages", 3});
  CHECK(!serve::is_same_placement(before, after));
  after = before;
  after.nodes[3].state = wire::NodeState::draining;
  CHECK(!serve::is_same_placement(before, after));
  CHECK(serve::is_member(after, node_id("n3")));
  CHECK(!serve::is_member(after, node_id("n9")));
}

}  // namespace
}  // namespace gd2fs
