// The client against one node in another process, over loopback, beside what plain sockets do.
//
//   bench_client [ROUNDS]
//
// Every case is measured in turn with its ceiling: the same bytes by send and recv on two
// connections, from and into memory of the same kind. Medians, and the best beside them for a busy
// machine; ratios are what counts.

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "client.h"
#include "placement.h"
#include "server.h"
#include "transport/tcp.h"

using namespace gd2fs;

namespace {

constexpr std::size_t RAW_STREAMS = 2;
constexpr std::size_t RAW_PIECE_BYTES = 1 * MiB;
constexpr std::size_t ARENA_BYTES = 2 * GiB;

/// Memory that is there: every page was touched.
class Touched {
 public:
  explicit Touched(std::size_t bytes) : bytes_(bytes) {
    at_ = static_cast<std::byte*>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    madvise(at_, bytes, MADV_HUGEPAGE);
    for (std::size_t at = 0; at < bytes; ++at)
      at_[at] = static_cast<std::byte>(at * 2654435761u >> 13);
  }
  ~Touched() { munmap(at_, bytes_); }
  Touched(const Touched&) = delete;
  Touched& operator=(const Touched&) = delete;

  std::byte* at() const { return at_; }
  std::vector<Buffer> cut(std::size_t count, std::size_t bytes) const {
    std::vector<Buffer> out;
    for (std::size_t index = 0; index < count; ++index) out.push_back({at_ + index * bytes, bytes});
    return out;
  }

 private:
  std::size_t bytes_;
  std::byte* at_ = nullptr;
};

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "error: %s\n", why.c_str());
  std::_Exit(1);
}

void wait_for(int fd, short events) {
  pollfd watched{fd, events, 0};
  if (poll(&watched, 1, 30'000) != 1) give_up("a socket was silent for 30 s");
}

void send_all(int fd, const std::byte* at, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = send(fd, at, std::min(bytes, RAW_PIECE_BYTES), MSG_NOSIGNAL);
    if (sent <= 0) {
      wait_for(fd, POLLOUT);
      continue;
    }
    at += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
}

/// False at the end of the connection.
bool receive_all(int fd, std::byte* at, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t received = recv(fd, at, std::min(bytes, RAW_PIECE_BYTES), 0);
    if (received == 0) return false;
    if (received < 0) {
      wait_for(fd, POLLIN);
      continue;
    }
    at += received;
    bytes -= static_cast<std::size_t>(received);
  }
  return true;
}

// ---- the other process ---------------------------------------------------------------

/// What the raw client asks for: so many bytes from the node, or to it.
struct RawOrder {
  std::uint64_t bytes;
  std::uint64_t is_read;
};

void serve_raw(tcp::Descriptor socket, std::byte* memory) {
  RawOrder order;
  while (receive_all(socket.get(), reinterpret_cast<std::byte*>(&order), sizeof order)) {
    if (order.is_read != 0) {
      send_all(socket.get(), memory, order.bytes);
    } else {
      receive_all(socket.get(), memory, order.bytes);
      send_all(socket.get(), reinterpret_cast<const std::byte*>(&order), sizeof order);
    }
  }
}

wire::Map map_of(const std::string& address) {
  wire::Map map;
  map.epoch = 1;
  map.list_hash[0] = std::byte{1};
  wire::MapNode node;
  node.id = node_id("node");
  node.addresses = "node=" + address;
  map.nodes.push_back(node);
  return map;
}

[[noreturn]] void be_the_node(const std::string& address, int ready) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  ServerOptions options;
  options.cluster = "bench";
  options.name = "node";
  options.listen = {address};
  options.map = map_of(address);
  options.boot = 1;
  options.store.arena.bytes = ARENA_BYTES;
  auto server = Server::start(options);
  if (!server) give_up(server.error().message);
  auto listener = tcp::listen_at(tcp::resolve({"127.0.0.1", 0})->front());
  std::string hello =
      tcp::address_text(tcp::local_address(listener->get())) + " " + (*server)->rung_name() + "\n";
  if (write(ready, hello.data(), hello.size()) < 0) give_up("nobody listens");
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<Touched>> memories;
  while (true) {
    wait_for(listener->get(), POLLIN);
    tcp::Address peer;
    tcp::Descriptor socket = tcp::accept_from(listener->get(), peer);
    if (threads.size() == RAW_STREAMS) break;
    memories.push_back(std::make_unique<Touched>(128 * MiB));
    threads.emplace_back(serve_raw, std::move(socket), memories.back()->at());
  }
  while (true) pause();
}

