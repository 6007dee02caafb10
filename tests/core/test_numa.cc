#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "arena.h"
#include "extent.h"
#include "numa.h"
#include "store.h"

using namespace gd2fs;

namespace {

/// A machine as /sys and /proc show it, in a folder that goes with it.
class Recorded {
 public:
  Recorded() {
    std::string name = "/tmp/gd2fs-numa-XXXXXX";
    root_ = mkdtemp(name.data());
    status("0-1023", "0-63");
  }
  ~Recorded() { std::filesystem::remove_all(root_); }

  Recorded& node(int number, const std::string& processors, std::uint64_t kilobytes) {
    const std::string folder = root_ + "/sys/devices/system/node/node" + std::to_string(number);
    write(folder + "/cpulist", processors);
    write(folder + "/meminfo", "Node " + std::to_string(number) +
                                   " MemTotal:       " + std::to_string(kilobytes) + " kB");
    online_ += (online_.empty() ? "" : ",") + std::to_string(number);
    write(root_ + "/sys/devices/system/node/online", online_);
    return *this;
  }
  Recorded& status(const std::string& processors, const std::string& nodes) {
    write(root_ + "/proc/self/status",
          "Name:\tgd2fs\nCpus_allowed_list:\t" + processors + "\nMems_allowed_list:\t" + nodes);
    return *this;
  }
  numa::Machine read() const { return numa::read_machine(root_); }

 private:
  static void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text << "\n";
  }
  std::string root_, online_;
};

constexpr std::uint64_t MEMORY_KB = 128 << 20;

numa::Machine two_sockets() {
  return Recorded().node(0, "0-3,8-11", MEMORY_KB).node(1, "4-7,12-15", MEMORY_KB).read();
}

std::vector<int> numbers_of(const numa::Machine& machine) {
  std::vector<int> numbers;
  for (const numa::Node& node : machine.nodes) numbers.push_back(node.number);
  return numbers;
}

thread_local int pretended = 0;
int pretended_node() noexcept { return pretended; }

/// Where the bytes of an extent lie, when regions go round two nodes.
int node_at(const Extent& extent, std::uint64_t end) {
  return static_cast<int>(extent.offset / Allocator::region_bytes(end) % 2);
}

}  // namespace

TEST_CASE("nodes are read with the processors that may be used") {
  const numa::Machine machine = two_sockets();

  CHECK(numbers_of(machine) == std::vector<int>{0, 1});
  CHECK(machine.nodes[0].processors == std::vector<int>{0, 1, 2, 3, 8, 9, 10, 11});
  CHECK(machine.nodes[1].processors == std::vector<int>{4, 5, 6, 7, 12, 13, 14, 15});
}

TEST_CASE("nodes without processors, without memory, or not allowed are none of ours") {
  Recorded recorded;
  recorded.node(0, "0-3", MEMORY_KB)
      .node(1, "4-7", 0)
      .node(2, "", MEMORY_KB)
      .node(3, "8", MEMORY_KB);

  CHECK(numbers_of(recorded.read()) == std::vector<int>{0, 3});
  CHECK(numbers_of(recorded.status("0-3,8", "0").read()) == std::vector<int>{0});
  CHECK(numbers_of(recorded.status("8", "0-3").read()) == std::vector<int>{3});
}

TEST_CASE("a machine that tells nothing has no nodes, and nothing is chosen") {
  const numa::Machine machine = numa::read_machine("/nonexistent");

  CHECK(machine.nodes.empty());
  CHECK(numa::nodes_of_regions(machine, 8).empty());
  CHECK(numa::node_of_thread(machine, 0) == nullptr);
}

TEST_CASE("with one node nothing is chosen") {
  const numa::Machine machine = Recorded().node(0, "0-7", MEMORY_KB).read();

  CHECK(numa::nodes_of_regions(machine, 8).empty());
  CHECK(numa::node_of_thread(machine, 3) == nullptr);
}

TEST_CASE("regions and threads go round the nodes") {
  const numa::Machine machine = two_sockets();

  CHECK(numa::nodes_of_regions(machine, 5) == std::vector<int>{0, 1, 0, 1, 0});
  for (std::size_t index = 0; index < 4; ++index)
    CHECK(numa::node_of_thread(machine, index)->number == static_cast<int>(index % 2));
}

TEST_CASE("a thread takes near memory while there is some, then far memory") {
  constexpr std::uint64_t END = 4 * GiB;
  Allocator allocator(0, END, {{0, 1, 0, 1}, &pretended_node});
  std::vector<Extent> extents;

  for (pretended = 0; pretended < 2; ++pretended) {
    extents.clear();
    REQUIRE(allocator.allocate(1 * GiB, extents));
    for (const Extent& extent : extents) CHECK(node_at(extent, END) == pretended);
  }
  CHECK(allocator.near_bytes() == 2 * GiB);
  CHECK(allocator.far_bytes() == 0);

  pretended = 0;
  REQUIRE(allocator.allocate(2 * GiB, extents));
  CHECK(allocator.near_bytes() == 3 * GiB);
  CHECK(allocator.far_bytes() == 1 * GiB);
  CHECK(allocator.free_bytes() == 0);
}

