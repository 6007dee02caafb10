// Transfers over UCX's tcp and shared memory, in one process and between two. No RDMA device is
// needed: the same calls drive one.
#define DOCTEST_CONFIG_IMPLEMENT
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "checksum.h"
#include "ucx_side.h"
#include "wire.h"

using namespace gd2fs;
using Bytes = std::vector<std::byte>;

extern char** environ;

namespace {

// `self` is what a worker uses towards its own process.
#ifdef __SANITIZE_ADDRESS__  // takes the other process's addresses, which cma names, for its own
constexpr const char* TRANSPORTS[] = {"tcp", "posix,sysv"};
#else
constexpr const char* TRANSPORTS[] = {"tcp", "posix,sysv", "posix,sysv,cma"};
#endif

Bytes random_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(count);
  for (std::size_t at = 0; at + 8 <= count; at += 8) {
    const std::uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, sizeof word);  // within `bytes`
  }
  return bytes;
}

std::uint64_t address_of(const Bytes& bytes, std::size_t at = 0) {
  return reinterpret_cast<std::uintptr_t>(bytes.data() + at);  // for a peer, as a number
}

/// Over UCX's shared memory an endpoint does not close while its peer stands still, or is gone.
void end_node(UcxSide& node, std::unique_ptr<ucx::Endpoint>& endpoint, ucx::Worker* other) {
  bool is_closed = false;
  node.worker->close(std::move(endpoint), [&] { is_closed = true; });
  progress_until(
      node.worker.get(), other, [&] { return is_closed; }, 200);
  node.worker = nullptr;
  REQUIRE(is_closed);
}

/// A node and a client with registered memory, connected.
struct Pair {
  explicit Pair(const std::string& transports, std::size_t bytes)
      : node(transports),
        client(transports),
        arena(random_bytes(bytes, 1)),
        sink(bytes),
        arena_memory(node.take(arena)),
        sink_memory(client.take(sink)) {
    auto connected = node.worker->connect(client.worker->address(), [this] { is_broken = true; });
    REQUIRE_MESSAGE(connected, (connected ? "" : connected.error().message));
    endpoint = std::move(*connected);
    auto unpacked = endpoint->unpack(sink_memory->key());
    REQUIRE_MESSAGE(unpacked, (unpacked ? "" : unpacked.error().message));
    key = *unpacked;
  }
  ~Pair() {
    if (endpoint != nullptr) close();
  }

  void start(ucx::Way way, std::size_t at, std::size_t bytes, std::function<void(bool)> ended) {
    const ucx::Move move{std::span(arena).subspan(at, bytes), address_of(sink, at), key.get()};
    endpoint->transfer(way, std::span(&move, 1), arena_memory, {key}, std::move(ended));
  }
  bool run(ucx::Way way, std::size_t at, std::size_t bytes) {
    int ended = -1;
    start(way, at, bytes, [&](bool is_whole) { ended = is_whole; });
    REQUIRE(progress_until(node.worker.get(), client.worker.get(), [&] { return ended >= 0; }));
    return ended == 1;
  }
  void close() {
    key = nullptr;
    end_node(node, endpoint, client.worker.get());
  }

  UcxSide node, client;
  Bytes arena, sink;
  ucx::MemoryRef arena_memory, sink_memory;
  std::unique_ptr<ucx::Endpoint> endpoint;
  ucx::RemoteKeyRef key;
  bool is_broken = false;
};

#define NEEDS_UCX()                   \
  if (!ucx_lack().empty()) {          \
    MESSAGE("skipped: ", ucx_lack()); \
    return;                           \
  }

}  // namespace

TEST_CASE("a library that is not there, or another one, is named with what helps") {
  auto none = ucx::Library::open("/nowhere/libucp.so.0");
  auto other = ucx::Library::open("libc.so.6");

  REQUIRE(!none);
  REQUIRE(!other);
  CHECK(none.error().message.find("/nowhere/libucp.so.0") != std::string::npos);
  CHECK(other.error().message == "libc.so.6 is not libucp");
  CHECK(none.error().hint.find("gd2fs[rdma]") != std::string::npos);
}

TEST_CASE("the oldest UCX that is taken is 1.16") {
  const auto fault_of = [](const char* minor) {
    setenv("FAKE_UCP_MINOR", minor, 1);
    auto opened = ucx::Library::open(GD2FS_FAKE_UCP);
    return opened ? std::string() : opened.error().message;
  };

  CHECK(fault_of("16") == "");
  CHECK(fault_of("23") == "");
  CHECK(fault_of("15") == std::string(GD2FS_FAKE_UCP) + " is UCX 1.15.0; 1.16 or newer is needed");
}

