// Straight to memory of a GPU and from it. UCX's tcp and shared memory stand in for a card: the
// fake GPU's memory is open to them, and the driver counts what is copied by it.
#define DOCTEST_CONFIG_IMPLEMENT
#define GD2FS_TEST_RDMA
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstdio>
#include <thread>

#include "cuda/gpu.h"
#include "local_cluster.h"
#include "rpc.h"

using namespace gd2fs;
using testing::DeviceMemory;
using testing::Gpu;

namespace {

using Keys = std::vector<std::string>;

constexpr const char* TRANSPORTS[] = {"tcp", "posix,sysv"};
constexpr std::size_t BIG = 3 * MiB + 77;
const std::string PAGE = "page-" + std::to_string(BIG);  // of `there_and_back`

/// Two nodes and a client of theirs that takes memory of GPUs for what a card reaches.
class Fixture {
 public:
  explicit Fixture(const std::function<void(ClientOptions&)>& change = {}) : cluster_(2, 96 * MiB) {
    ClientOptions options = cluster_.options();
    options.rdma.is_direct_by_any = true;
    options.devices.bounce_bytes = 8 * MiB;
    options.devices.checked_one_in = 0;
    if (change) change(options);
    client_ = LocalCluster::client(options);
    // From the first answer on it is known how bytes travel.
    REQUIRE(end_of(client_->ping({})).status == Status::ok);
  }
  Client& operator*() { return *client_; }
  Client* operator->() { return client_.get(); }

