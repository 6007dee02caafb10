// One-sided transfers between a node and a client, over UCX's tcp and shared memory: the same calls
// drive a card.
#define DOCTEST_CONFIG_IMPLEMENT
#define GD2FS_TEST_RDMA
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "raw_peer.h"
#include "rdma_setup.h"
#include "registrations.h"

using namespace gd2fs;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

extern char** environ;

namespace {

constexpr const char* PATH = "/ns/file";

#ifdef __SANITIZE_THREAD__  // many times slower
constexpr int ROUNDS = 12;
#else
constexpr int ROUNDS = 24;
#endif

/// Repeats of what happens at random moments; the environment may ask for more.
int rounds() {
  const char* const text = std::getenv("GD2FS_TEST_ROUNDS");
  return text != nullptr ? std::atoi(text) : ROUNDS;
}

void make_file(Client& client, Memory& value) {
  const std::vector<Buffer> from{whole(value)};
  REQUIRE(end_of(client.put(PATH, from, {})).status == Status::ok);
}

Status read_file(Client& client, Memory& into) {
  const std::vector<Buffer> to{whole(into)};
  return end_of(client.read(PATH, 0, to, {})).status;
}

/// Is the file there, with these bytes?
bool holds(Client& client, const Memory& value) {
  Memory back(value.size());
  const Status status = read_file(client, back);
  if (status == Status::ok) CHECK(back == value);
  return status == Status::ok;
}

}  // namespace

