#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "arena_map.h"
#include "checksum.h"
#include "copy.h"
#include "fake_node.h"
#include "local_cluster.h"
#include "name.h"
#include "transport/unix.h"

using namespace gd2fs;

namespace {

/// Nodes whose arenas can be shared.
class SharedCluster : public LocalCluster {
 public:
  explicit SharedCluster(std::size_t nodes = 1, std::size_t arena_bytes = 64 * MiB)
      : LocalCluster(nodes, arena_bytes, {}, {}, Rung::memfd) {}

  std::unique_ptr<Client> client(Transport transport, bool is_verifying = true) const {
    ClientOptions options = LocalCluster::options();
    options.transport = transport;
    options.is_verifying = is_verifying;
    return LocalCluster::client(options);
  }
};

Status put_page(Client& client, const std::string& key, Memory& value) {
  const std::vector<std::string> keys{key};
  const std::vector<Buffer> from{whole(value)};
  return end_of(client.put_pages("ns", keys, from, {})).items[0].status;
}

Status get_page(Client& client, const std::string& key, Memory& into) {
  const std::vector<std::string> keys{key};
  const std::vector<Buffer> to{whole(into)};
  return end_of(client.get_pages("ns", keys, to, {})).items[0].status;
}

bool is_memfd_mapped() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("memfd:gd2fs-arena") != std::string::npos) return true;
  return false;
}

Arena shared_arena(Rung rung = Rung::memfd) {
  ArenaOptions options;
  options.bytes = 4 * MiB;
  options.rung = rung;
  options.is_shared = true;
  auto arena = Arena::open(options);
  REQUIRE_MESSAGE(arena, (arena ? "" : arena.error().message));
  return std::move(*arena);
}

ViewRef view_page(Client& client, const std::string& key) {
  const auto operation = client.view_page("ns", key, {});
  return end_of(operation).view;
}

/// A page whose bytes follow from its key and a round: so any whole value of it can be told.
Memory page_of(std::uint64_t key, std::uint64_t round, std::size_t bytes) {
  Memory value = random_bytes(bytes, key * 1000 + round);
  std::memcpy(value.data(), &round, sizeof round);  // a page has more bytes than that
  return value;
}

}  // namespace

TEST_CASE("pages and files read over shared memory are what was written, on every transport") {
  SharedCluster cluster(2);
  for (const Transport transport :
       {Transport::automatic, Transport::shm, Transport::unix_socket, Transport::tcp}) {
    for (const bool is_verifying : {true, false}) {
      auto client = cluster.client(transport, is_verifying);
      CAPTURE(transport_name(transport));
      for (const std::size_t bytes : {1u, 4096u, 65536u, 65537u, 1000000u, 5u << 20}) {
        Memory value = random_bytes(bytes, bytes);
        const std::string name = std::string(transport_name(transport)) +
                                 std::to_string(is_verifying) + "-" + std::to_string(bytes);
        Memory back(bytes);
        CHECK(put_page(*client, name, value) == Status::ok);
        CHECK(get_page(*client, name, back) == Status::ok);
        CHECK(back == value);

        const std::vector<Buffer> from{whole(value)};
        const std::string path = "/ns/" + name;
        CHECK(end_of(client->put(path, from, {})).status == Status::ok);
        const std::size_t skip = bytes / 3;
        Memory part(bytes - skip);
        const std::vector<Buffer> to{whole(part)};
        CHECK(end_of(client->read(path, skip, to, {})).status == Status::ok);
        CHECK(std::equal(part.begin(), part.end(), value.begin() + std::ptrdiff_t(skip)));
      }
      const bool is_shm = transport == Transport::automatic || transport == Transport::shm;
      CHECK((cluster.server(0).counts().leases > 0) == is_shm);
    }
    cluster.stop(0);
    cluster.start(0);
    cluster.stop(1);
    cluster.start(1);
  }
}