 private:
  LocalCluster cluster_;
  std::unique_ptr<Client> client_;
};

/// Memory of a GPU that a client has told nodes of.
class Registered {
 public:
  Registered(Client& client, const Memory& content) : memory(content), client_(client) {
    REQUIRE(client_.register_memory(memory.all()).message.empty());
  }
  ~Registered() { CHECK(client_.deregister_memory(memory.all())); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

  const DeviceMemory memory;

 private:
  Client& client_;
};

Memory filled(std::size_t bytes) { return Memory(bytes, std::byte{0xEE}); }

Status put(Client& client, const std::string& key, const Buffer& from) {
  const Outcome out = end_of(client.put_pages("ns", Keys{key}, std::vector<Buffer>{from}, {}));
  return out.items.empty() ? out.status : out.items[0].status;
}

Status get(Client& client, const std::string& key, const Buffer& into) {
  const Outcome out = end_of(client.get_pages("ns", Keys{key}, std::vector<Buffer>{into}, {}));
  return out.items.empty() ? out.status : out.items[0].status;
}

/// One page there and back again. Its bytes are right, whichever way they went.
ClientCounts there_and_back(Client& client, std::size_t bytes) {
  const Memory value = random_bytes(bytes, bytes);
  const Registered from(client, value), into(client, filled(bytes));
  const std::string key = "page-" + std::to_string(bytes);
  CHECK(put(client, key, from.memory.all()) == Status::ok);
  CHECK(get(client, key, into.memory.all()) == Status::ok);
  CHECK(into.memory.content() == value);
  return client.counts();
}

}  // namespace

TEST_CASE("pages of a GPU go straight both ways, and small ones by way of the host") {
  for (const char* transports : TRANSPORTS) {
    CAPTURE(transports);
    setenv("GD2FS_TEST_UCX_TLS", transports, 1);
    Fixture client;
    for (const std::size_t bytes : {1ul, 65'536ul, 65'537ul, BIG, 17ul * MiB}) {
      CAPTURE(bytes);
      const long loaded = Gpu::the().copies_in(), saved = Gpu::the().copies_out();
      const ClientCounts before = client->counts();

      const ClientCounts after = there_and_back(*client, bytes);

      const std::size_t straight_in = bytes > 64 * KiB ? bytes : 0;
      const std::size_t straight_out = bytes > EAGER_BYTES_MAX ? bytes : 0;
      CHECK(after.direct_in_bytes - before.direct_in_bytes == straight_in);
      CHECK(after.direct_out_bytes - before.direct_out_bytes == straight_out);
      CHECK(after.bounced_in_bytes - before.bounced_in_bytes == bytes - straight_in);
      CHECK(after.bounced_out_bytes - before.bounced_out_bytes == bytes - straight_out);
      CHECK((Gpu::the().copies_in() == loaded) == (straight_in != 0));
      CHECK((Gpu::the().copies_out() == saved) == (straight_out != 0));
    }
    CHECK(client->counts().direct_refused == 0);
  }
}

TEST_CASE("what a GPU has written unsummed is read and checked by anyone") {
  Fixture client;
  const Memory value = random_bytes(BIG, 4);
  const Registered from(*client, value);
  REQUIRE(put(*client, "page", from.memory.all()) == Status::ok);
  Memory host(BIG);

  CHECK(get(*client, "page", whole(host)) == Status::ok);

  CHECK(host == value);
  CHECK(client->counts().direct_out_bytes == BIG);
}

TEST_CASE("a batch lies partly on a GPU, each page in several pieces, all of it registered") {
  Fixture client;
  constexpr std::size_t PAGES = 100, HALF = 10'007;
  Memory value = random_bytes(PAGES * 2 * HALF, 1), host = filled(PAGES * HALF);
  const Registered device(*client, filled(PAGES * HALF));
  REQUIRE(client->register_memory(whole(host)).message.empty());
  Keys keys;
  std::vector<Buffer> from, into;
  const std::vector<std::uint32_t> counts(PAGES, 2);
  for (std::size_t page = 0; page < PAGES; ++page) {
    keys.push_back("page-" + std::to_string(page));
    from.push_back({value.data() + page * 2 * HALF, 2 * HALF});
    into.push_back({host.data() + page * HALF, HALF});
    into.push_back(device.memory.part(page * HALF, HALF));
  }
  REQUIRE(end_of(client->put_pages("ns", keys, from, {})).status == Status::ok);

  const Outcome got = end_of(client->get_pages("ns", keys, {into, counts}, {}));

  REQUIRE(got.items.size() == PAGES);
  const Memory on_device = device.memory.content();
  for (std::size_t page = 0; page < PAGES; ++page) {
    CHECK(got.items[page].status == Status::ok);
    const std::byte* const expected = value.data() + page * 2 * HALF;
    CHECK(std::memcmp(host.data() + page * HALF, expected, HALF) == 0);
    CHECK(std::memcmp(on_device.data() + page * HALF, expected + HALF, HALF) == 0);
  }
  CHECK(client->counts().direct_in_bytes == PAGES * 2 * HALF);
  CHECK(client->deregister_memory(whole(host)));
}

TEST_CASE("files go straight, and a hole in them is zeros") {
  for (const char* transports : TRANSPORTS) {
    CAPTURE(transports);
    setenv("GD2FS_TEST_UCX_TLS", transports, 1);
    Fixture client;
    Memory value = random_bytes(11 * MiB + 77, 3);
    const Registered from(*client, value), into(*client, filled(value.size()));
    const std::vector<Buffer> source{from.memory.all()}, target{into.memory.all()};
    REQUIRE(end_of(client->put("/ns/file", source, {})).status == Status::ok);
    CHECK(end_of(client->read("/ns/file", 0, target, {})).status == Status::ok);
    CHECK(into.memory.content() == value);
    CHECK(client->counts().direct_in_bytes == value.size());
    CHECK(client->counts().direct_out_bytes == value.size());
  }
}

TEST_CASE("whatever cannot go straight bounces, and its bytes are right") {
  struct Way {
    const char* what;
    std::function<void(ClientOptions&)> change;
  };
  const Way ways[] = {
      {"policy",
       [](ClientOptions& o) { o.devices.is_load_direct = o.devices.is_save_direct = false; }},
      {"no cards", [](ClientOptions& o) { o.rdma.is_direct_by_any = false; }},
      {"tcp", [](ClientOptions& o) { o.transport = Transport::tcp; }},
      {"no way to see remote writes", [](ClientOptions&) { Gpu::the().order(-1); }},
  };
  for (const Way& way : ways) {
    CAPTURE(way.what);
    Fixture client(way.change);
    const DeviceMemory from(random_bytes(BIG, 9)), into(BIG);
    REQUIRE(client->register_memory(from.all()).message.empty());
    REQUIRE(client->register_memory(into.all()).message.empty());
    CHECK(put(*client, "page", from.all()) == Status::ok);
    CHECK(get(*client, "page", into.all()) == Status::ok);
    CHECK(into.content() == from.content());
    CHECK(client->counts().direct_in_bytes == 0);
    CHECK(client->counts().bounced_in_bytes == BIG);
    client->deregister_memory(from.all());
    client->deregister_memory(into.all());
    Gpu::the().order(100);
  }
}

TEST_CASE("memory of a GPU that nobody has registered bounces") {
  Fixture client;
  const DeviceMemory from(random_bytes(BIG, 9)), into(BIG);
  CHECK(put(*client, "page", from.all()) == Status::ok);
  CHECK(get(*client, "page", into.all()) == Status::ok);
  CHECK(into.content() == from.content());
  CHECK(client->counts().direct_in_bytes + client->counts().direct_out_bytes == 0);
  CHECK(client->direct_lack(into.all()) == "it is not registered");
}

TEST_CASE("why registered memory bounces is told") {
  Fixture client, none([](ClientOptions&options) { options.rdma.is_direct_by_any = false; });
  const Registered one(*client, filled(BIG)), other(*none, filled(BIG));
  Memory host(BIG);
  CHECK(client->direct_lack(one.memory.all()).empty());
  CHECK(client->direct_lack(whole(host)).empty());
  CHECK(none->direct_lack(other.memory.all()) == "no card moves the bytes");
}

TEST_CASE(
    "a request with more pieces than a frame can name is refused by its stream, and bounces") {
  Fixture client;
  constexpr std::size_t PAGES = 8, PIECES = 1024, PIECE = 96;
  const Memory value = random_bytes(PAGES * PIECES * PIECE, 5);
  const Registered from(*client, value), into(*client, filled(value.size()));
  Keys keys;
  std::vector<Buffer> source, target;
  for (std::size_t page = 0; page < PAGES; ++page) keys.push_back("page-" + std::to_string(page));
  for (std::size_t piece = 0; piece < PAGES * PIECES; ++piece) {
    source.push_back(from.memory.part(piece * PIECE, PIECE));
    target.push_back(into.memory.part(piece * PIECE, PIECE));
  }
  const std::vector<std::uint32_t> counts(PAGES, PIECES);

  const Outcome stored = end_of(client->put_pages("ns", keys, {source, counts}, {}));
  const Outcome got = end_of(client->get_pages("ns", keys, {target, counts}, {}));

  for (const ItemOutcome& each : stored.items) CHECK(each.status == Status::ok);
  for (const ItemOutcome& each : got.items) CHECK(each.status == Status::ok);
  CHECK(into.memory.content() == value);
  CHECK(client->counts().direct_refused > 0);
  CHECK(client->counts().bounced_in_bytes + client->counts().direct_in_bytes == value.size());
}

TEST_CASE("what cards have written is flushed where a GPU does not see it by itself") {
  Gpu::the().order(0);
  Fixture client;
  const long flushes = Gpu::the().flushes();
  there_and_back(*client, BIG);
  CHECK(client->counts().direct_in_bytes == BIG);
  CHECK(Gpu::the().flushes() > flushes);

  const Registered into(*client, filled(BIG));
  Gpu::the().fail("cuFlushGPUDirectRDMAWrites", -1, 700);
  CHECK(get(*client, PAGE, into.memory.all()) != Status::ok);
  Gpu::the().fail(nullptr, 0, 0);
  CHECK(client->counts().bounce_faults > 0);
  CHECK(get(*client, PAGE, into.memory.all()) == Status::ok);
  Gpu::the().order(100);
}

TEST_CASE(
    "a load that is checked is copied out again, and other bytes than promised do not count") {
  Fixture client([](ClientOptions& options) { options.devices.checked_one_in = 1; });
  const ClientCounts counts = there_and_back(*client, BIG);
  CHECK(counts.direct_in_bytes == BIG);
  CHECK(counts.checked_bytes == BIG);

  const Registered into(*client, filled(BIG));
  Gpu::the().spoil(1);
  CHECK(get(*client, PAGE, into.memory.all()) != Status::ok);
  Gpu::the().spoil(0);
  CHECK(get(*client, PAGE, into.memory.all()) == Status::ok);
}

TEST_CASE("one load in so many is checked") {
  Fixture client([](ClientOptions& options) { options.devices.checked_one_in = 4; });
  const Registered from(*client, random_bytes(100'000, 1)), into(*client, filled(100'000));
  REQUIRE(put(*client, "page", from.memory.all()) == Status::ok);
  for (int at = 0; at < 12; ++at) CHECK(get(*client, "page", into.memory.all()) == Status::ok);
  CHECK(client->counts().direct_in_bytes == 12 * 100'000);
  CHECK(client->counts().checked_bytes == 3 * 100'000);
}

TEST_CASE("a call that is cancelled touches nothing of the GPU after its end") {
  for (const char* transports : TRANSPORTS) {
    setenv("GD2FS_TEST_UCX_TLS", transports, 1);
    Fixture client;
    const Memory value = random_bytes(24 * MiB, 3), canary(value.size(), std::byte{0x5a});
    const Registered from(*client, value);
    REQUIRE(put(*client, "page", from.memory.all()) == Status::ok);
    std::mt19937 random(7);
    for (int round = 0; round < 10; ++round) {
      DeviceMemory into(value.size());
      REQUIRE(client->register_memory(into.all()).message.empty());
      const OperationRef operation =
          client->get_pages("ns", Keys{"page"}, std::vector<Buffer>{into.all()}, {});
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 8'000));
      operation->cancel();
      REQUIRE(operation->wait(60'000));
      const Outcome& outcome = operation->outcome();
      const bool is_whole = !outcome.items.empty() && outcome.items[0].status == Status::ok;
      if (is_whole) CHECK(into.content() == value);
      into.set(canary);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      CHECK(into.content() == canary);
      CHECK(client->deregister_memory(into.all()));
    }
  }
}

TEST_CASE("nobody here looks at memory that only cards reach") {
  void* const closed =
      mmap(nullptr, 2 * BLOCK_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(closed != MAP_FAILED);
  Rpc rpc(wire::Op::get, nullptr, NEVER_MS);
  const Buffer room{static_cast<std::byte*>(closed), 2 * BLOCK_BYTES};
  BufferCursor cursor(std::span(&room, 1));
  rpc.add({}, cursor, room.bytes);
  rpc.is_direct = rpc.keeps_placed = true;
  rpc.rewind();
  wire::DataTable table;
  table.pieces.push_back(
      {.item = 0, .hashes = 2, .length = 2 * BLOCK_BYTES, .offset = 0, .tag = 1});
  table.hashes = {1, 2};

  CHECK(rpc.is_next(table));
  CHECK(rpc.take_placed(table, true) == 0);

  CHECK_FALSE(rpc.has_corrupt());
  CHECK(rpc.bodies[0].moved == 2 * BLOCK_BYTES);
  REQUIRE(rpc.placed.size() == 1);
  CHECK(rpc.placed[0].hashes == table.hashes);
  munmap(closed, 2 * BLOCK_BYTES);
}

int main(int argc, char** argv) {
  if (!Gpu::the().is_there() || !Gpu::the().is_fake()) {
    std::puts("skipped: a real GPU takes a card to be reached, and this stands in for one");
    return 0;
  }
  if (!ucx_lack().empty()) {
    std::printf("skipped: %s\n", ucx_lack().c_str());
    return 0;
  }
  Gpu::the().open(1);
  return doctest::Context(argc, argv).run();
}
