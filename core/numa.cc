#include "numa.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

namespace gd2fs::numa {
namespace {

constexpr int NODES_MAX = 1024;       // of a mask
constexpr int PROCESSORS_MAX = 8192;  // that are looked at
// Of linux/mempolicy.h, which libnuma's headers would bring: their numbers never change.
constexpr int MPOL_PREFERRED = 1;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// `0-3,8` as numbers below `limit`.
std::set<int> numbers_of(const std::string& text, int limit) {
  std::set<int> numbers;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    int first = 0, last = 0;
    const int read = std::sscanf(part.c_str(), "%d-%d", &first, &last);
    if (read < 1) continue;
    if (read == 1) last = first;
    for (int number = std::max(first, 0); number <= std::min(last, limit - 1); ++number)
      numbers.insert(number);
  }
  return numbers;
}

/// A line of /proc/self/status, as numbers.
std::set<int> allowed(const std::string& root, const std::string& field, int limit) {
  std::ifstream lines(root + "/proc/self/status");
  for (std::string line; std::getline(lines, line);)
    if (line.rfind(field + ":", 0) == 0) return numbers_of(line.substr(field.size() + 1), limit);
  return {};
}

bool has_memory(const std::string& folder) {
  std::ifstream lines(folder + "/meminfo");  // `Node 0 MemTotal:  131072 kB`
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find("MemTotal:");
    if (at != std::string::npos) return std::atoll(line.c_str() + at + 9) > 0;
  }
  return false;
}

}  // namespace

Machine read_machine(const std::string& root) {
  const std::string folder = root + "/sys/devices/system/node";
  const std::set<int> memory = allowed(root, "Mems_allowed_list", NODES_MAX);
  const std::set<int> runnable = allowed(root, "Cpus_allowed_list", PROCESSORS_MAX);
  Machine machine;
  for (const int number : numbers_of(text_of(folder + "/online"), NODES_MAX)) {
    const std::string own = folder + "/node" + std::to_string(number);
    Node node{number, {}};
    for (const int processor : numbers_of(text_of(own + "/cpulist"), PROCESSORS_MAX))
      if (runnable.contains(processor)) node.processors.push_back(processor);
    if (!node.processors.empty() && memory.contains(number) && has_memory(own))
      machine.nodes.push_back(std::move(node));
  }
  return machine;
}

std::vector<int> nodes_of_regions(const Machine& machine, std::size_t regions) {
  std::vector<int> nodes;
  if (!machine.is_many()) return nodes;
  for (std::size_t region = 0; region < regions; ++region)
    nodes.push_back(machine.nodes[region % machine.nodes.size()].number);
  return nodes;
}

const Node* node_of_thread(const Machine& machine, std::size_t index) noexcept {
  return machine.is_many() ? &machine.nodes[index % machine.nodes.size()] : nullptr;
}

std::string prefer(std::span<std::byte> memory, std::size_t region_bytes,
                   const std::vector<int>& nodes) {
  constexpr std::size_t BITS = sizeof(unsigned long) * CHAR_BIT;
  for (std::size_t region = 0; region < nodes.size(); ++region) {
    if (region * region_bytes >= memory.size()) break;
    const auto part = memory.subspan(region * region_bytes);
    const auto number = static_cast<std::size_t>(nodes[region]);
    std::array<unsigned long, NODES_MAX / BITS> mask{};
    mask[number / BITS] = 1ul << (number % BITS);
    // The kernel takes one from the number of bits.
    if (syscall(SYS_mbind, part.data(), std::min(part.size(), region_bytes), MPOL_PREFERRED,
                mask.data(), static_cast<unsigned long>(NODES_MAX + 1), 0u) != 0)
      return std::string("mbind: ") + std::strerror(errno);
  }
  return {};
}

void run_on(const Node& node) noexcept {
  cpu_set_t* const set = CPU_ALLOC(PROCESSORS_MAX);
  if (set == nullptr) return;
  const std::size_t bytes = CPU_ALLOC_SIZE(PROCESSORS_MAX);
  CPU_ZERO_S(bytes, set);
  for (const int processor : node.processors)
    CPU_SET_S(static_cast<std::size_t>(processor), bytes, set);
  static_cast<void>(!sched_setaffinity(0, bytes, set));  // refused: it runs wherever it may
  CPU_FREE(set);
}

int here() noexcept {
  unsigned processor = 0, node = 0;
  return getcpu(&processor, &node) == 0 ? static_cast<int>(node) : 0;
}

}  // namespace gd2fs::numa