// ---- measuring -----------------------------------------------------------------------

class RawLine {
 public:
  explicit RawLine(const std::string& address) {
    for (std::size_t at = 0; at < RAW_STREAMS; ++at) {
      auto remote = tcp::resolve(*tcp::parse_host_port(address));
      auto socket = tcp::connect_within(remote->front(), nullptr, 1'000);
      if (!socket) give_up(socket.error().message);
      tcp::tune(socket->get());
      sockets_.push_back(std::move(*socket));
    }
  }

  void move(std::byte* memory, std::size_t bytes, bool is_read) {
    std::vector<std::thread> threads;
    const std::size_t share = bytes / RAW_STREAMS;
    for (std::size_t at = 0; at < RAW_STREAMS; ++at)
      threads.emplace_back([=, this] {
        const int fd = sockets_[at].get();
        RawOrder order{share, is_read ? 1u : 0u};
        send_all(fd, reinterpret_cast<const std::byte*>(&order), sizeof order);
        if (is_read) {
          receive_all(fd, memory + at * share, share);
        } else {
          send_all(fd, memory + at * share, share);
          receive_all(fd, reinterpret_cast<std::byte*>(&order), sizeof order);
        }
      });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::vector<tcp::Descriptor> sockets_;
};

double cpu_ms() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto ms = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
  };
  return ms(used.ru_utime) + ms(used.ru_stime);
}

double ms_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

void compare(const char* name, std::size_t bytes, int rounds, const std::function<void()>& work,
             const std::function<void()>& ceiling) {
  std::vector<double> case_ms, ceiling_ms;
  double cpu = 0;
  work();
  ceiling();
  for (int round = 0; round < rounds; ++round) {
    const double before = cpu_ms();
    case_ms.push_back(ms_of(work));
    cpu += cpu_ms() - before;
    ceiling_ms.push_back(ms_of(ceiling));
  }
  const double ms = median(case_ms);
  const double raw_ms = median(ceiling_ms);
  const double best = *std::min_element(case_ms.begin(), case_ms.end());
  const double raw_best = *std::min_element(ceiling_ms.begin(), ceiling_ms.end());
  const double gib = static_cast<double>(bytes) * rounds / static_cast<double>(GiB);
  std::printf("%-20s %8.2f ms %6.2f GB/s | raw %8.2f ms | ratio %4.0f %% | best %8.2f ms of raw "
              "%8.2f = %4.0f %% | CPU %5.0f ms/GiB\n",
              name, ms, static_cast<double>(bytes) / ms / 1e6, raw_ms, 100 * raw_ms / ms, best,
              raw_best, 100 * raw_best / best, cpu / gib);
}

void expect(const OperationRef& operation) {
  if (!operation->wait(-1) || operation->outcome().status != Status::ok)
    give_up(std::string(status_name(operation->outcome().status)) + ": " +
            operation->outcome().message);
  for (const ItemOutcome& item : operation->outcome().items)
    if (item.status != Status::ok) give_up(std::string("a page: ") + status_name(item.status));
}