TEST_CASE("a sealed arena can be mapped for reading, and nothing else") {
  for (const Rung rung : {Rung::memfd, Rung::hugetlb}) {
    ArenaOptions options;
    options.bytes = 4 * MiB;
    options.rung = rung;
    options.is_shared = true;
    auto arena = Arena::open(options);
    if (!arena) {
      MESSAGE("without hugepages: " << arena.error().message);
      REQUIRE(rung == Rung::hugetlb);
      continue;
    }
    REQUIRE(arena->is_sealed());
    arena->memory()[5] = std::byte{9};
    const int fd = arena->descriptor();
    const std::size_t bytes = arena->bytes();
    const std::string path = "/proc/self/fd/" + std::to_string(fd);

    void* const seen = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
    REQUIRE(seen != MAP_FAILED);
    CHECK(static_cast<const std::byte*>(seen)[5] == std::byte{9});
    CHECK(mprotect(seen, bytes, PROT_READ | PROT_WRITE) != 0);
    CHECK(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    CHECK(pwrite(fd, "x", 1, 0) < 0);
    CHECK(ftruncate(fd, 0) != 0);
    CHECK(ftruncate(fd, static_cast<off_t>(2 * bytes)) != 0);
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) != 0);
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) != 0);
    const tcp::Descriptor again(open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (again) {
      CHECK(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, again.get(), 0) == MAP_FAILED);
      CHECK(ftruncate(again.get(), 0) != 0);
      CHECK(pwrite(again.get(), "x", 1, 0) < 0);
    }
    munmap(seen, bytes);
    std::memset(arena->memory().data(), 1, bytes);  // its own mapping stays writable
  }
}

TEST_CASE("a reader maps nothing that is unsealed or of another size") {
  Arena arena = shared_arena();
  const auto sealed = tcp::Descriptor(dup(arena.descriptor()));
  const auto open_one = tcp::Descriptor(memfd_create("unsealed", MFD_CLOEXEC));
  REQUIRE(ftruncate(open_one.get(), 4 * MiB) == 0);

  CHECK(ArenaMap::open(sealed, arena.bytes()));
  CHECK_FALSE(ArenaMap::open(sealed, arena.bytes() * 2));
  CHECK_FALSE(ArenaMap::open(open_one, 4 * MiB));
  CHECK_FALSE(ArenaMap::open(tcp::Descriptor(), 4 * MiB));
}