TEST_CASE("files and pages go both ways beside the stream, verified or not, registered or not") {
  NEEDS_UCX();
  for (const char* transports : TRANSPORTS) {
    choose(transports);
    LocalCluster cluster(2, 128 * MiB);
    for (const bool is_verifying : {true, false}) {
      ClientOptions options = cluster.options();
      options.is_verifying = is_verifying;
      auto client = LocalCluster::client(options);
      CAPTURE(transports);
      CAPTURE(is_verifying);
      for (const std::size_t bytes : {1u, 65536u, 65537u, 300'000u, 1'000'000u, 20u << 20}) {
        CAPTURE(bytes);
        Memory value = random_bytes(bytes, bytes + (is_verifying ? 1 : 0));
        Memory back(bytes), part(bytes - bytes / 3);
        const bool is_registered = bytes % 2 == 0;
        for (Memory* each : {&value, &back, &part})
          if (is_registered) CHECK(client->register_memory(whole(*each)).message.empty());
        make_file(*client, value);
        CHECK(read_file(*client, back) == Status::ok);
        CHECK(back == value);
        const std::vector<Buffer> to{whole(part)};
        CHECK(end_of(client->read(PATH, bytes / 3, to, {})).status == Status::ok);
        CHECK(std::equal(part.begin(), part.end(), value.begin() + std::ptrdiff_t(bytes / 3)));

        const std::vector<std::string> keys{std::to_string(bytes), "none"};
        const std::vector<Buffer> from{whole(value), whole(value)}, rooms{whole(back), whole(part)};
        end_of(client->drop_pages("ns", keys, {}));
        CHECK(
            end_of(client->put_pages("ns", std::span(keys).first(1), std::span(from).first(1), {}))
                .items[0]
                .status == Status::ok);
        std::fill(back.begin(), back.end(), std::byte{0});
        const Outcome got = end_of(client->get_pages("ns", keys, rooms, {}));
        CHECK(got.items[0].status == Status::ok);
        CHECK(got.items[1].status == Status::miss);
        CHECK(back == value);
        for (Memory* each : {&value, &back, &part})
          CHECK(client->deregister_memory(whole(*each)) == is_registered);
      }
      CHECK(end_of(client->ping({})).nodes[0].transport == "rdma");
    }
    for (const std::size_t node : {0u, 1u}) {
      CHECK(moved(cluster.server(node), serve::Direction::in) > 4 * MiB);
      CHECK(moved(cluster.server(node), serve::Direction::out) > 4 * MiB);
      CHECK(eventually([&] { return is_at_rest(cluster.server(node)); }));
    }
  }
}

TEST_CASE("a page that is shorter than its room leaves the rest of it, and its neighbours, alone") {
  NEEDS_UCX();
  LocalCluster cluster(1, 64 * MiB);
  auto client = cluster.client();
  std::vector<std::string> keys;
  std::vector<Memory> values, rooms;
  for (std::size_t at = 0; at < 40; ++at) {
    keys.push_back(std::to_string(at));
    values.push_back(random_bytes(20'000 + at * 3'001, at));
    rooms.emplace_back(values.back().size() + at % 3 * 70'000, CANARY);
  }
  std::vector<Buffer> from, into;
  for (std::size_t at = 0; at < keys.size(); ++at) {
    from.push_back(whole(values[at]));
    into.push_back(whole(rooms[at]));
  }
  end_of(client->put_pages("ns", keys, from, {}));
  const std::vector<std::string> dropped{keys[3], keys[17], keys[39]};
  end_of(client->drop_pages("ns", dropped, {}));

  const Outcome got = end_of(client->get_pages("ns", keys, into, {}));

  for (std::size_t at = 0; at < keys.size(); ++at) {
    CAPTURE(at);
    const bool is_there = at != 3 && at != 17 && at != 39;
    CHECK(got.items[at].status == (is_there ? Status::ok : Status::miss));
    const auto end = is_there ? std::ptrdiff_t(values[at].size()) : 0;
    CHECK(std::equal(values[at].begin(), values[at].begin() + end, rooms[at].begin()));
    CHECK(std::all_of(rooms[at].begin() + end, rooms[at].end(),
                      [](std::byte each) { return each == CANARY; }));
  }
}

TEST_CASE("RDMA that is asked for and cannot be had is an error that says why") {
  NEEDS_UCX();
  LocalCluster cluster(1);
  ServerOptions plain = testing::options_of(32 * MiB);
  plain.listen = {"127.0.0.1:" + std::to_string(free_port())};
  plain.map = testing::map_of({{"a", plain.listen.front()}});
  const auto node = testing::start_node(plain);
  CHECK(node->rdma_lack() == "this machine has no card for it");
  ClientOptions options = cluster.options();
  options.seeds = {node->addresses().front()};

  auto client = LocalCluster::client(options);
  const Outcome outcome = end_of(client->stat(PATH, {}));
  CHECK(outcome.status == Status::unavailable);
  CHECK(outcome.message.find("--rdma on") != std::string::npos);

  options.rdma.ucx.library = "/nowhere/libucp.so";
  auto without = Client::connect(options);
  REQUIRE(!without);
  CHECK(without.error().message.find("/nowhere/libucp.so") != std::string::npos);

  plain.listen = {"127.0.0.1:0"};
  plain.rdma = {Rdma::on, options.rdma.ucx};
  CHECK(!Server::start(plain));
  plain.rdma.use = Rdma::off;
  CHECK(testing::start_node(plain)->rdma_lack() == "it is turned off");
}

TEST_CASE("whoever cancels a call has its memory back, and nothing is written to it afterwards") {
  NEEDS_UCX();
  for (const char* transports : TRANSPORTS) {
    choose(transports);
    CAPTURE(transports);
    LocalCluster cluster(1, 128 * MiB);
    auto client = cluster.client();
    Memory value = random_bytes(32 * MiB, 1);
    make_file(*client, value);
    std::mt19937 random(7);
    std::vector<Memory> given_back;
    int cancelled = 0;
    for (int round = 0; round < rounds(); ++round) {
      Memory into(value.size());
      const std::vector<Buffer> to{whole(into)};
      const auto got = client->read(PATH, 0, to, {.timeout_ms = std::uint32_t(1 + random() % 20)});
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 12'000));
      if (random() % 2 == 0) got->cancel();
      const Status status = end_of(got).status;
      cancelled += status == Status::ok ? 0 : 1;
      if (status == Status::ok) CHECK(into == value);
      std::fill(into.begin(), into.end(), CANARY);
      given_back.push_back(std::move(into));
      if (given_back.size() > 8) {
        CHECK(is_filled(given_back.front(), CANARY));
        given_back.erase(given_back.begin());
      }
    }
    std::this_thread::sleep_for(milliseconds(1'000));
    for (const Memory& each : given_back) CHECK(is_filled(each, CANARY));
    CHECK(cancelled > rounds() / 10);
    CHECK(eventually([&] { return is_at_rest(cluster.server(0)); }));
    CHECK(eventually([&] { return holds(*client, value); }));
  }
}

TEST_CASE("a write that is cancelled leaves the old file or the new one, whole") {
  NEEDS_UCX();
  for (const char* transports : TRANSPORTS) {
    choose(transports);
    CAPTURE(transports);
    LocalCluster cluster(1, 256 * MiB);
    std::unique_ptr<Client> client;
    Memory old_value = random_bytes(8 * MiB, 1), new_value = random_bytes(8 * MiB, 2);
    std::mt19937 random(11);
    for (int round = 0; round < rounds() / 2; ++round) {
      // What is cancelled during its COMMIT stays staged as long as its writer does.
      if (round % 48 == 0) client = cluster.client();
      make_file(*client, old_value);
      Memory source = new_value;
      const std::vector<Buffer> from{whole(source)};
      const auto put = client->put(PATH, from, {});
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 6'000));
      put->cancel();
      end_of(put);
      std::fill(source.begin(), source.end(), CANARY);  // ours again
      Memory back(old_value.size());
      const Status status = read_file(*client, back);
      CHECK((status == Status::ok || status == Status::miss));
      if (status == Status::ok) CHECK((back == old_value || back == new_value));
      if (put->outcome().status == Status::ok) CHECK(back == new_value);
    }
    CHECK(eventually([&] { return cluster.server(0).counts().store.filling_bytes == 0; }));
  }
}

TEST_CASE("memory that is deregistered in the middle of reads is the caller's from then on") {
  NEEDS_UCX();
  for (const char* transports : TRANSPORTS) {
    choose(transports);
    CAPTURE(transports);
    LocalCluster cluster(1, 128 * MiB);
    auto client = cluster.client();
    Memory value = random_bytes(16 * MiB, 1);
    make_file(*client, value);
    std::mt19937 random(3);
    for (int round = 0; round < rounds() / 2; ++round) {
      Memory into(value.size());
      const std::vector<Buffer> to{whole(into)};
      REQUIRE(client->register_memory(to[0]).message.empty());
      const auto got = client->read(PATH, 0, to, {.timeout_ms = 1'000});
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 5'000));
      if (random() % 2 == 0) got->cancel();
      CHECK(client->deregister_memory(to[0]));
      // Parts of the call that had not begun register it by themselves.
      const Status status = end_of(got).status;
      if (status == Status::ok) CHECK(into == value);
      std::fill(into.begin(), into.end(), CANARY);
      std::this_thread::sleep_for(milliseconds(2));
      CHECK(is_filled(into, CANARY));
    }
    CHECK(eventually([&] { return holds(*client, value); }));
  }
}

TEST_CASE("readers get a whole value or a miss while a small arena turns over") {
  NEEDS_UCX();
  for (const char* transports : TRANSPORTS) {
    choose(transports);
    CAPTURE(transports);
    constexpr std::size_t KEYS = 12, BYTES = 1'300'000;
    LocalCluster cluster(1, 24 * MiB);
    std::atomic<bool> is_over{false};
    std::atomic<std::size_t> hits{0};
    const auto value_of = [](std::uint64_t key, std::uint64_t round) {
      Memory value = random_bytes(BYTES, key * 1000 + round);
      std::memcpy(value.data(), &round, sizeof round);  // a page has more bytes than that
      return value;
    };
    std::thread writer([&] {
      auto client = cluster.client();
      for (std::uint64_t round = 0; round < 8; ++round) {
        for (std::uint64_t key = 0; key < KEYS; ++key) {
          Memory value = value_of(key, round);
          const std::vector<std::string> keys{std::to_string(key)};
          const std::vector<Buffer> from{whole(value)};
          end_of(client->drop_pages("ns", keys, {}));
          end_of(client->put_pages("ns", keys, from, {}));
        }
      }
      is_over = true;
    });
    std::vector<std::thread> readers;
    for (const bool is_verifying : {true, false}) {
      readers.emplace_back([&, is_verifying] {
        ClientOptions options = cluster.options();
        options.is_verifying = is_verifying;
        auto client = LocalCluster::client(options);
        Memory into(BYTES);
        for (std::uint64_t key = 0; !is_over; key = (key + 1) % KEYS) {
          const std::vector<std::string> keys{std::to_string(key)};
          const std::vector<Buffer> to{whole(into)};
          if (end_of(client->get_pages("ns", keys, to, {})).items[0].status != Status::ok) continue;
          std::uint64_t round = 0;
          std::memcpy(&round, into.data(), sizeof round);  // as value_of wrote it
          CHECK(into == value_of(key, round));
          ++hits;
        }
      });
    }
    writer.join();
    for (std::thread& reader : readers) reader.join();
    CHECK(hits > 0);
    CHECK(eventually([&] { return is_at_rest(cluster.server(0)); }));
  }
}

TEST_CASE("reads that are given up in the middle of an item keep their stream") {
  NEEDS_UCX();
  for (const char* transports : TRANSPORTS) {
    choose(transports);
    CAPTURE(transports);
    LocalCluster cluster(1, 128 * MiB);
    ClientOptions options = cluster.options();
    options.streams = 1;
    auto client = LocalCluster::client(options);
    Memory value = random_bytes(30 * MiB + 1'000, 1);  // one page: several batches of the node
    const std::vector<std::string> keys{"k"};
    const std::vector<Buffer> from{whole(value)};
    REQUIRE(end_of(client->put_pages("ns", keys, from, {})).items[0].status == Status::ok);
    const std::uint64_t accepted = cluster.server(0).counts().accepted;
    std::mt19937 random(13);
    int given_up = 0;
    for (int round = 0; round < rounds(); ++round) {
      Memory into(value.size());
      const std::vector<Buffer> to{whole(into)};
      const auto got = client->get_pages("ns", keys, to, {});
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 8'000));
      got->cancel();
      given_up += end_of(got).status == Status::cancelled ? 1 : 0;
    }
    CHECK(given_up > rounds() / 10);
    CHECK(cluster.server(0).counts().accepted == accepted);
  }
}

TEST_CASE("more runs of memory than a node takes registrations go by the stream") {
  NEEDS_UCX();
  choose("tcp");
  constexpr std::size_t RUNS = 2 * KEYS_MAX, BYTES = 4 * KiB;
  LocalCluster cluster(1, 128 * MiB);
  ClientOptions options = cluster.options();
  options.streams = 1;
  auto client = LocalCluster::client(options);
  Memory value = random_bytes(RUNS * BYTES, 1), into(2 * RUNS * BYTES);
  make_file(*client, value);
  std::vector<Buffer> to;  // none beside another
  for (std::size_t run = 0; run < RUNS; ++run) to.push_back({&into[2 * run * BYTES], BYTES});

  const auto got = client->read(PATH, 0, to, {});

  CHECK(end_of(got).status == Status::ok);
  bool is_equal = true;
  for (std::size_t run = 0; run < RUNS; ++run)
    is_equal = is_equal && std::equal(to[run].at, to[run].at + BYTES, &value[run * BYTES]);
  CHECK(is_equal);
}

TEST_CASE("registrations go with their client, though nobody has taken them back") {
  NEEDS_UCX();
  auto context = *ucx::Context::open(ucx_options("tcp"));
  auto all = std::make_shared<Registrations>(context);
  Memory memory(1 * MiB);
  for (int times = 0; times < 2; ++times) CHECK(all->add(whole(memory)).message.empty());
  const std::weak_ptr<Registrations> is_left = all;
  const std::weak_ptr<ucx::Context> context_left = context;

  all->clear();
  CHECK(all->find(whole(memory)) == nullptr);
  all = nullptr;
  context = nullptr;

  CHECK(is_left.expired());
  CHECK(context_left.expired());
}

// ---- two processes -------------------------------------------------------------------

namespace {

/// Children end with this process, however it ends.
void end_with_parent() { prctl(PR_SET_PDEATHSIG, SIGKILL); }

/// A client that reads and writes until it is killed.
int be_client(const char* seed) {
  end_with_parent();
  ClientOptions options;
  options.seeds = {seed};
  options.cluster = "test";
  options.transport = Transport::rdma;
  options.rdma = test_rdma();
  options.timeout_ms = 60'000;
  auto client = Client::connect(options);
  if (!client) return 3;
  Memory value = random_bytes(16 * MiB, 1);
  const std::vector<Buffer> buffers{whole(value)};
  const auto goes_well = [](const OperationRef& call) {  // no test case runs here
    return call->wait(60'000) && call->outcome().status == Status::ok;
  };
  while (goes_well((*client)->put("/ns/of-child", buffers, {}))) {
    if (!goes_well((*client)->read("/ns/of-child", 0, buffers, {}))) return 5;
  }
  return 4;
}

/// A node, until it is killed.
int be_node(const char* listen) {
  end_with_parent();
  ServerOptions options = testing::options_of(128 * MiB);
  options.listen = {listen};
  options.map = testing::map_of({{"a", listen}});
  options.rdma = test_rdma();
  auto server = Server::start(options);
  if (!server) return 3;
  for (;;) pause();
}

class Child {
 public:
  Child(const char* role, const std::string& argument) {
    const char* arguments[] = {"test_rdma", role, argument.c_str(), nullptr};
    REQUIRE(posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr,
                        const_cast<char* const*>(arguments), environ) == 0);
  }
  ~Child() { kill(); }
  void signal(int number) const { ::kill(pid_, number); }
  /// How it had ended before, or that it had not.
  bool kill() {
    if (pid_ == 0) return true;
    int status = 0;
    const bool was_alive = waitpid(pid_, &status, WNOHANG) == 0;
    ::kill(pid_, SIGKILL);
    if (was_alive) waitpid(pid_, &status, 0);
    pid_ = 0;
    return was_alive;
  }

 private:
  pid_t pid_ = 0;
};

}  // namespace

TEST_CASE("clients that are killed at any moment cost the node nothing") {
  NEEDS_UCX();
  for (const char* transports : TRANSPORTS) {
    choose(transports);
    CAPTURE(transports);
    LocalCluster cluster(1, 128 * MiB);
    std::mt19937 random(5);
    for (int round = 0; round < rounds() / 6; ++round) {
      Child one("--client", cluster.address(0)), other("--client", cluster.address(0));
      std::this_thread::sleep_for(milliseconds(60 + random() % 300));
      if (round % 3 == 0) {
        one.signal(SIGSTOP);
        std::this_thread::sleep_for(milliseconds(100));
      }
      CHECK(one.kill());
      CHECK(other.kill());
    }
    CHECK(eventually([&] { return cluster.server(0).counts().connections == 0; }));
    CHECK(eventually([&] { return is_at_rest(cluster.server(0)); }));
    auto client = cluster.client();
    Memory value = random_bytes(8 * MiB, 1), back(8 * MiB);
    make_file(*client, value);
    CHECK(read_file(*client, back) == Status::ok);
    CHECK(back == value);
  }
}

TEST_CASE(
    "nodes that are killed or stopped at any moment write nothing after a call has returned") {
  NEEDS_UCX();
  for (const char* transports : TRANSPORTS) {
    choose(transports);
    CAPTURE(transports);
    std::mt19937 random(9);
    for (int round = 0; round < rounds() / 6; ++round) {
      const std::string address = "127.0.0.1:" + std::to_string(free_port());
      Child node("--node", address);
      ClientOptions options;
      options.seeds = {address};
      options.cluster = "test";
      options.transport = Transport::rdma;
      options.rdma = test_rdma();
      std::unique_ptr<Client> client;
      REQUIRE(eventually([&] {
        auto connected = Client::connect(options);
        if (connected) client = std::move(*connected);
        return client != nullptr;
      }));
      Memory value = random_bytes(32 * MiB, 1), into(value.size());
      make_file(*client, value);
      const std::vector<Buffer> to{whole(into)};
      const auto got = client->read(PATH, 0, to, {.timeout_ms = 400});
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 15'000));
      const bool is_stopped = round % 2 == 0;
      is_stopped ? node.signal(SIGSTOP) : static_cast<void>(node.kill());

      REQUIRE(got->wait(60'000));
      if (got->outcome().status == Status::ok) CHECK(into == value);
      std::fill(into.begin(), into.end(), CANARY);
      if (is_stopped) node.signal(SIGCONT);
      std::this_thread::sleep_for(milliseconds(100));
      CHECK(is_filled(into, CANARY));
    }
  }
}

int main(int count, char** arguments) {
  if (count == 3 && std::string(arguments[1]) == "--client") return be_client(arguments[2]);
  if (count == 3 && std::string(arguments[1]) == "--node") return be_node(arguments[2]);
  doctest::Context context(count, arguments);
  return context.run();
}
