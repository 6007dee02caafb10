#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <filesystem>

#include "fake_disk.h"
#include "local_cluster.h"

using namespace gd2fs;

namespace {

constexpr std::size_t ARENA = 32 * MiB;
constexpr std::size_t CHUNK = 1 * MiB;
constexpr std::size_t CHUNKS = 3 * ARENA / CHUNK;

struct Folder {
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "gd2fs-tier-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path;
};

/// One node, and a client of it. On a disk in memory, or a real one; what else it keeps has a
/// folder of its own.
struct TieredNode {
  explicit TieredNode(bool is_fake, std::string folder = {}) {
    options.cluster = "test";
    options.name = "node-0";
    options.listen = {"127.0.0.1:" + std::to_string(free_port())};
    wire::MapNode entry;
    entry.id = node_id(options.name);
    entry.addresses = options.name + "=" + options.listen.front();
    options.map.epoch = 1;
    options.map.list_hash[0] = std::byte{7};
    options.map.nodes.push_back(entry);
    options.threads = 1;
    options.store.arena.bytes = ARENA;
    options.store.arena.rung = Rung::plain;
    options.store.tier.disk.places = {{folder.empty() ? own.path : folder, 512 * MiB}};
    options.store.tier.disk.node_name = options.name;
    if (is_fake) {
      options.store.tier.open_disk = [this](const DiskOptions&, const Disk::Visit& visit) {
        auto opened = std::make_unique<FakeDisk>(platter);
        opened->visit_all(visit);
        return Result<std::unique_ptr<Disk>>(std::move(opened));
      };
    }
    start();
  }

  void start() {
    options.boot = ++boots;
    auto started = Server::start(options);
    REQUIRE_MESSAGE(started, (started ? "" : started.error().message));
    server = std::move(*started);
    ClientOptions client_options;
    client_options.seeds = options.listen;
    client_options.cluster = "test";
    client_options.transport = Transport::tcp;
    client_options.streams = streams;
    auto connected = Client::connect(client_options);
    REQUIRE_MESSAGE(connected, (connected ? "" : connected.error().message));
    client = std::move(*connected);
  }

  void stop() {
    client = nullptr;
    server = nullptr;
  }

  Status put(std::size_t i) {
    const Memory bytes = random_bytes(CHUNK + i, i);
    const std::string keys[] = {"key" + std::to_string(i)};
    const Buffer from[] = {{const_cast<std::byte*>(bytes.data()), bytes.size()}};
    return end_of(client->put_pages("ns", keys, from, {})).items[0].status;
  }

  void put_all(std::size_t first = 0) {
    for (std::size_t i = first; i < first + CHUNKS; ++i) REQUIRE(put(i) == Status::ok);
  }

  std::vector<Status> get(const std::vector<std::size_t>& which, std::vector<Memory>& into,
                          CallOptions call = {}) {
    std::vector<std::string> keys;
    std::vector<Buffer> buffers;
    into.resize(which.size());
    for (std::size_t at = 0; at < which.size(); ++at) {
      keys.push_back("key" + std::to_string(which[at]));
      into[at].assign(CHUNK + which[at], std::byte{0});
      buffers.push_back(whole(into[at]));
    }
    std::vector<Status> statuses;
    const auto operation = client->get_pages("ns", keys, buffers, call);
    for (const ItemOutcome& each : end_of(operation).items) statuses.push_back(each.status);
    return statuses;
  }

  bool has(std::size_t i) {
    std::vector<Memory> into;
    return get({i}, into)[0] == Status::ok && into[0] == random_bytes(CHUNK + i, i);
  }

  const Folder own;
  std::shared_ptr<FakePlatter> platter = std::make_shared<FakePlatter>();
  ServerOptions options;
  std::uint64_t boots = 0;
  std::uint32_t streams = ClientOptions{}.streams;
  std::unique_ptr<Server> server;
  std::unique_ptr<Client> client;
};

}  // namespace