TEST_CASE("the signals of crashes stay the process's own") {
  NEEDS_UCX();
  struct sigaction before {};
  struct sigaction after {};
  sigaction(SIGSEGV, nullptr, &before);

  const UcxSide side("tcp");

  sigaction(SIGSEGV, nullptr, &after);
  CHECK((before.sa_handler == after.sa_handler));
}

TEST_CASE("whether cards may move the bytes is read from the list of transports as UCX reads it") {
  for (const char* list : {"all", "rc", "tcp,rc_mlx5", "ud_v,self", "ib", "dc_x", "^shm,dc", "^tcp",
                           "^rc_verbs,ud,dc", "^rc,ud", "\\rc_mlx5"}) {
    CAPTURE(list);
    CHECK(ucx::allows_cards(list));
  }
  for (const char* list : {"", "tcp", "posix,sysv", "tcp,cuda_copy,cuda_ipc", "^ib", "^shm,dc,ib",
                           "^rc,ud,dc", "sockcm"}) {
    CAPTURE(list);
    CHECK_FALSE(ucx::allows_cards(list));
  }
}

TEST_CASE("transports that are not there are named") {
  NEEDS_UCX();
  auto context = ucx::Context::open(ucx_options("nosuchtransport"));

  REQUIRE(!context);
  CHECK(context.error().message.find("nosuchtransport") != std::string::npos);
}

TEST_CASE("what has been put is there when the transfer has ended") {
  NEEDS_UCX();
  for (const std::string transports : TRANSPORTS) {
    CAPTURE(transports);
    for (const std::size_t bytes : {std::size_t{1}, 4 * KiB, 64 * KiB + 24, 8 * MiB}) {
      CAPTURE(bytes);
      Pair pair(transports, 8 * MiB);

      CHECK(pair.run(ucx::Way::put, 0, bytes));

      CHECK(std::equal(pair.sink.begin(), pair.sink.begin() + static_cast<std::ptrdiff_t>(bytes),
                       pair.arena.begin()));
      CHECK(std::all_of(pair.sink.begin() + static_cast<std::ptrdiff_t>(bytes), pair.sink.end(),
                        [](std::byte each) { return each == std::byte{0}; }));
    }
  }
}

TEST_CASE("what has been got is here when the transfer has ended") {
  NEEDS_UCX();
  for (const std::string transports : TRANSPORTS) {
    CAPTURE(transports);
    Pair pair(transports, 4 * MiB);
    pair.sink = random_bytes(4 * MiB, 7);

    CHECK(pair.run(ucx::Way::get, 4096, 3 * MiB));

    CHECK(std::equal(pair.arena.begin() + 4096, pair.arena.begin() + 4096 + 3 * MiB,
                     pair.sink.begin() + 4096));
  }
}

TEST_CASE("many transfers at once end once each, all whole") {
  NEEDS_UCX();
  for (const std::string transports : TRANSPORTS) {
    CAPTURE(transports);
    Pair pair(transports, 16 * MiB);
    std::vector<int> ended(64);

    for (std::size_t at = 0; at < ended.size(); ++at)
      pair.start(ucx::Way::put, at * 256 * KiB, 256 * KiB,
                 [&, at](bool is_whole) { ended[at] += is_whole ? 1 : 100; });
    REQUIRE(progress_until(pair.node.worker.get(), pair.client.worker.get(),
                           [&] { return pair.endpoint->transfers() == 0; }));
    pair.node.worker->progress();

    CHECK(std::all_of(ended.begin(), ended.end(), [](int each) { return each == 1; }));
    CHECK(pair.sink == pair.arena);
  }
}

