#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <poll.h>

#include "local_cluster.h"

using namespace gd2fs;

namespace {

struct Batch {
  std::vector<std::string> keys;
  std::vector<Memory> values;
  std::vector<Memory> room;

  Batch(std::size_t count, std::size_t bytes_min, std::size_t bytes_max, std::uint64_t seed = 1) {
    std::mt19937_64 random(seed);
    for (std::size_t at = 0; at < count; ++at) {
      keys.push_back("key-" + std::to_string(seed) + "-" + std::to_string(at));
      values.push_back(random_bytes(bytes_min + random() % (bytes_max - bytes_min + 1), random()));
      room.emplace_back(values.back().size());
    }
  }

  std::vector<Buffer> from() {
    std::vector<Buffer> buffers;
    for (Memory& value : values) buffers.push_back(whole(value));
    return buffers;
  }
  std::vector<Buffer> into() {
    std::vector<Buffer> buffers;
    for (Memory& space : room) buffers.push_back(whole(space));
    return buffers;
  }
};

std::size_t count_of(const Outcome& outcome, Status status) {
  return static_cast<std::size_t>(
      std::count_if(outcome.items.begin(), outcome.items.end(),
                    [&](const ItemOutcome& item) { return item.status == status; }));
}

}  // namespace

TEST_CASE("pages of mixed sizes come back as they were put, from one node and from three") {
  for (const std::size_t nodes : {1u, 3u}) {
    LocalCluster cluster(nodes, 128 * MiB);
    auto client = cluster.client();
    Batch batch(60, 1, 700'000);

    CHECK(count_of(end_of(client->put_pages("ns", batch.keys, batch.from(), {})), Status::ok) ==
          60);
    const auto got = client->get_pages("ns", batch.keys, batch.into(), {});

    REQUIRE(count_of(end_of(got), Status::ok) == 60);
    CHECK(batch.room == batch.values);
    CHECK(got->outcome().items[7].bytes == batch.values[7].size());
  }
}

TEST_CASE("an empty batch is done at once") {
  LocalCluster cluster(1);
  auto client = cluster.client();

  for (const auto& operation :
       {client->get_pages("ns", {}, {}, {}), client->put_pages("ns", {}, {}, {}),
        client->exists("ns", {}, {}), client->drop_pages("ns", {}, {})}) {
    CHECK(end_of(operation).status == Status::ok);
    CHECK(operation->outcome().items.empty());
  }
}

TEST_CASE("a batch larger than one frame is cut, and every key keeps its place") {
  LocalCluster cluster(3, 256 * MiB);
  auto client = cluster.client();
  Batch batch(10'000, 100, 3'000);

  const auto put = client->put_pages("ns", batch.keys, batch.from(), {});
  CHECK(count_of(end_of(put), Status::ok) == 10'000);
  const auto got = client->get_pages("ns", batch.keys, batch.into(), {});

  CHECK(count_of(end_of(got), Status::ok) == 10'000);
  CHECK(batch.room == batch.values);
}

TEST_CASE("a page larger than a request and one of a single byte") {
  LocalCluster cluster(1, 256 * MiB);
  auto client = cluster.client();
  Batch large(1, 20 * MiB + 12345, 20 * MiB + 12345);
  Batch tiny(1, 1, 1, 2);

  for (Batch* batch : {&large, &tiny}) {
    CHECK(end_of(client->put_pages("ns", batch->keys, batch->from(), {})).items[0].status ==
          Status::ok);
    CHECK(end_of(client->get_pages("ns", batch->keys, batch->into(), {})).items[0].status ==
          Status::ok);
    CHECK(batch->room == batch->values);
  }
}

TEST_CASE("a large page comes in ranges over all streams, into a buffer that fits or is longer") {
  LocalCluster cluster(2, 128 * MiB);
  ClientOptions options = cluster.options();
  options.streams = 3;
  auto client = cluster.client(options);
  Batch batch(1, 21'000'001, 21'000'001);
  Batch small(3, 1'000, 5'000, 2);
  end_of(client->put_pages("ns", batch.keys, batch.from(), {}));
  end_of(client->put_pages("ns", small.keys, small.from(), {}));
  batch.room.front().resize(batch.values.front().size() + 6'000'000);
  std::vector<std::string> keys = small.keys;
  keys.insert(keys.begin() + 1, batch.keys.front());
  std::vector<Buffer> into = small.into();
  into.insert(into.begin() + 1, batch.into().front());

  const auto got = client->get_pages("ns", keys, into, {});

  REQUIRE(count_of(end_of(got), Status::ok) == 4);
  CHECK(got->outcome().items[1].bytes == batch.values.front().size());
  batch.room.front().resize(batch.values.front().size());
  CHECK(batch.room == batch.values);
  CHECK(small.room == small.values);
}

TEST_CASE("a buffer too short for a large page is told how long it is; a large miss is a miss") {
  LocalCluster cluster(1, 128 * MiB);
  auto client = cluster.client();
  Batch batch(1, 12'000'000, 12'000'000);
  end_of(client->put_pages("ns", batch.keys, batch.from(), {}));
  batch.room.front().resize(11'999'999);

  const auto refused = client->get_pages("ns", batch.keys, batch.into(), {});
  const std::vector<std::string> other{"other"};
  const auto missed = client->get_pages("ns", other, batch.into(), {});

  CHECK(end_of(refused).items[0].status == Status::invalid);
  CHECK(refused->outcome().items[0].bytes == 12'000'000);
  CHECK(end_of(missed).items[0].status == Status::miss);
}

TEST_CASE("ranges of two values never make a page") {
  LocalCluster cluster(1, 256 * MiB);
  auto client = cluster.client();
  auto writer = cluster.client();
  constexpr std::size_t BYTES = 16 * MiB;
  Memory ones(BYTES, std::byte{1});
  Memory twos(BYTES, std::byte{2});
  const std::vector<std::string> keys{"key"};
  constexpr int ROUNDS = 60;
  std::atomic<int> begun{0};  // reads: beside every second of them the value changes
  std::atomic<int> changed{0};
  std::thread changer([&] {
    for (int round = 0; round < ROUNDS; round += 2) {
      const std::vector<Buffer> from{whole(round % 2 == 0 ? ones : twos)};
      while (begun <= round) std::this_thread::yield();
      writer->drop_pages("ns", keys, {})->wait(10'000);
      writer->put_pages("ns", keys, from, {})->wait(10'000);
      ++changed;
    }
  });

  std::size_t hits = 0;
  for (int round = 0; round < ROUNDS; ++round) {
    Memory room(BYTES);
    const std::vector<Buffer> into{whole(room)};
    ++begun;
    while (changed < round / 2 + round % 2) std::this_thread::yield();
    if (end_of(client->get_pages("ns", keys, into, {})).items[0].status != Status::ok) continue;
    ++hits;
    CHECK(std::all_of(room.begin(), room.end(), [&](std::byte each) { return each == room[0]; }));
  }

  changer.join();
  CHECK(hits >= ROUNDS / 2);
}

TEST_CASE("the first value of a key stays; a second put moves nothing") {
  LocalCluster cluster(1);
  auto client = cluster.client();
  Batch batch(8, 100'000, 100'000);
  end_of(client->put_pages("ns", batch.keys, batch.from(), {}));
  const Batch first = batch;
  for (Memory& value : batch.values) value[0] ^= std::byte{1};

  CHECK(count_of(end_of(client->put_pages("ns", batch.keys, batch.from(), {})), Status::have) == 8);
  end_of(client->get_pages("ns", batch.keys, batch.into(), {}));

  CHECK(batch.room == first.values);
}

TEST_CASE("exists answers key by key, also for thousands") {
  LocalCluster cluster(3);
  auto client = cluster.client();
  Batch batch(9'000, 10, 10);
  std::vector<std::string> stored;
  std::vector<Buffer> from;
  for (std::size_t at = 0; at < batch.keys.size(); at += 3) {
    stored.push_back(batch.keys[at]);
    from.push_back(whole(batch.values[at]));
  }
  end_of(client->put_pages("ns", stored, from, {}));

  const auto asked = client->exists("ns", batch.keys, {});

  const Outcome& outcome = end_of(asked);
  std::size_t wrong = 0;
  for (std::size_t at = 0; at < batch.keys.size(); ++at)
    wrong += outcome.items[at].status != (at % 3 == 0 ? Status::ok : Status::miss);
  CHECK(wrong == 0);
}

TEST_CASE(
    "a key that was never put is a miss beside hits, and a short buffer says what is needed") {
  LocalCluster cluster(1);
  auto client = cluster.client();
  Batch batch(3, 5'000, 5'000);
  end_of(client->put_pages("ns", std::span(batch.keys).first(2),
                           std::span<const Buffer>(batch.from()).first(2), {}));
  auto into = batch.into();
  into[1].bytes = 4'999;

  const auto got = client->get_pages("ns", batch.keys, into, {});

  const Outcome& outcome = end_of(got);
  CHECK(outcome.items[0].status == Status::ok);
  CHECK(outcome.items[1].status == Status::invalid);
  CHECK(outcome.items[1].bytes == 5'000);
  CHECK(outcome.items[2].status == Status::miss);
}

TEST_CASE("dropped pages are gone, and drop counts those that were there") {
  LocalCluster cluster(3);
  auto client = cluster.client();
  Batch batch(50, 10, 1'000);
  end_of(client->put_pages("ns", std::span(batch.keys).first(40),
                           std::span<const Buffer>(batch.from()).first(40), {}));

  CHECK(end_of(client->drop_pages("ns", batch.keys, {})).value == 40);

  CHECK(count_of(end_of(client->exists("ns", batch.keys, {})), Status::miss) == 50);
}

TEST_CASE("pages are listed in order, page by page, over all nodes") {
  LocalCluster cluster(3);
  auto client = cluster.client();
  Batch batch(300, 10, 20);
  end_of(client->put_pages("ns", batch.keys, batch.from(), {}));

  std::vector<std::string> listed;
  std::string after;
  do {
    const auto list = client->list_pages("ns", after, 70, {});
    const Outcome& outcome = end_of(list);
    REQUIRE(outcome.status == Status::ok);
    CHECK(outcome.entries.size() <= 70);
    for (const auto& entry : outcome.entries) listed.push_back(entry.name);
    after = outcome.next;
  } while (!after.empty());

  std::sort(batch.keys.begin(), batch.keys.end());
  CHECK(listed == batch.keys);
}

TEST_CASE("clear takes one namespace and leaves the others") {
  LocalCluster cluster(3);
  auto client = cluster.client();
  Batch batch(30, 10, 20);
  end_of(client->put_pages("one", batch.keys, batch.from(), {}));
  end_of(client->put_pages("two", batch.keys, batch.from(), {}));

  CHECK(end_of(client->clear("one", {})).value == 30);

  CHECK(count_of(end_of(client->exists("one", batch.keys, {})), Status::ok) == 0);
  CHECK(count_of(end_of(client->exists("two", batch.keys, {})), Status::ok) == 30);
}

TEST_CASE("more pages at once than may be half-written: all are stored in the end") {
  LocalCluster cluster(1, 64 * MiB);
  auto client = cluster.client();
  Batch batch(160, 256 * KiB, 256 * KiB);

  const auto put = client->put_pages("ns", batch.keys, batch.from(), {.timeout_ms = 30'000});

  CHECK(count_of(end_of(put), Status::ok) == 160);
}

TEST_CASE("ping names every node") {
  LocalCluster cluster(3);
  auto client = cluster.client();

  const auto ping = client->ping({});

  REQUIRE(end_of(ping).nodes.size() == 3);
  CHECK(ping->outcome().nodes[2].name == "node-2");
  CHECK(ping->outcome().nodes[2].rung == "plain");
}

TEST_CASE("announced operations are handed out once, and the descriptor says when") {
  LocalCluster cluster(1);
  auto client = cluster.client();
  pollfd bell{client->descriptor(), POLLIN, 0};
  CHECK(poll(&bell, 1, 0) == 0);

  std::vector<OperationRef> held;
  for (std::uint64_t at = 0; at < 20; ++at)
    held.push_back(client->ping({.is_announced = true, .cookie = at}));
  std::vector<std::uint64_t> cookies;
  while (cookies.size() < 20 && poll(&bell, 1, 10'000) == 1)
    for (const auto& operation : client->finished(3)) {
      CHECK(operation->is_done());
      cookies.push_back(operation->cookie());
    }

  std::sort(cookies.begin(), cookies.end());
  for (std::uint64_t at = 0; at < 20; ++at) CHECK(cookies[at] == at);
  CHECK(poll(&bell, 1, 0) == 0);
  CHECK(client->finished(3).empty());
}

TEST_CASE("streams leave from the client's own addresses, and unverified reads work too") {
  LocalCluster cluster(1, 128 * MiB);
  ClientOptions options = cluster.options();
  options.local = {"127.0.0.2", "127.0.0.3"};
  options.streams = 4;
  options.is_verifying = false;
  auto client = cluster.client(options);
  Batch batch(64, 200'000, 200'000);

  CHECK(count_of(end_of(client->put_pages("ns", batch.keys, batch.from(), {})), Status::ok) == 64);
  CHECK(count_of(end_of(client->get_pages("ns", batch.keys, batch.into(), {})), Status::ok) == 64);

  CHECK(batch.room == batch.values);
}

TEST_CASE("a node with a dead and a live address is reached by the live one") {
  const std::string dead = "127.0.0.1:" + std::to_string(free_port());
  const std::string live = "127.0.0.1:" + std::to_string(free_port());
  LocalCluster cluster(1, 64 * MiB, {dead + "+" + live}, {live});
  ClientOptions options = cluster.options();
  options.seeds = {live};
  auto client = cluster.client(options);
  Batch batch(20, 200'000, 200'000);

  CHECK(count_of(end_of(client->put_pages("ns", batch.keys, batch.from(), {})), Status::ok) == 20);
}

TEST_CASE("a node under a name of several addresses is reached by the one where it listens") {
  const std::string port = std::to_string(free_port());
  LocalCluster cluster(1, 64 * MiB, {"localhost:" + port}, {"127.0.0.1:" + port});
  auto client = cluster.client();
  cluster.stop(0);
  const auto lost = client->ping({});
  CHECK(end_of(lost).nodes[0].state == wire::NodeState::gone);

  cluster.start(0);

  CHECK(eventually(
      [&] { return end_of(client->ping({})).nodes[0].state == wire::NodeState::active; }));
}

TEST_CASE("a wildcard address in the map stands for the seed's host") {
  const std::string port = std::to_string(free_port());
  LocalCluster cluster(1, 64 * MiB, {"0.0.0.0:" + port}, {"0.0.0.0:" + port});
  ClientOptions options = cluster.options();
  options.seeds = {"127.0.0.1:" + port};

  auto client = cluster.client(options);
  const auto ping = client->ping({});

  CHECK(end_of(ping).nodes[0].state == wire::NodeState::active);
}

TEST_CASE("a client follows the map: a node leaves, and comes back") {
  LocalCluster cluster(2);
  auto client = cluster.client();
  Batch batch(64, 1000, 1000);
  CHECK(count_of(end_of(client->put_pages("ns", batch.keys, batch.from(), {})), Status::ok) == 64);

  cluster.change([](wire::Map& map) { map.nodes[0].state = wire::NodeState::gone; });
  CHECK(eventually([&] { return client->map().epoch == 2; }));
  CHECK(end_of(client->ping({})).nodes.size() == 1);
  const auto got = client->get_pages("ns", batch.keys, batch.into(), {});
  const std::size_t hits = count_of(end_of(got), Status::ok);
  CHECK(hits > 10);
  CHECK(hits + count_of(end_of(got), Status::miss) == 64);

  cluster.change([](wire::Map& map) { map.nodes[0].state = wire::NodeState::active; });
  CHECK(eventually([&] { return client->map().epoch == 3; }));
  CHECK(count_of(end_of(client->get_pages("ns", batch.keys, batch.into(), {})), Status::ok) == 64);
  CHECK(batch.room == batch.values);
}

TEST_CASE("a map without any node leaves clients with the one before") {
  LocalCluster cluster(2);
  auto client = cluster.client();
  Batch batch(64, 1000, 1000);
  CHECK(count_of(end_of(client->put_pages("ns", batch.keys, batch.from(), {})), Status::ok) == 64);

  cluster.change([](wire::Map& map) {
    for (wire::MapNode& node : map.nodes) node.state = wire::NodeState::gone;
  });
  const auto late = Client::connect(cluster.options());
  CHECK_FALSE(late);
  CHECK(client->map().epoch == 1);
  CHECK(count_of(end_of(client->get_pages("ns", batch.keys, batch.into(), {})), Status::ok) == 64);
  CHECK(end_of(client->stat("/ns/file", {.timeout_ms = 300})).status != Status::ok);
  CHECK(end_of(client->create("/ns/file", {.timeout_ms = 300})).status != Status::ok);

  cluster.change([](wire::Map& map) {
    for (wire::MapNode& node : map.nodes) node.state = wire::NodeState::active;
  });
  CHECK(eventually([&] { return client->map().epoch == 3; }));
  CHECK(count_of(end_of(client->get_pages("ns", batch.keys, batch.into(), {})), Status::ok) == 64);
}

TEST_CASE("a client meets a node that was not there when it began") {
  LocalCluster cluster(1);
  auto client = cluster.client();
  LocalCluster other(1);  // stands for a machine that is added
  wire::MapNode added = other.map().nodes[0];
  added.id = node_id("node-9");
  added.addresses = "node-9=" + other.address(0);

  cluster.change([&](wire::Map& map) { map.nodes.push_back(added); });

  CHECK(eventually([&] { return end_of(client->ping({})).nodes.size() == 2; }));
  CHECK(end_of(client->ping({})).nodes[1].state == wire::NodeState::active);
  Batch batch(64, 1000, 1000);
  CHECK(count_of(end_of(client->put_pages("ns", batch.keys, batch.from(), {})), Status::ok) == 64);
  CHECK(other.server(0).counts().store.pages > 10);
}

TEST_CASE("a node is asked to drain where the membership can change") {
  LocalCluster cluster(2);
  auto client = cluster.client();
  CHECK(end_of(client->drain("node-1", {})).status == Status::invalid);
  CHECK_FALSE(cluster.server(1).is_draining_wished());

  cluster.change([](wire::Map&) {});
  CHECK(end_of(client->drain("node-1", {})).status == Status::ok);
  CHECK(cluster.server(1).is_draining_wished());
  CHECK_FALSE(cluster.server(0).is_draining_wished());
  CHECK(end_of(client->drain("nobody", {})).status == Status::gone);
}

TEST_CASE("calls that break a rule end as invalid, and say which") {
  LocalCluster cluster(1);
  auto client = cluster.client();
  Memory memory(100);
  const std::vector<std::string> keys{"a", "b"};
  const std::vector<Buffer> overlapping{{memory.data(), 60}, {memory.data() + 50, 50}};
  const std::vector<Buffer> nowhere{{nullptr, 5}, whole(memory)};
  const std::vector<Buffer> one{whole(memory)};
  const std::string long_path = "/ns/" + std::string(2'000, 'x');

  for (const auto& operation :
       {client->get_pages("ns", keys, overlapping, {}), client->get_pages("ns", keys, nowhere, {}),
        client->put_pages("ns", keys, one, {}), client->put_pages("a/b", keys, overlapping, {}),
        client->put_pages("ns", std::vector<std::string>{""}, one, {}),
        client->exists("ns", std::vector<std::string>(BATCH_ITEMS_MAX + 1, "k"), {}),
        client->read("/ns/f", 0, overlapping, {}), client->read("/ns", 0, one, {}),
        client->write("/ns/../x", 0, one, {}), client->write(long_path, 0, one, {}),
        client->write("/ns/f", ~std::uint64_t{0}, one, {}), client->append("relative", one, {})}) {
    CHECK(end_of(operation).status == Status::invalid);
    CHECK(!operation->outcome().message.empty());
  }
}