TEST_CASE("over the wire: three times the memory, all of it, in one batch too") {
  TieredNode node(true);
  node.put_all();
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < CHUNKS; ++i) all.push_back(i);

  for (int round = 0; round < 2; ++round) {
    std::vector<Memory> into;
    const auto statuses = node.get(all, into);
    for (std::size_t i = 0; i < CHUNKS; ++i) {
      REQUIRE(statuses[i] == Status::ok);
      REQUIRE(into[i] == random_bytes(CHUNK + i, i));
    }
  }

  CHECK(node.server->counts().store.loaded_pieces > CHUNKS);
  CHECK(node.server->counts().store.undemoted_pieces == 0);
}

TEST_CASE("on a real disk: all of it, and after a restart too") {
  const Folder folder;
  TieredNode node(false, folder.path);
  node.put_all();
  for (std::size_t i = 0; i < CHUNKS; ++i) REQUIRE(node.has(i));
  REQUIRE(node.server->counts().disk->written_records > CHUNKS / 2);

  node.stop();
  node.start();

  CHECK(node.server->counts().store.recovered_pieces == CHUNKS);
  for (std::size_t i = 0; i < CHUNKS; ++i) REQUIRE(node.has(i));
}

TEST_CASE("files too: parts of chunks, cut blocks, in the middle of what is on disk") {
  TieredNode node(true);
  Memory file = random_bytes(4 * CHUNK + 777, 5);
  CallOptions options;
  options.chunk_bytes = CHUNK;
  const Buffer from[] = {whole(file)};
  REQUIRE(end_of(node.client->put("/ns/file", from, options)).status == Status::ok);
  node.put_all();

  for (const std::size_t offset : {std::size_t{0}, CHUNK - 3, 2 * CHUNK + 70'001}) {
    Memory part(file.size() - offset);
    const Buffer into[] = {whole(part)};
    const Outcome& read = end_of(node.client->read("/ns/file", offset, into, {}));
    REQUIRE(read.status == Status::ok);
    CHECK(std::memcmp(part.data(), file.data() + offset, part.size()) == 0);
  }
}

TEST_CASE("a read that waits for the disk holds up no other, and ends at its deadline") {
  TieredNode node(true);
  node.put_all();
  node.platter->is_held = true;
  CallOptions soon;
  soon.timeout_ms = 300;
  std::vector<Memory> cold, warm;

  const auto slow = node.get({0}, cold, soon);
  CHECK(node.has(CHUNKS - 1));
  CHECK(slow[0] != Status::ok);

  node.platter->is_held = false;
  CHECK(eventually([&] { return node.has(0); }));
}

TEST_CASE("a read that waits for the disk can be cancelled") {
  TieredNode node(true);
  node.put_all();
  node.platter->is_held = true;
  Memory into(CHUNK);
  const std::string keys[] = {"key0"};
  const Buffer buffers[] = {whole(into)};

  const auto waiting = node.client->get_pages("ns", keys, buffers, {});
  waiting->cancel();

  REQUIRE(waiting->wait(5'000));
  CHECK(waiting->outcome().status == Status::cancelled);
  CHECK(node.has(CHUNKS - 1));
  node.platter->is_held = false;
}

TEST_CASE("a node ends while reads wait for its disk") {
  TieredNode node(true);
  node.put_all();
  node.platter->is_held = true;
  Memory into(CHUNK);
  const std::string keys[] = {"key0"};
  const Buffer buffers[] = {whole(into)};
  const auto waiting = node.client->get_pages("ns", keys, buffers, {});
  std::thread release([&] {
    CHECK(eventually([&] { return node.server->counts().store.loading_bytes > 0; }));
    node.platter->is_held = false;
  });
  release.join();

  node.stop();

  CHECK(node.platter->count() == CHUNKS);
}

TEST_CASE("flipped bits, failed reads, failed writes: misses and counts, never wrong bytes") {
  TieredNode node(true);
  node.put_all();
  node.platter->flip_all();
  std::vector<Memory> into;
  CHECK(node.get({0}, into)[0] == Status::miss);
  CHECK(node.server->counts().store.corrupt_pieces == 1);

  node.platter->reads_fail = true;
  CHECK(node.get({1}, into)[0] == Status::miss);
  CHECK(node.server->counts().store.failed_loads == 1);
  node.platter->writes_fail = true;
  node.put_all(CHUNKS);
  CHECK(node.has(2 * CHUNKS - 1));
  const StoreCounts counts = node.server->counts().store;
  CHECK(counts.is_losing);
  CHECK(counts.undemoted_pieces > 0);
}

TEST_CASE("a page that is on disk is there for those who ask or offer") {
  TieredNode node(true);
  node.put_all();
  const std::string keys[] = {"key0"};
  const std::uint64_t reads = node.platter->reads;

  CHECK(end_of(node.client->exists("ns", keys, {})).items[0].status == Status::ok);
  CHECK(node.put(0) == Status::have);

  CHECK(node.platter->reads == reads);
}

TEST_CASE("willneed brings a file into memory; dontneed takes just its range out") {
  TieredNode node(true);
  Memory file = random_bytes(8 * CHUNK, 5);
  CallOptions options;
  options.chunk_bytes = CHUNK;
  const Buffer from[] = {whole(file)};
  REQUIRE(end_of(node.client->put("/ns/file", from, options)).status == Status::ok);
  node.put_all();

  const auto load = node.client->advise_memory("/ns/file", MemoryWish::load, 0, 0, {});
  CHECK(end_of(load).status == Status::ok);
  CHECK(load->outcome().value == file.size());
  CHECK(load->progress() == file.size());
  const std::uint64_t reads = node.platter->reads;
  const std::uint64_t live = node.server->counts().store.live_bytes;

  const Outcome& shed = end_of(
      node.client->advise_memory("/ns/file", MemoryWish::shed, CHUNK / 2 + 5, 3 * CHUNK - 5, {}));
  REQUIRE(shed.status == Status::ok);
  CHECK(shed.value == 3 * CHUNK - BLOCK_BYTES);
  CHECK(live - node.server->counts().store.live_bytes == shed.value);
  Memory part(CHUNK / 2);
  const Buffer into[] = {whole(part)};
  REQUIRE(end_of(node.client->read("/ns/file", 0, into, {})).status == Status::ok);
  CHECK(std::memcmp(part.data(), file.data(), part.size()) == 0);
  CHECK(node.platter->reads == reads);

  Memory all(file.size());
  const Buffer into_all[] = {whole(all)};
  REQUIRE(end_of(node.client->read("/ns/file", 0, into_all, {})).status == Status::ok);
  CHECK(all == file);
}

TEST_CASE("pages are loaded, pinned and let go by their keys") {
  TieredNode node(true);
  node.put_all();
  const std::string keys[] = {"key0", "key1", "none"};
  const auto advise = [&](MemoryWish wish) {
    return node.client->advise_pages("ns", keys, wish, {});
  };

  const auto pinned = advise(MemoryWish::pin);
  CHECK(end_of(pinned).items[0].status == Status::ok);
  CHECK(pinned->outcome().items[2].status == Status::miss);
  CHECK(pinned->outcome().value == 2 * CHUNK + 1);
  node.put_all(CHUNKS);
  const std::uint64_t reads = node.platter->reads;
  for (std::size_t i = 10; i < CHUNKS; ++i) REQUIRE(node.has(i));
  const std::uint64_t reads_of_others = node.platter->reads;
  CHECK(reads_of_others > reads);
  CHECK(node.has(0));
  CHECK(node.has(1));
  CHECK(node.platter->reads == reads_of_others);

  CHECK(end_of(advise(MemoryWish::unpin)).items[0].status == Status::ok);
  const auto shed = advise(MemoryWish::shed);
  CHECK(end_of(shed).value == 2 * CHUNK + 1);
  CHECK(node.has(0));
  CHECK(node.platter->reads > reads_of_others);
}

TEST_CASE("those who let go of the same thing at once do not wait for each other") {
  TieredNode node(true);
  for (std::size_t i = 0; i < 4; ++i) REQUIRE(node.put(i) == Status::ok);
  const std::string keys[] = {"key0", "key1", "key2", "key3"};
  const std::uint64_t live = node.server->counts().store.live_bytes;
  node.platter->is_held = true;  // until all of them have asked

  const auto let_go = [&] { return node.client->advise_pages("ns", keys, MemoryWish::shed, {}); };
  const auto one = let_go(), other = let_go(), third = let_go();
  node.platter->is_held = false;

  std::uint64_t bytes = 0;
  for (const auto& each : {one, other, third}) {
    CHECK(end_of(each).items[0].status == Status::ok);
    bytes += each->outcome().value;
  }
  CHECK(bytes == 4 * CHUNK + 6);
  CHECK(node.server->counts().store.live_bytes < live / 100);
}

TEST_CASE("a request that a slow disk keeps to its deadline costs no connection") {
  TieredNode node(true);
  node.stop();
  node.streams = 1;  // no other path hears that the node is alive
  node.start();
  node.put_all();
  const std::string keys[] = {"key0"};
  node.platter->is_held = true;
  const auto closed = [&] {
    const ServerCounts counts = node.server->counts();
    return counts.accepted - counts.connections;
  };
  const std::uint64_t closed_before = closed();
  CallOptions call;
  call.timeout_ms = 1'500;  // longer than a node may be silent

  const auto load = node.client->advise_pages("ns", keys, MemoryWish::load, call);
  REQUIRE(load->wait(10'000));
  CHECK(load->outcome().items[0].status != Status::ok);

  CHECK(end_of(node.client->exists("ns", keys, {})).items[0].status == Status::ok);
  CHECK(closed() == closed_before);
  node.platter->is_held = false;
}

TEST_CASE(
    "pins over a quota: cold pages are misses at once, the node counts as alive, unpin helps") {
  TieredNode node(true);
  node.put_all();
  const std::string keys[] = {"key0", "key1", "key2"};
  const auto advise = [&](MemoryWish wish) {
    return end_of(node.client->advise_pages("ns", keys, wish, {})).items[0].status;
  };
  REQUIRE(advise(MemoryWish::pin) == Status::ok);
  NamespaceRules rules;
  rules.quota_bytes = 2 * CHUNK;
  REQUIRE(node.server->set_rules("ns", rules) == Status::ok);
  REQUIRE(eventually([&] { return node.server->spaces().back().bytes < 4 * CHUNK; }));

  const std::uint64_t reads = node.platter->reads;
  std::vector<Memory> into;
  const CallOptions patient{.timeout_ms = 600'000};  // more than the test has
  CHECK(node.get({5, 0, 6, 1}, into, patient) ==
        std::vector{Status::miss, Status::ok, Status::miss, Status::ok});
  CHECK(node.platter->reads == reads);
  CHECK(node.put(CHUNKS) == Status::full);
  CHECK(end_of(node.client->advise_pages("ns", std::vector<std::string>{"key5"}, MemoryWish::load,
                                         patient))
            .items[0]
            .status == Status::full);

  CHECK(advise(MemoryWish::unpin) == Status::ok);
  CHECK(node.has(5));
}

TEST_CASE("advice can be cancelled: nothing more is loaded") {
  TieredNode node(true);
  node.put_all();
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < CHUNKS / 2; ++i) keys.push_back("key" + std::to_string(i));
  node.platter->is_held = true;
  const auto load = node.client->advise_pages("ns", keys, MemoryWish::load, {});
  REQUIRE(eventually([&] { return node.server->counts().store.loading_bytes > 0; }));

  load->cancel();
  REQUIRE(load->wait(5'000));
  CHECK(load->outcome().status == Status::cancelled);
  node.platter->is_held = false;

  REQUIRE(eventually([&] { return node.server->counts().store.loading_bytes == 0; }));
  CHECK(node.server->counts().store.loaded_pieces < keys.size());
}

TEST_CASE("a drop is answered once the disk cannot bring it back") {
  TieredNode node(true);
  node.put_all();
  const std::string keys[] = {"key0"};
  node.platter->is_held = true;

  const auto drop = node.client->drop_pages("ns", keys, {});
  CHECK(!drop->wait(100));
  CHECK(node.has(CHUNKS - 1));  // nobody else waits for it
  node.platter->is_held = false;

  CHECK(end_of(drop).value == 1);
  CHECK(!node.has(0));
}