TEST_CASE("a side that sleeps is woken by what the other does") {
  NEEDS_UCX();
  for (const std::string transports : TRANSPORTS) {
    CAPTURE(transports);
    Pair pair(transports, 1 * MiB);
    int ended = -1;

    pair.start(ucx::Way::put, 0, 1 * MiB, [&](bool is_whole) { ended = is_whole; });
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    int naps = 0;
    while (ended < 0 && std::chrono::steady_clock::now() < until) {
      bool is_busy = pair.node.worker->progress();
      is_busy |= pair.client.worker->progress();
      if (is_busy || !pair.node.worker->may_sleep(false) || !pair.client.worker->may_sleep(false))
        continue;
      pollfd watched[] = {{pair.node.worker->descriptor(), POLLIN, 0},
                          {pair.client.worker->descriptor(), POLLIN, 0}};
      CHECK(poll(watched, 2, 5'000) > 0);
      ++naps;
    }

    CHECK(ended == 1);
    MESSAGE(transports, ": slept ", naps, " times");
  }
}

TEST_CASE("transfers to a worker that is gone end, and not before the endpoint is closed") {
  NEEDS_UCX();
  for (const std::string transports : {"tcp", "posix,sysv"}) {
    CAPTURE(transports);
    Pair pair(transports, 32 * MiB);
    CHECK(pair.run(ucx::Way::put, 0, 4096));
    int whole = 0, broken = 0;

    for (std::size_t at = 0; at < 32; ++at)
      pair.start(ucx::Way::put, at * MiB, MiB,
                 [&](bool is_whole) { ++(is_whole ? whole : broken); });
    pair.node.worker->progress();
    pair.client.worker = nullptr;
    const Bytes canary(pair.sink.size(), std::byte{0x5a});
    std::copy(canary.begin(), canary.end(), pair.sink.begin());
    pair.close();

    CHECK(whole + broken == 32);
    CHECK(broken > 0);
    CHECK(pair.sink == canary);
  }
}

TEST_CASE("a worker that ends takes all its transfers with it") {
  NEEDS_UCX();
  for (const std::string transports : {"tcp", "posix,sysv"}) {
    CAPTURE(transports);
    Pair pair(transports, 32 * MiB);
    int ended = 0;
    for (std::size_t at = 0; at < 32; ++at)
      pair.start(ucx::Way::put, at * MiB, MiB, [&](bool) { ++ended; });

    pair.key = nullptr;
    pair.node.worker->close(std::move(pair.endpoint), [] {});
    pair.node.worker = nullptr;

    CHECK(ended == 32);
  }
}

TEST_CASE("workers that had to be left behind are counted, and there are no more than agreed") {
  NEEDS_UCX();
  ucx::Options options = ucx_options("tcp");
  options.stranded_max = ucx::Worker::stranded() + 2;
  const auto context = *ucx::Context::open(options);
  const auto strand_one = [&] { ucx::Worker::strand(std::move(*context->make_worker())); };

  strand_one();
  CHECK(context->make_worker());
  strand_one();
  const auto refused = context->make_worker();

  CHECK(ucx::Worker::stranded() == options.stranded_max);
  REQUIRE(!refused);
  CHECK(refused.error().message.find("left 2 UCX workers behind") != std::string::npos);
  CHECK((*ucx::Context::open(ucx_options("tcp")))->make_worker());
}

// ---- two processes -------------------------------------------------------------------

namespace {

#ifdef __SANITIZE_THREAD__  // many times slower
constexpr std::size_t CHILD_BYTES = 4 * MiB;
constexpr std::size_t PIECE_BYTES = 64 * KiB;
#else
constexpr std::size_t CHILD_BYTES = 16 * MiB;
constexpr std::size_t PIECE_BYTES = 256 * KiB;
#endif

void write_all(int fd, const void* from, std::size_t bytes) {
  if (::write(fd, from, bytes) != static_cast<ssize_t>(bytes)) std::_Exit(3);
}
bool read_all(int fd, void* into, std::size_t bytes) {
  auto* at = static_cast<char*>(into);
  while (bytes > 0) {
    const ssize_t got = ::read(fd, at, bytes);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

/// A client that serves one letter at a time: `s` the sum of its memory; `f` it ends its worker and
/// refills its memory; `c` is the memory as it refilled it?
int be_client(int fd, const std::string& transports) {
  UcxSide side(transports);
  Bytes sink(CHILD_BYTES);
  const ucx::MemoryRef memory = side.take(sink);
  for (const Bytes& part :
       {side.worker->address(), Bytes(memory->key().begin(), memory->key().end())}) {
    const std::uint64_t bytes = part.size();
    write_all(fd, &bytes, sizeof bytes);
    write_all(fd, part.data(), part.size());
  }
  const std::uint64_t base = address_of(sink);
  write_all(fd, &base, sizeof base);
  for (;;) {
    if (side.worker != nullptr) side.worker->progress();
    pollfd asked{fd, POLLIN, 0};
    if (poll(&asked, 1, 0) <= 0) continue;
    char letter = 0;
    if (!read_all(fd, &letter, 1)) std::_Exit(0);
    std::uint64_t answer = 1;
    if (letter == 's') answer = checksum(sink);
    if (letter == 'f') {
      side.worker = nullptr;
      std::fill(sink.begin(), sink.end(), std::byte{0x5a});  // where it lay before
    }
    if (letter == 'c') answer = sink == Bytes(sink.size(), std::byte{0x5a});
    write_all(fd, &answer, sizeof answer);
  }
}

/// The client's process, as the node sees it.
class Child {
 public:
  Child(const std::string& transports, ucx::Worker& worker) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    const std::string fd = std::to_string(ends[1]);
    const char* arguments[] = {"test_ucx", "--client", fd.c_str(), transports.c_str(), nullptr};
    REQUIRE(posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr,
                        const_cast<char* const*>(arguments), environ) == 0);
    ::close(ends[1]);
    fd_ = ends[0];
    Bytes parts[2];
    for (Bytes& part : parts) {
      std::uint64_t bytes = 0;
      REQUIRE(read_all(fd_, &bytes, sizeof bytes));
      part.resize(bytes);
      REQUIRE(read_all(fd_, part.data(), bytes));
    }
    REQUIRE(read_all(fd_, &base, sizeof base));
    auto connected = worker.connect(parts[0], [this] { is_broken = true; });
    REQUIRE_MESSAGE(connected, (connected ? "" : connected.error().message));
    endpoint = std::move(*connected);
    key = *endpoint->unpack(parts[1]);
  }
  ~Child() {
    kill();
    ::close(fd_);
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  void signal(int number) const { ::kill(pid_, number); }
  std::uint64_t ask(char letter) const {
    write_all(fd_, &letter, 1);
    std::uint64_t answer = 0;
    REQUIRE(read_all(fd_, &answer, sizeof answer));
    return answer;
  }

  std::unique_ptr<ucx::Endpoint> endpoint;
  ucx::RemoteKeyRef key;
  std::uint64_t base = 0;
  bool is_broken = false;

 private:
  pid_t pid_ = 0;
  int fd_ = -1;
};

/// A node, with a client in another process.
struct Far {
  explicit Far(const std::string& transports)
      : node(transports),
        arena(random_bytes(CHILD_BYTES, 3)),
        memory(node.take(arena)),
        child(transports, *node.worker) {}
  ~Far() {
    if (child.endpoint != nullptr) close();
  }
  void put(std::size_t at, std::size_t bytes) {
    const ucx::Move move{std::span(arena).subspan(at, bytes), child.base + at, child.key.get()};
    child.endpoint->transfer(ucx::Way::put, std::span(&move, 1), memory, {child.key},
                             [this](bool is_whole) { ++(is_whole ? whole : broken); });
  }
  void put_all() {
    for (std::size_t at = 0; at < CHILD_BYTES; at += PIECE_BYTES) put(at, PIECE_BYTES);
  }
  void close() {
    child.key = nullptr;
    end_node(node, child.endpoint, nullptr);
  }

  UcxSide node;
  Bytes arena;
  ucx::MemoryRef memory;
  Child child;
  int whole = 0, broken = 0;
};

constexpr int PIECES = static_cast<int>(CHILD_BYTES / PIECE_BYTES);

}  // namespace

TEST_CASE("bytes reach another process") {
  NEEDS_UCX();
  for (const std::string transports : TRANSPORTS) {
    CAPTURE(transports);
    Far far(transports);

    far.put_all();
    REQUIRE(progress_until(far.node.worker.get(), nullptr, [&] { return far.whole == PIECES; }));

    CHECK(far.child.ask('s') == checksum(far.arena));
  }
}

TEST_CASE("a client that is killed ends its transfers; the node goes on") {
  NEEDS_UCX();
  for (const std::string transports : TRANSPORTS) {
    CAPTURE(transports);
    Far far(transports);
    far.put_all();
    REQUIRE(progress_until(far.node.worker.get(), nullptr, [&] { return far.whole > 0; }));

    far.child.kill();
    far.put_all();
    far.close();

    CHECK(far.whole + far.broken == 2 * PIECES);
    CHECK(far.broken >= 0);
  }
}

TEST_CASE("a client that stands still keeps nobody from closing") {
  NEEDS_UCX();
  for (const std::string transports : {"tcp", "posix,sysv"}) {
    CAPTURE(transports);
    Far far(transports);
    far.put(0, 4096);
    REQUIRE(progress_until(far.node.worker.get(), nullptr, [&] { return far.whole == 1; }));

    far.child.signal(SIGSTOP);
    far.put_all();
    far.put_all();
    far.node.worker->progress();
    far.close();

    CHECK(far.whole + far.broken == 1 + 2 * PIECES);
    CHECK(far.broken > 0);
  }
}

TEST_CASE("once a client has ended its worker nothing is written to its memory") {
  NEEDS_UCX();
  for (const std::string transports : {"tcp", "posix,sysv"}) {
    CAPTURE(transports);
    for (int round = 0; round < 5; ++round) {
      Far far(transports);
      far.put_all();
      const int until = round * 7;
      progress_until(far.node.worker.get(), nullptr, [&] { return far.whole >= until; });

      far.child.ask('f');
      far.put_all();
      far.close();

      CHECK(far.child.ask('c') == 1);
      CHECK(far.whole + far.broken == 2 * PIECES);
    }
  }
}

int main(int count, char** arguments) {
  doctest::Context context(count, arguments);
  if (count != 4 || std::string(arguments[1]) != "--client") return context.run();
  context.setAsDefaultForAssertsOutOfTestCases();
  return be_client(std::stoi(arguments[2]), arguments[3]);
}
