#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <sys/mman.h>

#include "local_cluster.h"
#include "moving_cluster.h"
#include "proxy.h"

using namespace gd2fs;

namespace {

constexpr const char* PATH = "/ns/file";
constexpr const char* OTHER = "/ns/other";

/// A client that has asked nothing yet is not told.
bool knows_map(LocalCluster& cluster, Client& client) {
  return eventually([&] {
    end_of(client.ping({}));
    return client.map().epoch == cluster.map().epoch;
  });
}

void set_replicas(LocalCluster& cluster, Client& client, std::uint8_t replicas) {
  cluster.change([&](wire::Map& map) { map.replicas = replicas; });
  REQUIRE(knows_map(cluster, client));
}

struct Batch {
  std::vector<std::string> keys;
  std::vector<Memory> values;
  std::vector<Memory> room;

  Batch(std::size_t count, std::size_t bytes, std::uint64_t seed = 1) {
    for (std::size_t at = 0; at < count; ++at) {
      keys.push_back("key-" + std::to_string(seed) + "-" + std::to_string(at));
      values.push_back(random_bytes(bytes, seed * 1'000'003 + at));
      room.emplace_back(bytes);
    }
  }

  std::vector<Buffer> from() {
    std::vector<Buffer> buffers;
    for (Memory& value : values) buffers.push_back(whole(value));
    return buffers;
  }
  std::vector<Buffer> into() {
    for (Memory& each : room) std::fill(each.begin(), each.end(), std::byte{0});
    std::vector<Buffer> buffers;
    for (Memory& each : room) buffers.push_back(whole(each));
    return buffers;
  }
};

std::size_t count_of(const Outcome& outcome, Status status) {
  return static_cast<std::size_t>(
      std::count_if(outcome.items.begin(), outcome.items.end(),
                    [&](const ItemOutcome& item) { return item.status == status; }));
}

bool have_copies(const Outcome& outcome, std::size_t copies) {
  return std::all_of(outcome.items.begin(), outcome.items.end(),
                     [&](const ItemOutcome& item) { return item.copies == copies; });
}

std::size_t hits(Client& client, Batch& batch, std::uint32_t timeout_ms = 30'000) {
  const std::vector<Buffer> into = batch.into();
  const auto got = client.get_pages("ns", batch.keys, into, {.timeout_ms = timeout_ms});
  const std::size_t count = count_of(end_of(got), Status::ok);
  if (count == batch.keys.size()) CHECK(batch.room == batch.values);
  return count;
}

std::size_t present(Client& client, const Batch& batch) {
  return count_of(end_of(client.exists("ns", batch.keys, {})), Status::ok);
}

/// Memory of its own pages that can be forbidden: whoever touches it then crashes.
class Fenced {
 public:
  explicit Fenced(std::size_t bytes)
      : bytes_(bytes),
        at_(static_cast<std::byte*>(
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Fenced() { munmap(at_, bytes_); }
  std::span<std::byte> bytes() const { return {at_, bytes_}; }
  std::vector<Buffer> buffers() const { return {{at_, bytes_}}; }
  /// The same memory, cut in three.
  std::vector<Buffer> parts() const {
    const std::size_t third = bytes_ / 3;
    return {{at_, third}, {at_ + third, third}, {at_ + 2 * third, bytes_ - 2 * third}};
  }
  void forbid() { REQUIRE(mprotect(at_, bytes_, PROT_NONE) == 0); }

 private:
  std::size_t bytes_;
  std::byte* at_;
};

/// Two nodes behind proxies, with two copies of everything.
struct Proxied {
  Proxy proxies[2];
  LocalCluster cluster;
  std::unique_ptr<Client> client;

  Proxied() : cluster(2, 64 * MiB, {proxies[0].address(), proxies[1].address()}) {
    for (std::size_t node : {0u, 1u}) proxies[node].forward_to(cluster.address(node));
    client = cluster.client();
    set_replicas(cluster, *client, 2);
  }
  ~Proxied() {
    for (Proxy& proxy : proxies) proxy.set(Proxy::Mode::pass);
  }

  /// A page in two copies, of nodes that are known: how quick each of them is.
  Batch known_page(std::size_t bytes) {
    set_replicas(cluster, *client, 1);
    Batch page = page_of(0, bytes);
    Batch other = page_of(1, bytes);
    for (Batch* batch : {&page, &other}) {
      end_of(client->put_pages("ns", batch->keys, batch->from(), {}));
      for (int round = 0; round < 100; ++round) REQUIRE(hits(*client, *batch) == 1);
    }
    set_replicas(cluster, *client, 2);
    REQUIRE(have_copies(end_of(client->put_pages("ns", page.keys, page.from(), {})), 2));
    return page;
  }

  Batch page_of(std::size_t node, std::size_t bytes) const {
    for (std::uint64_t seed = 1;; ++seed) {
      Batch batch(1, bytes, seed);
      const std::string name = std::string("ns") + '\0' + batch.keys[0];
      if (cluster.home_of(name) == node) return batch;
    }
  }
};

}  // namespace

TEST_CASE("a page goes to as many nodes as it has copies, or to as many as there are") {
  LocalCluster cluster(3);
  auto client = cluster.client();
  set_replicas(cluster, *client, 2);
  Batch batch(40, 3'000);

  const auto put = client->put_pages("ns", batch.keys, batch.from(), {});

  CHECK(count_of(end_of(put), Status::ok) == 40);
  CHECK(have_copies(put->outcome(), 2));
  std::size_t stored = 0;
  for (std::size_t node : {0u, 1u, 2u}) stored += cluster.server(node).counts().store.pages;
  CHECK(stored == 80);

  const auto again = client->put_pages("ns", batch.keys, batch.from(), {});
  CHECK(count_of(end_of(again), Status::have) == 40);
  CHECK(have_copies(again->outcome(), 2));

  set_replicas(cluster, *client, 5);
  const auto most = client->put_pages("ns", batch.keys, batch.from(), {});
  CHECK(have_copies(end_of(most), 3));
}

TEST_CASE("with two copies and one node stopped every page is read, put and found") {
  for (std::size_t stopped : {0u, 1u, 2u}) {
    LocalCluster cluster(3);
    auto client = cluster.client();
    set_replicas(cluster, *client, 2);
    Batch before(100, 3'000, 1), after(100, 3'000, 2);
    end_of(client->put_pages("ns", before.keys, before.from(), {}));

    cluster.stop(stopped);
    const auto put = client->put_pages("ns", after.keys, after.from(), {});

    CHECK(count_of(end_of(put), Status::ok) == 100);
    CHECK(have_copies(put->outcome(), 2));
    CHECK(hits(*client, before) == 100);
    CHECK(hits(*client, after) == 100);
    CHECK(present(*client, before) == 100);
    CHECK(end_of(client->drop_pages("ns", after.keys, {})).value == 100);
    CHECK(present(*client, after) == 0);
  }
}

TEST_CASE("what is nowhere is unavailable to a put, and a miss to a get") {
  LocalCluster cluster(2);
  auto client = cluster.client();
  set_replicas(cluster, *client, 2);
  cluster.stop(0);
  cluster.stop(1);
  Batch batch(10, 100);

  const auto put = client->put_pages("ns", batch.keys, batch.from(), {});

  CHECK(count_of(end_of(put), Status::unavailable) == 10);
  CHECK(have_copies(put->outcome(), 0));
  CHECK(hits(*client, batch) == 0);
}

TEST_CASE("pages are found after a node has left, and after others have joined") {
  LocalCluster cluster(4);
  cluster.change([](wire::Map& map) {
    map.nodes[3].state = wire::NodeState::gone;
    map.replicas = 2;
  });
  auto client = cluster.client();
  Batch batch(100, 1'000);
  end_of(client->put_pages("ns", batch.keys, batch.from(), {}));

  cluster.change([](wire::Map& map) {
    map.nodes[3].state = wire::NodeState::joining;
    map.nodes[0].state = wire::NodeState::draining;
  });
  REQUIRE(knows_map(cluster, *client));
  CHECK(hits(*client, batch) == 100);
  CHECK(present(*client, batch) == 100);

  cluster.change([](wire::Map& map) {
    map.nodes[3].state = wire::NodeState::active;
    map.nodes[0].state = wire::NodeState::gone;
  });
  REQUIRE(knows_map(cluster, *client));
  CHECK(hits(*client, batch) == 100);
}

TEST_CASE("the map changes all the time: no page that stands is missed") {
  LocalCluster cluster(4);
  auto client = cluster.client();
  set_replicas(cluster, *client, 2);
  Batch batch(50, 1'000);
  end_of(client->put_pages("ns", batch.keys, batch.from(), {}));
  std::atomic<bool> is_over{false};
  std::thread changing([&] {
    for (std::uint32_t weight = 1; !is_over; weight = weight % 7 + 1)
      cluster.change([&](wire::Map& map) { map.nodes[weight % 4].weight = weight; });
  });

  for (int round = 0; round < 50; ++round) CHECK(hits(*client, batch) == 50);

  is_over = true;
  changing.join();
}

TEST_CASE("with two copies and one node stopped every file is read") {
  for (std::size_t stopped : {0u, 1u, 2u}) {
    LocalCluster cluster(3, 128 * MiB);
    auto client = cluster.client();
    set_replicas(cluster, *client, 2);
    Memory value = random_bytes(3 * MiB, 1);
    const std::vector<Buffer> from{whole(value)};
    std::vector<std::string> paths;
    for (int file = 0; file < 12; ++file) paths.push_back("/ns/" + std::to_string(file));
    for (const std::string& path : paths)
      REQUIRE(end_of(client->put(path, from, {.chunk_bytes = 256 * KiB})).status == Status::ok);

    cluster.stop(stopped);

    for (const std::string& path : paths) {
      Memory room(value.size());
      const std::vector<Buffer> into{whole(room)};
      CHECK(end_of(client->read(path, 0, into, {.timeout_ms = 30'000})).status == Status::ok);
      CHECK(room == value);
      CHECK(end_of(client->stat(path, {})).file.size == value.size());
    }
  }
}

TEST_CASE("a change of a file waits, until its deadline, for a home that may speak") {
  MovingCluster cluster(2, 0, 1);
  for (std::size_t node : {0u, 1u}) cluster.add(node);
  for (std::size_t node : {0u, 1u}) {
    ServerOptions options = cluster.options_of(node);
    options.map.lease_ms = 600'000;
    cluster.start(node, options);
  }
  auto client = cluster.client_of(0);
  Memory value = random_bytes(64 * KiB, 3);
  const std::vector<Buffer> from{whole(value)};
  for (const char* path : {PATH, OTHER})
    REQUIRE(end_of(client->put(path, from, {})).status == Status::ok);
  for (std::size_t node : {0u, 1u}) cluster.server(node).set_lease(0);

  CHECK(end_of(client->put(PATH, from, {.timeout_ms = 200})).status == Status::fenced);
  CHECK(end_of(client->stat(PATH, {.timeout_ms = 20'000})).status == Status::fenced);
  const OperationRef put = client->put(PATH, from, {.timeout_ms = 20'000});
  const OperationRef cut = client->truncate(OTHER, 1'000, {.timeout_ms = 20'000});
  CHECK_FALSE(put->wait(100));
  CHECK_FALSE(cut->wait(0));
  for (std::size_t node : {0u, 1u}) cluster.server(node).set_lease(INT64_MAX);
  CHECK(end_of(put).status == Status::ok);
  CHECK(end_of(cut).status == Status::ok);
}

TEST_CASE("a node that is silent costs a second, not every call its deadline") {
  Proxied world;
  Batch batch(1'000, 500);
  REQUIRE(count_of(end_of(world.client->put_pages("ns", batch.keys, batch.from(), {})),
                   Status::ok) == 1'000);
  world.proxies[0].set(Proxy::Mode::stall);
  std::vector<OperationRef> calls;
  for (std::size_t at = 0; at < 1'000; ++at) {
    const std::vector<Buffer> into{whole(batch.room[at])};
    calls.push_back(world.client->get_pages("ns", std::span(batch.keys).subspan(at, 1), into,
                                            {.timeout_ms = 600'000}));
  }

  for (const OperationRef& call : calls) CHECK(end_of(call).items[0].status == Status::ok);

  CHECK(batch.room == batch.values);
}

TEST_CASE("a read that is late is answered by the second node, and its memory left alone then") {
  Proxied world;
  Batch batch = world.known_page(300'000);
  world.proxies[0].stall_after(100'000);  // in the middle of an answer
  std::vector<std::unique_ptr<Fenced>> seen;
  bool is_cut = false;  // into one buffer, and into several
  SUBCASE("into one buffer") {}
  SUBCASE("into several buffers") { is_cut = true; }

  // Until one is asked of node 0: after a few seconds at the latest, however quick the other is.
  const auto is_won = eventually([&] {
    seen.push_back(std::make_unique<Fenced>(300'000));
    const Fenced& room = *seen.back();
    const std::vector<Buffer> into = is_cut ? room.parts() : room.buffers();
    const std::vector<std::uint32_t> counts{static_cast<std::uint32_t>(into.size())};
    const auto got =
        world.client->get_pages("ns", batch.keys, {into, counts}, {.timeout_ms = 600'000});
    REQUIRE(end_of(got).items[0].status == Status::ok);
    REQUIRE(std::equal(batch.values[0].begin(), batch.values[0].end(), room.bytes().begin()));
    seen.back()->forbid();
    return world.client->counts().hedges_won != 0;
  });

  CHECK(is_won);
  world.proxies[0].set(Proxy::Mode::pass);
  CHECK(eventually([&] { return hits(*world.client, batch) == 1; }));
}

TEST_CASE("a hedge that comes too late is let go") {
  Proxied world;
  Batch batch = world.known_page(300'000);
  for (Proxy& proxy : world.proxies) proxy.set(Proxy::Mode::stall);
  const auto fenced = std::make_unique<Fenced>(300'000);
  const auto got =
      world.client->get_pages("ns", batch.keys, fenced->buffers(), {.timeout_ms = 600'000});
  REQUIRE(eventually([&] { return world.client->counts().hedged != 0; }));

  world.proxies[0].set(Proxy::Mode::pass);
  REQUIRE(end_of(got).items[0].status == Status::ok);
  fenced->forbid();

  world.proxies[1].set(Proxy::Mode::pass);
  CHECK(eventually([&] { return hits(*world.client, batch) == 1; }));
}

TEST_CASE("one copy is never hedged") {
  Proxied world;
  Batch batch = world.known_page(300'000);
  set_replicas(world.cluster, *world.client, 1);
  world.proxies[0].set(Proxy::Mode::stall);

  const auto got = world.client->get_pages("ns", batch.keys, batch.into(), {.timeout_ms = 300});

  CHECK(end_of(got).items[0].status == Status::miss);
  CHECK(world.client->counts().hedged == 0);
}

TEST_CASE("advice spreads a file's pieces, and takes the copies back") {
  LocalCluster cluster(4);
  auto client = cluster.client();
  set_replicas(cluster, *client, 1);
  Memory value = random_bytes(3 * MiB, 1);
  const std::vector<Buffer> from{whole(value)};
  const CallOptions chunked{.chunk_bytes = 256 * KiB};
  REQUIRE(end_of(client->put(PATH, from, chunked)).status == Status::ok);
  const auto stored = [&] {
    std::uint64_t bytes = 0;
    for (std::size_t node : {0u, 1u, 2u, 3u})
      bytes += cluster.server(node).counts().store.live_bytes;
    return bytes;
  };
  REQUIRE(eventually([&] { return stored() == value.size(); }));

  OperationRef spread;
  CHECK(eventually([&] {  // nodes that have just begun may not have found each other
    spread = client->advise(PATH, Advice::willneed, 3, {});
    return end_of(spread).status == Status::ok;
  }));
  CHECK(spread->outcome().value == value.size());
  CHECK(stored() == 3 * value.size());
  CHECK(end_of(client->stat(PATH, {})).file.replicas == 3);

  const auto taken = client->advise(PATH, Advice::dontneed, 0, {});

  CHECK(end_of(taken).status == Status::ok);
  CHECK(taken->outcome().value == 2 * value.size());
  CHECK(stored() == value.size());
  CHECK(end_of(client->stat(PATH, {})).file.replicas == 0);
  Memory room(value.size());
  const std::vector<Buffer> into{whole(room)};
  CHECK(end_of(client->read(PATH, 0, into, {})).status == Status::ok);
  CHECK(room == value);
  CHECK(end_of(client->advise("/ns/none", Advice::willneed, 2, {})).status == Status::gone);
  CHECK(end_of(client->advise(PATH, Advice::willneed, 9, {})).status == Status::invalid);
}

TEST_CASE("a file has the copies that its writer wants") {
  LocalCluster cluster(3);
  auto client = cluster.client();
  set_replicas(cluster, *client, 1);
  Memory value = random_bytes(256 * KiB, 1);
  const std::vector<Buffer> from{whole(value)};
  REQUIRE(end_of(client->create("/ns/made", {.replicas = 3})).status == Status::ok);
  REQUIRE(end_of(client->write("/ns/made", 0, from, {})).status == Status::ok);
  REQUIRE(end_of(client->put("/ns/put", from, {.replicas = 2})).status == Status::ok);

  CHECK(end_of(client->stat("/ns/made", {})).file.replicas == 3);
  CHECK(end_of(client->stat("/ns/put", {})).file.replicas == 2);
  std::uint64_t bytes = 0;
  for (std::size_t node : {0u, 1u, 2u}) bytes += cluster.server(node).counts().store.live_bytes;
  CHECK(bytes == 5 * value.size());
}

TEST_CASE("a map that changes in the middle of calls on files is followed") {
  for (const std::uint8_t replicas : {std::uint8_t{1}, std::uint8_t{2}}) {
    LocalCluster cluster(3);
    auto client = cluster.client();
    set_replicas(cluster, *client, replicas);
    Memory value = random_bytes(200'000, 1);
    const std::vector<Buffer> from{whole(value)};
    for (std::uint32_t round = 0; round < 30; ++round) {
      const std::string path = "/ns/file-" + std::to_string(round % 5);
      // Not told to the client: it hears of it by what it asks, or a moment later.
      cluster.change([&](wire::Map& map) { map.nodes[round % 3].weight = 1 + round % 4; });

      CHECK(end_of(client->put(path, from, {})).status == Status::ok);
      CHECK(end_of(client->append(path, from, {})).value == value.size());
      Memory room(2 * value.size());
      const std::vector<Buffer> into{whole(room)};
      CHECK(end_of(client->read(path, 0, into, {})).value == 2 * value.size());
      CHECK(std::equal(value.begin(), value.end(), room.begin()));
      CHECK(end_of(client->truncate(path, 10, {})).status == Status::ok);
      CHECK(end_of(client->stat(path, {})).file.size == 10);
    }
  }
}

TEST_CASE("a file for which no node has room is full, however many copies it shall have") {
  LocalCluster cluster(1, 8 * MiB);
  auto client = cluster.client();
  set_replicas(cluster, *client, 2);
  Memory value = random_bytes(32 * MiB, 1);
  const std::vector<Buffer> from{whole(value)};

  const auto put = client->put(PATH, from, {.timeout_ms = 600'000, .chunk_bytes = 32 * MiB});

  CHECK(end_of(put).status == Status::full);
}
