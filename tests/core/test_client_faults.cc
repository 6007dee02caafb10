#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <sys/mman.h>

#include <chrono>
#include <set>

#include "local_cluster.h"
#include "proxy.h"

using namespace gd2fs;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

constexpr const char* PATH = "/ns/file";

/// One node behind a proxy.
struct Proxied {
  Proxy proxy;
  LocalCluster cluster;

  Proxied() : cluster(1, 128 * MiB, {proxy.address()}) { proxy.forward_to(cluster.address(0)); }
};

/// Memory of its own pages that can be forbidden: whoever touches it then crashes.
class Fenced {
 public:
  explicit Fenced(std::size_t bytes)
      : bytes_(bytes),
        at_(static_cast<std::byte*>(
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Fenced() { munmap(at_, bytes_); }
  std::vector<Buffer> buffers() const { return {{at_, bytes_}}; }
  void forbid() { REQUIRE(mprotect(at_, bytes_, PROT_NONE) == 0); }

 private:
  std::size_t bytes_;
  std::byte* at_;
};

void make_file(Client& client, Memory& value) {
  const std::vector<Buffer> from{whole(value)};
  REQUIRE(end_of(client.create(PATH, {})).status == Status::ok);
  REQUIRE(end_of(client.write(PATH, 0, from, {})).status == Status::ok);
}

Status read_status(Client& client, Memory& room, std::uint32_t timeout_ms = 2'000) {
  const std::vector<Buffer> into{whole(room)};
  return end_of(client.read(PATH, 0, into, {.timeout_ms = timeout_ms})).status;
}

}  // namespace

TEST_CASE("a listener that never answers is told from a node, in bounded time") {
  auto address = tcp::resolve({"127.0.0.1", 0});
  auto listener = tcp::listen_at(address->front());
  ClientOptions options;
  options.connect_ms = 200;
  options.seeds = {tcp::address_text(tcp::local_address(listener->get()))};
  const auto start = Clock::now();

  const auto client = Client::connect(options);

  REQUIRE(!client);
  CHECK(client.error().message.find("no answer within 200 ms") != std::string::npos);
  CHECK(Clock::now() - start < milliseconds(2'000));
}

TEST_CASE("a refused, an unknown and a malformed seed are told apart") {
  ClientOptions options;
  options.seeds = {"127.0.0.1:" + std::to_string(free_port())};
  CHECK(Client::connect(options).error().message.find("refused") != std::string::npos);

  options.seeds = {"no-such-host.invalid:7527"};
  const auto unknown = Client::connect(options);
  CHECK(unknown.error().message.find("no-such-host.invalid") != std::string::npos);

  options.seeds = {"127.0.0.1:seven"};
  CHECK(Client::connect(options).error().message.find("not an address") != std::string::npos);

  options.seeds = {};
  CHECK(!Client::connect(options).error().hint.empty());
}

TEST_CASE("a client of another cluster is told both names") {
  LocalCluster cluster(1);
  ClientOptions options = cluster.options();
  options.cluster = "production";

  const auto client = Client::connect(options);

  REQUIRE(!client);
  CHECK(client.error().message.find("`test`") != std::string::npos);
  CHECK(client.error().message.find("`production`") != std::string::npos);
}

TEST_CASE("any live seed serves") {
  LocalCluster cluster(2);
  cluster.stop(0);

  const auto client = cluster.client();
  const auto ping = client->ping({});

  CHECK(end_of(ping).is_partial);
  CHECK(ping->outcome().nodes[0].state == wire::NodeState::gone);
  CHECK(ping->outcome().nodes[0].name == "node-0");
  CHECK(ping->outcome().nodes[1].state == wire::NodeState::active);
}

TEST_CASE("a read that stalls ends at its deadline, and its memory is not touched afterwards") {
  Proxied world;
  auto client = world.cluster.client();
  Memory value = random_bytes(32 * MiB, 1);
  make_file(*client, value);
  const auto fenced = std::make_unique<Fenced>(value.size());
  world.proxy.stall_after(8 * MiB);
  const auto start = Clock::now();

  const auto got = client->read(PATH, 0, fenced->buffers(), {.timeout_ms = 300});
  CHECK(end_of(got).status == Status::expired);
  fenced->forbid();

  CHECK(Clock::now() - start < milliseconds(3'000));
  world.proxy.set(Proxy::Mode::pass);
  Memory room(value.size());
  CHECK(eventually([&] { return read_status(*client, room) == Status::ok; }));
  CHECK(room == value);
}

TEST_CASE("a write that stalls ends at its deadline, and its memory is not touched afterwards") {
  Proxied world;
  auto client = world.cluster.client();
  Memory value = random_bytes(1 * MiB, 1);
  make_file(*client, value);
  const auto fenced = std::make_unique<Fenced>(64 * MiB);
  world.proxy.stall_after(1);
  CHECK(end_of(client->ping({.timeout_ms = 50})).is_partial);
  REQUIRE(world.proxy.is_stalled());

  const auto written = client->write(PATH, 0, fenced->buffers(), {.timeout_ms = 300});
  const auto start = Clock::now();
  CHECK(end_of(written).status != Status::ok);
  fenced->forbid();

  CHECK(Clock::now() - start < milliseconds(3'000));
  world.proxy.set(Proxy::Mode::pass);
  Memory room(value.size());
  CHECK(eventually([&] { return read_status(*client, room) == Status::ok; }));
  CHECK(room == value);
}

TEST_CASE("a write cut off in mid-frame leaves the stream usable and the file as it was") {
  Proxied world;
  auto client = world.cluster.client();
  Memory value = random_bytes(100'000, 1);
  make_file(*client, value);
  for (int attempt = 0; attempt < 20; ++attempt) {
    const auto fenced = std::make_unique<Fenced>(48 * MiB);
    const auto written = client->write(PATH, 0, fenced->buffers(), {});
    std::this_thread::yield();
    written->cancel();
    end_of(written);
    fenced->forbid();
    if (written->outcome().status == Status::ok) make_file(*client, value);
  }

  Memory room(value.size());

  CHECK(end_of(client->ping({})).nodes[0].state == wire::NodeState::active);
  CHECK(read_status(*client, room) == Status::ok);
}

TEST_CASE("writes that are given up leave nothing at nodes") {
  LocalCluster cluster(2, 256 * MiB);
  auto client = cluster.client();
  Memory value = random_bytes(24 * MiB, 1);
  const std::vector<Buffer> from{whole(value)};
  std::mt19937 random(3);
  int given_up = 0;
  std::string statuses;
  std::uint64_t unknown_bytes = 0;  // of those given up during their COMMIT, which may be listed
  for (int round = 0; round < 30; ++round) {
    const auto written = client->put(PATH, from, {.timeout_ms = std::uint32_t(1 + random() % 30)});
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 15'000));
    if (round % 2 == 0) written->cancel();
    const Status status = end_of(written).status;
    given_up += status == Status::ok ? 0 : 1;
    statuses += std::to_string(static_cast<int>(status)) + " ";
    unknown_bytes += status == Status::unknown ? value.size() : 0;
  }

  CHECK(given_up > 5);
  const auto staged = [&](std::size_t node) {
    return cluster.server(node).counts().store.staged_bytes;
  };
  const bool is_well = eventually([&] { return staged(0) + staged(1) <= unknown_bytes; });
  CAPTURE(statuses);
  CAPTURE(staged(0));
  CAPTURE(staged(1));
  CHECK(is_well);
  CHECK(unknown_bytes < 15 * value.size());
}

TEST_CASE("cancel ends a stalled read at once, long before its deadline") {
  Proxied world;
  auto client = world.cluster.client();
  Memory value = random_bytes(8 * MiB, 1);
  make_file(*client, value);
  const auto fenced = std::make_unique<Fenced>(value.size());
  world.proxy.stall_after(1 * MiB);
  const auto got = client->read(PATH, 0, fenced->buffers(), {.timeout_ms = 60'000});
  REQUIRE(eventually([&] { return world.proxy.is_stalled(); }));

  got->cancel();

  CHECK(got->wait(2'000));
  fenced->forbid();
  CHECK(got->outcome().status == Status::cancelled);
  world.proxy.set(Proxy::Mode::pass);
  Memory room(value.size());
  CHECK(eventually([&] { return read_status(*client, room) == Status::ok; }));
}

TEST_CASE("a client that is destroyed ends what is in flight") {
  Proxied world;
  auto client = world.cluster.client();
  Memory value = random_bytes(8 * MiB, 1);
  make_file(*client, value);
  const auto fenced = std::make_unique<Fenced>(value.size());
  world.proxy.stall_after(1 * MiB);
  const auto got = client->read(PATH, 0, fenced->buffers(), {.timeout_ms = 60'000});
  REQUIRE(eventually([&] { return world.proxy.is_stalled(); }));

  client = nullptr;

  fenced->forbid();
  CHECK(got->is_done());
  CHECK(got->outcome().status == Status::cancelled);
  got->cancel();
}

TEST_CASE("a silent node costs one deadline; then its pages are misses at once, until it is back") {
  Proxied world;
  auto client = world.cluster.client();
  Memory value = random_bytes(5'000, 1);
  const std::vector<std::string> keys{"key"};
  const std::vector<Buffer> page{whole(value)};
  end_of(client->put_pages("ns", keys, page, {}));
  world.proxy.set(Proxy::Mode::stall);
  CHECK(end_of(client->exists("ns", keys, {.timeout_ms = 1'200})).items[0].status == Status::miss);

  const auto start = Clock::now();
  const auto missed = client->exists("ns", keys, {.timeout_ms = 1'200});

  CHECK(end_of(missed).items[0].status == Status::miss);
  CHECK(Clock::now() - start < milliseconds(600));
  world.proxy.set(Proxy::Mode::pass);
  CHECK(eventually(
      [&] { return end_of(client->exists("ns", keys, {})).items[0].status == Status::ok; }));
}

TEST_CASE(
    "a node that stops in mid-read ends it in bounded time, and serves again once it is back") {
  LocalCluster cluster(1, 128 * MiB);
  auto client = cluster.client();
  Memory value = random_bytes(64 * MiB, 1);
  make_file(*client, value);
  Memory room(value.size());
  const std::vector<Buffer> into{whole(room)};
  const auto got = client->read(PATH, 0, into, {});

  cluster.stop(0);

  const Status status = end_of(got).status;
  CHECK((status == Status::ok || status == Status::unavailable || status == Status::miss));
  cluster.start(0);
  CHECK(eventually(
      [&] { return end_of(client->ping({})).nodes[0].state == wire::NodeState::active; }));
  CHECK(read_status(*client, room) == Status::gone);
  make_file(*client, value);
  CHECK(read_status(*client, room) == Status::ok);
  CHECK(room == value);
}

TEST_CASE("pages of a node that is down go to the next of their order, and are found there") {
  LocalCluster cluster(3);
  auto client = cluster.client();
  cluster.stop(1);
  std::vector<std::string> keys;
  std::vector<Memory> values;
  std::vector<Buffer> from;
  for (std::uint64_t at = 0; at < 60; ++at) {
    keys.push_back("key-" + std::to_string(at));
    values.push_back(random_bytes(1'000, at));
  }
  for (Memory& value : values) from.push_back(whole(value));
  std::vector<Memory> room(60, Memory(1'000));
  std::vector<Buffer> into;
  for (Memory& each : room) into.push_back(whole(each));

  const auto put = client->put_pages("ns", keys, from, {});
  for (const ItemOutcome& item : end_of(put).items) CHECK(item.status == Status::ok);
  const auto got = client->get_pages("ns", keys, into, {});

  for (const ItemOutcome& item : end_of(got).items) CHECK(item.status == Status::ok);
  CHECK(room == values);
}

TEST_CASE("bytes changed on their way are never handed out") {
  Proxied world;
  ClientOptions options = world.cluster.options();
  auto client = world.cluster.client(options);
  Memory value = random_bytes(16 * MiB, 1);
  make_file(*client, value);
  world.proxy.set(Proxy::Mode::corrupt);

  for (int attempt = 0; attempt < 10; ++attempt) {
    Memory room(value.size());
    const Status status = read_status(*client, room);
    if (status == Status::ok) {
      CHECK(room == value);
    } else {
      CHECK((status == Status::miss || status == Status::unavailable));
    }
  }

  world.proxy.set(Proxy::Mode::pass);
  Memory room(value.size());
  CHECK(eventually([&] { return read_status(*client, room) == Status::ok; }));
  CHECK(room == value);
}

TEST_CASE("connections cut at any moment: what is acknowledged stays, what is read was written") {
  Proxied world;
  auto client = world.cluster.client();
  constexpr std::size_t BYTES = 3 * MiB;
  Memory first(BYTES, std::byte{0});
  make_file(*client, first);
  std::set<int> possible{0};
  std::atomic<bool> is_over{false};
  std::thread cutter([&] {
    std::mt19937 random(1);
    pollfd none{-1, 0, 0};
    while (!is_over) {
      poll(&none, 0, static_cast<int>(random() % 20));
      world.proxy.cut();
    }
  });

  for (int at = 1; at < 100; ++at) {
    Memory value(BYTES, std::byte(static_cast<unsigned char>(at)));
    const std::vector<Buffer> from{whole(value)};
    const Status written = end_of(client->write(PATH, 0, from, {.timeout_ms = 2'000})).status;
    if (written == Status::ok) possible.clear();
    possible.insert(at);
    Memory room(BYTES);
    if (read_status(*client, room, 1'000) != Status::ok) continue;
    CHECK(possible.count(std::to_integer<int>(room[0])) == 1);
    CHECK(std::all_of(room.begin(), room.end(), [&](std::byte each) { return each == room[0]; }));
  }

  is_over = true;
  cutter.join();
  Memory room(BYTES);
  const bool is_last_acknowledged = possible.size() == 1;
  const auto is_readable = [&] { return read_status(*client, room) == Status::ok; };
  CHECK((!is_last_acknowledged || eventually(is_readable)));
  const std::vector<Buffer> from{whole(first)};
  CHECK(eventually([&] { return end_of(client->write(PATH, 0, from, {})).status == Status::ok; }));
  CHECK(eventually(is_readable));
  CHECK(room == first);
}

namespace {

/// One node with two addresses, each behind a proxy of its own: two paths.
struct TwoPaths {
  Proxy first;
  Proxy second;
  LocalCluster cluster;

  TwoPaths() : cluster(1, 256 * MiB, {first.address() + "+" + second.address()}) {
    first.forward_to(cluster.address(0));
    second.forward_to(cluster.address(0));
  }
  std::unique_ptr<Client> client() const {
    ClientOptions options = cluster.options();
    options.seeds = {first.address()};
    options.transport = Transport::tcp;
    return cluster.client(options);
  }
};

}  // namespace

TEST_CASE("a path that goes silent in mid-read costs time, not the read") {
  TwoPaths world;
  auto client = world.client();
  Memory value = random_bytes(64 * MiB, 1);
  make_file(*client, value);
  Memory room(value.size());
  world.second.stall_after(4 * MiB);

  CHECK(read_status(*client, room, 20'000) == Status::ok);

  CHECK(world.second.is_stalled());
  CHECK(room == value);
}

TEST_CASE("a path that goes silent in mid-write costs time, not the write") {
  TwoPaths world;
  auto client = world.client();
  Memory value = random_bytes(64 * MiB, 2);
  make_file(*client, value);
  const std::vector<Buffer> from{whole(value)};
  world.second.stall_after(1);

  CHECK(end_of(client->write(PATH, 0, from, {.timeout_ms = 20'000})).status == Status::ok);

  Memory room(value.size());
  CHECK(read_status(*client, room, 20'000) == Status::ok);
  CHECK(room == value);
}

TEST_CASE("calls that change a file go by the path that works, and are not lost in a dead one") {
  TwoPaths world;
  auto client = world.client();
  Memory value = random_bytes(8 * MiB, 3);
  make_file(*client, value);
  for (int round = 0; round < 3; ++round) {
    world.second.set(Proxy::Mode::stall);
    const auto stalled_at = Clock::now();  // until what was heard before is no longer fresh
    REQUIRE(eventually([&] { return Clock::now() - stalled_at > milliseconds(20); }));
    for (int at = 0; at < 4; ++at) {
      const std::string path = "/ns/" + std::to_string(round) + "-" + std::to_string(at);
      CHECK(end_of(client->create(path, {.timeout_ms = 20'000})).status == Status::ok);
      CHECK(end_of(client->unlink(path, {.timeout_ms = 20'000})).status == Status::ok);
    }
    world.second.set(Proxy::Mode::pass);
    Memory room(value.size());
    CHECK(read_status(*client, room, 20'000) == Status::ok);
    CHECK(room == value);
  }
}

TEST_CASE("a path that is back is used again") {
  TwoPaths world;
  auto client = world.client();
  Memory value = random_bytes(32 * MiB, 4);
  make_file(*client, value);
  Memory room(value.size());
  world.second.set(Proxy::Mode::stall);
  CHECK(read_status(*client, room, 20'000) == Status::ok);
  world.second.set(Proxy::Mode::pass);

  const auto is_used = [&] {
    world.second.stall_after(8 * MiB);
    const Status status = read_status(*client, room, 20'000);
    const bool is_hit = world.second.is_stalled();
    world.second.set(Proxy::Mode::pass);
    return status == Status::ok && is_hit;
  };
  CHECK(eventually(is_used));
  CHECK(room == value);
}

TEST_CASE("pages survive a path that dies, too") {
  TwoPaths world;
  auto client = world.client();
  constexpr std::size_t COUNT = 256;
  constexpr std::size_t BYTES = 128 * KiB;
  Memory values = random_bytes(COUNT * BYTES, 5);
  Memory room(values.size());
  std::vector<std::string> keys;
  std::vector<Buffer> from, into;
  for (std::size_t at = 0; at < COUNT; ++at) {
    keys.push_back("key-" + std::to_string(at));
    from.push_back({values.data() + at * BYTES, BYTES});
    into.push_back({room.data() + at * BYTES, BYTES});
  }
  world.second.stall_after(100);
  const auto put = client->put_pages("ns", keys, from, {.timeout_ms = 20'000});
  for (const ItemOutcome& item : end_of(put).items)
    CHECK((item.status == Status::ok || item.status == Status::have));
  world.second.set(Proxy::Mode::pass);
  world.second.stall_after(2 * MiB);
  const auto got = client->get_pages("ns", keys, into, {.timeout_ms = 20'000});

  for (const ItemOutcome& item : end_of(got).items) CHECK(item.status == Status::ok);
  CHECK(room == values);
}

TEST_CASE("deadlines that pass before there is a stream end their calls, and nothing else") {
  LocalCluster cluster(3);
  Memory value = random_bytes(8'000, 1);
  const std::vector<std::string> keys{"a", "b", "c", "d", "e", "f", "g", "h"};
  const std::vector<Buffer> from(keys.size(), whole(value));
  for (int round = 0; round < 40; ++round) {
    auto client = cluster.client();
    std::vector<OperationRef> calls;
    for (int call = 0; call < 100; ++call)
      calls.push_back(client->put_pages("ns", keys, from, {.timeout_ms = 1}));
    for (const OperationRef& call : calls) end_of(call);
    CHECK(end_of(client->put_pages("ns", keys, from, {})).items[0].status != Status::unavailable);
  }
}