TEST_CASE("aligned runs are near too, and a thread of an unknown node takes any") {
  constexpr std::uint64_t END = 2 * GiB;
  Allocator allocator(0, END, {{0, 1}, &pretended_node});

  for (pretended = 0; pretended < 2; ++pretended)
    CHECK(node_at(*allocator.allocate_aligned(MiB), END) == pretended);
  pretended = 7;
  CHECK(allocator.allocate_aligned(MiB).has_value());
}

TEST_CASE("without nodes near and far are not told apart") {
  Allocator allocator(0, 2 * GiB);
  std::vector<Extent> extents;

  REQUIRE(allocator.allocate(2 * GiB, extents));
  CHECK(allocator.near_bytes() + allocator.far_bytes() == 0);
  allocator.free(extents);
  CHECK(allocator.is_consistent());
}

TEST_CASE("what is freed goes back to its own region") {
  constexpr std::uint64_t END = 4 * GiB;
  Allocator allocator(0, END, {{0, 1, 0, 1}, &pretended_node});
  pretended = 1;
  std::vector<Extent> extents;
  REQUIRE(allocator.allocate(3 * GiB, extents));

  allocator.free(extents);

  CHECK(allocator.free_bytes() == END);
  CHECK(allocator.is_consistent());
}

TEST_CASE("pages are asked for at a node, which the kernel keeps") {
  ArenaOptions options;
  options.bytes = 8 * MiB;
  options.rung = Rung::plain;
  options.nodes = {0, 0};
  options.region_bytes = 4 * MiB;
  auto arena = Arena::open(options);
  REQUIRE(arena);
  if (!arena->nodes_fault().empty()) {
    MESSAGE("skipped: this system lets nobody choose nodes: " << arena->nodes_fault());
    return;
  }

  int mode = -1;
  unsigned long mask[16] = {};
  constexpr unsigned long OF_ADDRESS = 2;  // MPOL_F_ADDR
  for (const std::size_t at : {std::size_t{0}, 4 * MiB}) {
    REQUIRE(syscall(SYS_get_mempolicy, &mode, mask, 1024ul, arena->memory().data() + at,
                    OF_ADDRESS) == 0);
    CHECK(mode == 1);  // MPOL_PREFERRED
    CHECK(mask[0] == 1);
  }
}

TEST_CASE("a file of an arena gets its nodes before its pages") {
  const std::string path = "/dev/shm/gd2fs-numa-" + std::to_string(getpid());
  ArenaOptions options;
  options.bytes = 4 * MiB;
  options.rung = Rung::file;
  options.path = path;
  options.nodes = {0, 0};
  options.region_bytes = 2 * MiB;

  auto arena = Arena::open(options);

  CHECK(arena);
  std::filesystem::remove(path);
}

TEST_CASE("a node that is not there is told, and the arena serves all the same") {
  StoreOptions options;
  options.arena.bytes = 2 * GiB + 8 * MiB;
  options.arena.rung = Rung::plain;
  options.numa.nodes = {{0, {0}}, {900, {0}}};  // this machine has not so many

  auto store = Store::open(options);

  REQUIRE(store);
  const numa::Spread spread = (*store)->spread();
  CHECK(spread.fault.rfind("mbind: ", 0) == 0);
  REQUIRE(spread.bytes.size() == 2);
  CHECK(spread.bytes[0].first == 0);
  CHECK(spread.bytes[1].first == 900);
  CHECK(spread.bytes[0].second + spread.bytes[1].second == options.arena.bytes);
  const Reserved reserved = (*store)->reserve({.name = "/n/a", .length = MiB});
  CHECK(reserved.piece != nullptr);
  CHECK((*store)->spread().near_bytes >= MiB);  // by where this thread runs: node 0
}

TEST_CASE("a store on one node spreads nothing") {
  StoreOptions options;
  options.arena.bytes = 64 * MiB;
  options.arena.rung = Rung::plain;
  options.numa.nodes = {{0, {0}}};

  auto store = Store::open(options);

  REQUIRE(store);
  CHECK((*store)->arena().nodes().empty());
  CHECK((*store)->spread().bytes.empty());
}

TEST_CASE("a thread runs where it is told to") {
  std::set<int> seen;
  std::thread([&] {
    numa::run_on({0, {0}});
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    for (int processor = 0; processor < CPU_SETSIZE; ++processor)
      if (CPU_ISSET(static_cast<std::size_t>(processor), &set)) seen.insert(processor);
  }).join();

  CHECK(seen == std::set<int>{0});
  CHECK(numa::here() >= 0);
}

TEST_CASE("this machine can be read") {
  const numa::Machine machine = numa::read_machine();

  for (const numa::Node& node : machine.nodes) CHECK_FALSE(node.processors.empty());
}