TEST_CASE("copies of every size and alignment are the bytes that were there, and no byte more") {
  const Memory from = random_bytes(200'000, 3);
  for (const std::size_t bytes : {0u, 1u, 63u, 4096u, 32'768u, 65'535u, 65'536u, 131'073u}) {
    for (const std::size_t skew : {0u, 1u, 31u, 64u}) {
      Memory to(bytes + 256, std::byte{0x5a});
      copy_bytes(to.data() + skew, std::span(from).subspan(skew, bytes));
      copy_fence();
      CHECK(std::equal(from.begin() + std::ptrdiff_t(skew),
                       from.begin() + std::ptrdiff_t(skew + bytes),
                       to.begin() + std::ptrdiff_t(skew)));
      CHECK(to[skew + bytes] == std::byte{0x5a});
      CHECK((skew == 0 || to[skew - 1] == std::byte{0x5a}));
    }
  }
}

TEST_CASE("a transport that is asked for and cannot be had says why") {
  LocalCluster plain(1);
  ClientOptions options = plain.options();
  options.transport = Transport::shm;
  auto client = LocalCluster::client(options);
  const Outcome outcome = end_of(client->stat("/ns/file", {}));
  CHECK(outcome.status == Status::unavailable);
  CHECK(outcome.message.find("cannot be shared") != std::string::npos);
  CHECK(parse_transport("shm").operator bool());
  CHECK_FALSE(parse_transport("udp"));
}

TEST_CASE("readers over shared memory get a whole value or a miss while a small arena turns over") {
  constexpr std::size_t KEYS = 24, BYTES = 300'000, ROUNDS = 40;
  SharedCluster cluster(1, 16 * MiB);
  std::atomic<bool> is_over{false};
  std::atomic<std::size_t> hits{0};
  std::thread writer([&] {
    auto client = cluster.client(Transport::automatic);
    for (std::uint64_t round = 0; round < ROUNDS; ++round) {
      for (std::uint64_t key = 0; key < KEYS; ++key) {
        Memory value = page_of(key, round, BYTES);
        const std::vector<std::string> keys{std::to_string(key)};
        end_of(client->drop_pages("ns", keys, {}));
        put_page(*client, keys[0], value);
        Memory filler = random_bytes(900'000, round * KEYS + key);  // makes others go
        put_page(*client, "filler" + std::to_string(round * KEYS + key), filler);
      }
    }
    is_over = true;
  });
  std::vector<std::thread> readers;
  for (const bool is_verifying : {true, false}) {
    readers.emplace_back([&, is_verifying] {
      auto client = cluster.client(Transport::shm, is_verifying);
      Memory into(BYTES);
      for (std::uint64_t key = 0; !is_over; key = (key + 1) % KEYS) {
        if (get_page(*client, std::to_string(key), into) != Status::ok) continue;
        std::uint64_t round = 0;
        std::memcpy(&round, into.data(), sizeof round);  // as page_of wrote it
        REQUIRE(round < ROUNDS);
        CHECK(into == page_of(key, round, BYTES));
        ++hits;
      }
    });
  }
  writer.join();
  for (std::thread& reader : readers) reader.join();
  CHECK(hits > 0);
  CHECK(eventually([&] { return cluster.server(0).counts().held_bytes == 0; }));
  CHECK(eventually([&] { return cluster.server(0).counts().store.zombie_bytes == 0; }));
}

TEST_CASE("a view is the bytes in place, keeps them through a drop, and gives them back") {
  SharedCluster cluster(1, 64 * MiB);
  auto client = cluster.client(Transport::shm);
  Memory value = random_bytes(3'000'000, 1);
  REQUIRE(put_page(*client, "page", value) == Status::ok);

  ViewRef view = view_page(*client, "page");

  REQUIRE(view != nullptr);
  CHECK_FALSE(view->is_copy());
  CHECK(view->bytes() == value.size());
  CHECK(cluster.server(0).counts().views == 1);
  const std::vector<std::string> keys{"page"};
  end_of(client->drop_pages("ns", keys, {}));
  for (int filler = 0; filler < 80; ++filler) {
    Memory other = random_bytes(1'000'000, 100 + std::uint64_t(filler));
    put_page(*client, "other" + std::to_string(filler), other);
  }
  Memory seen;
  for (const View::Part& part : view->parts()) seen.insert(seen.end(), part.begin(), part.end());
  CHECK(seen == value);
  CHECK(cluster.server(0).counts().store.zombie_bytes > 0);

  view = nullptr;

  CHECK(eventually([&] { return cluster.server(0).counts().views == 0; }));
  CHECK(eventually([&] { return cluster.server(0).counts().store.zombie_bytes == 0; }));
  CHECK(view_page(*client, "page") == nullptr);
}

TEST_CASE("views past the budget are copies, and a view outlives its client and its node") {
  SharedCluster cluster(1, 64 * MiB);
  auto client = cluster.client(Transport::automatic);
  Memory value = random_bytes(3 * MiB, 2);
  REQUIRE(put_page(*client, "page", value) == Status::ok);

  ViewRef first = view_page(*client, "page");
  ViewRef second = view_page(*client, "page");  // 4 MiB are a 16th

  CHECK_FALSE(first->is_copy());
  CHECK(second->is_copy());
  CHECK(std::equal(value.begin(), value.end(), second->parts()[0].begin()));
  client = nullptr;
  CHECK(cluster.server(0).counts().views == 1);
  ViewRef third = view_page(*cluster.client(Transport::automatic), "page");
  CHECK(third->is_copy());
  first = nullptr;
  CHECK(eventually([&] { return cluster.server(0).counts().views == 0; }));

  first = view_page(*cluster.client(Transport::automatic), "page");
  CHECK_FALSE(first->is_copy());
  cluster.stop(0);
  CHECK(is_memfd_mapped());
  Memory seen;
  for (const View::Part& part : first->parts()) seen.insert(seen.end(), part.begin(), part.end());
  CHECK(seen == value);
  first = nullptr;
  CHECK_FALSE(is_memfd_mapped());
}

TEST_CASE("views of files: any range, short at the end, and copies where there are holes") {
  SharedCluster cluster(2, 64 * MiB);
  auto client = cluster.client(Transport::shm);
  CallOptions options;
  options.chunk_bytes = 128 * KiB;
  Memory value = random_bytes(700'000, 5);
  const std::vector<Buffer> from{whole(value)};
  REQUIRE(end_of(client->put("/ns/file", from, options)).status == Status::ok);

  for (const std::uint64_t offset : {0u, 1u, 65'536u, 200'001u, 699'999u}) {
    const Outcome outcome = end_of(client->view_file("/ns/file", offset, 300'000, {}));
    REQUIRE(outcome.status == Status::ok);
    const std::size_t count = std::min<std::size_t>(300'000, value.size() - offset);
    CHECK(outcome.view->bytes() == count);
    CHECK_FALSE(outcome.view->is_copy());
    Memory seen;
    for (const auto& part : outcome.view->parts())
      seen.insert(seen.end(), part.begin(), part.end());
    CHECK(std::equal(seen.begin(), seen.end(), value.begin() + std::ptrdiff_t(offset)));
  }
  CHECK(end_of(client->view_file("/ns/file", 700'000, 10, {})).view->bytes() == 0);
  CHECK(end_of(client->view_file("/ns/none", 0, 10, {})).status == Status::gone);

  REQUIRE(end_of(client->create("/ns/holes", {})).status == Status::ok);
  REQUIRE(end_of(client->write("/ns/holes", 100'000, from, {})).status == Status::ok);
  const Outcome holes = end_of(client->view_file("/ns/holes", 50'000, 60'000, {}));
  REQUIRE(holes.status == Status::ok);
  CHECK(holes.view->is_copy());
  CHECK(holes.view->parts()[0][49'999] == std::byte{0});
  CHECK(holes.view->parts()[0][50'000] == value[0]);
}

namespace {

/// A cluster of one real node, whose map also has a fake one; and a page that the fake one owns.
struct Pretended {
  // A port of its own gives it a socket name that no other test has.
  LocalCluster cluster{1,  64 * MiB,    {},
                       {}, Rung::plain, {"fake=127.0.0.1:" + std::to_string(free_port())}};
  Arena arena = shared_arena();
  std::string key;

  Pretended() {
    for (int number = 0; key.empty(); ++number)
      if (cluster.home_of(page_name("ns", std::to_string(number))) == 1)
        key = std::to_string(number);
  }

  Status get(const FakeNode::Answer& answer, bool gives_arena = true) {
    FakeNode fake(cluster.map().nodes[1], cluster.map(), arena, answer);
    fake.gives_arena = gives_arena;
    ClientOptions options = cluster.options();
    options.transport = Transport::shm;
    options.connect_ms = 500;
    options.timeout_ms = 3'000;
    auto client = LocalCluster::client(options);
    Memory into(1 * MiB);
    const Status status = get_page(*client, key, into);
    CHECK(fake.requests > 0);
    return status;
  }
};

wire::Lease good_lease(const Arena& arena, std::size_t bytes) {
  wire::Lease lease;
  for (std::size_t at = 0; at < bytes; at += BLOCK_BYTES)
    lease.data.hashes.push_back(
        checksum(arena.memory().subspan(at, std::min<std::size_t>(BLOCK_BYTES, bytes - at))));
  lease.data.pieces.push_back({.item = 0,
                               .hashes = static_cast<std::uint16_t>(lease.data.hashes.size()),
                               .length = static_cast<std::uint32_t>(bytes),
                               .offset = 0,
                               .tag = 7});
  lease.runs.push_back({0, bytes});
  return lease;
}

void say_lease(int fd, std::uint64_t request, const wire::Lease& lease) {
  wire::Bytes out;
  wire::encode_lease(out, request, lease, 0);
  const wire::ResponseItem item{.item = 0, .length = 1 * MiB, .gen = 7};
  wire::encode_response(out, request, std::span(&item, 1));
  FakeNode::say(fd, out);
}

}  // namespace

TEST_CASE("malformed leases end the stream and give no bytes") {
  Pretended world;
  const auto with = [&](const std::function<void(wire::Lease&)>& spoil) {
    return world.get([&](int fd, const wire::Header& header, const wire::Request&) {
      wire::Lease lease = good_lease(world.arena, 1 * MiB);
      spoil(lease);
      say_lease(fd, header.request, lease);
    });
  };
  // The page is asked of the fake node alone: what it does wrong leaves a miss.
  CHECK(with([](wire::Lease& lease) { lease.runs[0].at = 100 * MiB; }) != Status::ok);
  CHECK(with([](wire::Lease& lease) { lease.runs[0].at = ~std::uint64_t{0}; }) != Status::ok);
  CHECK(with([](wire::Lease& lease) { lease.runs[0].length -= 1; }) != Status::ok);
  CHECK(with([](wire::Lease& lease) { lease.runs[0].length = ~std::uint64_t{0}; }) != Status::ok);
  CHECK(with([](wire::Lease& lease) { lease.runs.push_back({0, 4096}); }) != Status::ok);
  CHECK(with([](wire::Lease& lease) { lease.runs.clear(); }) != Status::ok);
  CHECK(with([](wire::Lease& lease) { lease.data.hashes.pop_back(); }) != Status::ok);
  CHECK(with([](wire::Lease& lease) { lease.data.pieces[0].item = 9; }) != Status::ok);
  CHECK(with([](wire::Lease& lease) { lease.data.pieces[0].offset = 4096; }) != Status::ok);
  CHECK(with([](wire::Lease& lease) { lease.data.hashes[3] ^= 1; }) != Status::ok);
  CHECK(with([](wire::Lease& lease) { lease.id = 5; }) != Status::ok);  // a view was not asked for
}

TEST_CASE("memory that another user offers is not read") {
  if (geteuid() != 0) {
    MESSAGE("skipped: only root can listen as another user");
    return;
  }
  Pretended world;
  // Of this thread alone: its socket says whose it is from then on.
  REQUIRE(syscall(SYS_setresuid, -1, 65534, -1) == 0);
  FakeNode fake(world.cluster.map().nodes[1], world.cluster.map(), world.arena,
                [&](int fd, const wire::Header& header, const wire::Request&) {
                  say_lease(fd, header.request, good_lease(world.arena, 1 * MiB));
                });
  REQUIRE(syscall(SYS_setresuid, -1, 0, -1) == 0);
  ClientOptions options = world.cluster.options();
  options.connect_ms = 500;
  options.timeout_ms = 3'000;
  for (const Transport transport : {Transport::shm, Transport::automatic}) {
    options.transport = transport;
    Memory into(1 * MiB);
    CHECK(get_page(*LocalCluster::client(options), world.key, into) != Status::ok);
  }

  CHECK(fake.requests == 0);
}

TEST_CASE("leases without an arena, or that nobody confirms, give no bytes") {
  Pretended world;
  const auto answer = [&](int fd, const wire::Header& header, const wire::Request&) {
    say_lease(fd, header.request, good_lease(world.arena, 1 * MiB));
  };

  CHECK(world.get(answer, false) != Status::ok);
  CHECK(world.get(answer) != Status::ok);  // every byte was right, but the node never said so
}