const CallOptions PATIENT{.timeout_ms = 30'000};

/// Touches the whole arena once: the first use of a page of memory is the kernel's time, not ours.
void warm_up(Client& client, const Touched& memory) {
  constexpr std::size_t PAGE = 16 * MiB;
  const std::vector<Buffer> buffers = memory.cut(4, PAGE);
  for (std::size_t at = 0; at < ARENA_BYTES / (4 * PAGE); ++at) {
    std::vector<std::string> keys;
    for (std::size_t page = 0; page < 4; ++page)
      keys.push_back(std::to_string(at) + "-" + std::to_string(page));
    client.put_pages("warm", keys, buffers, PATIENT)->wait(-1);
  }
  client.clear("warm", PATIENT)->wait(-1);
}

void file_case(Client& client, RawLine& raw, const Touched& memory, std::size_t bytes, int rounds) {
  const std::string name = std::to_string(bytes / MiB) + " MiB file ";
  const std::vector<Buffer> whole{{memory.at(), bytes}};
  expect(client.create("/bench/file", PATIENT));
  compare((name + "write").c_str(), bytes, rounds,
          [&] { expect(client.write("/bench/file", 0, whole, PATIENT)); },
          [&] { raw.move(memory.at(), bytes, false); });
  compare((name + "read").c_str(), bytes, rounds,
          [&] { expect(client.read("/bench/file", 0, whole, PATIENT)); },
          [&] { raw.move(memory.at(), bytes, true); });
  expect(client.unlink("/bench/file", PATIENT));
}

void page_case(Client& client, RawLine& raw, const Touched& memory, std::size_t count,
               std::size_t bytes, int rounds) {
  const std::string name = std::to_string(count) + " x " + std::to_string(bytes / KiB) + " KiB ";
  const std::vector<Buffer> buffers = memory.cut(count, bytes);
  std::vector<std::string> keys;
  for (std::size_t at = 0; at < count; ++at) keys.push_back("key-" + std::to_string(at));
  int round = 0;
  compare((name + "put").c_str(), count * bytes, rounds,
          [&] {
            const std::string name_space =
                "bench-" + std::to_string(bytes + static_cast<std::size_t>(round++));
            expect(client.put_pages(name_space, keys, buffers, PATIENT));
          },
          [&] { raw.move(memory.at(), count * bytes, false); });
  expect(client.put_pages("bench", keys, buffers, PATIENT));
  compare((name + "get").c_str(), count * bytes, rounds,
          [&] { expect(client.get_pages("bench", keys, buffers, PATIENT)); },
          [&] { raw.move(memory.at(), count * bytes, true); });
  expect(client.clear("bench", PATIENT));
}

void exists_case(Client& client, int rounds) {
  std::vector<std::string> keys;
  for (std::size_t at = 0; at < 1'000; ++at) keys.push_back("key-" + std::to_string(at));
  std::vector<double> each;
  for (int round = 0; round < rounds; ++round)
    each.push_back(ms_of([&] { client.exists("bench", keys, PATIENT)->wait(-1); }));
  std::printf("%-22s %8.3f ms\n", "exists x 1000", median(each));
}

std::string free_address() {
  auto listener = tcp::listen_at(tcp::resolve({"127.0.0.1", 0})->front());
  return tcp::address_text(tcp::local_address(listener->get()));
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 20;
  const std::string address = free_address();
  int ready[2];
  if (pipe(ready) != 0) give_up("no pipe");
  const pid_t node = fork();
  if (node == 0) be_the_node(address, ready[1]);
  char line[128] = {};
  if (read(ready[0], line, sizeof line - 1) <= 0) give_up("the node did not start");
  const std::string raw_address = std::string(line).substr(0, std::string(line).find(' '));
  std::printf("arena and raw line at %s", line);

  ClientOptions options;
  options.seeds = {address};
  options.cluster = "bench";
  auto client = Client::connect(options);
  if (!client) give_up(client.error().message);
  RawLine raw(raw_address);
  const Touched memory(256 * MiB);
  warm_up(**client, memory);
  file_case(**client, raw, memory, 64 * MiB, rounds);
  file_case(**client, raw, memory, 256 * MiB, std::max(1, rounds / 3));
  page_case(**client, raw, memory, 512, 128 * KiB, rounds);
  page_case(**client, raw, memory, 128, 4 * KiB, rounds * 10);
  exists_case(**client, rounds * 10);
  kill(node, SIGKILL);
  waitpid(node, nullptr, 0);
  return 0;
}
