#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "name.h"
#include "placement.h"

using namespace gd2fs;

namespace {

std::vector<PlacedNode> nodes_named(std::initializer_list<const char*> names) {
  std::vector<PlacedNode> nodes;
  for (const char* name : names) nodes.push_back({node_id(name), 1});
  return nodes;
}

std::vector<std::size_t> owned_counts(const std::vector<PlacedNode>& nodes, std::size_t chunks) {
  std::vector<std::size_t> counts(nodes.size());
  for (std::size_t chunk = 0; chunk < chunks; ++chunk)
    ++counts[placement_first(nodes, "/namespace/file", chunk)];
  return counts;
}

}  // namespace

TEST_CASE("the first owner is the head of the order") {
  const auto nodes = nodes_named({"a", "b", "c", "d"});

  for (std::uint64_t chunk = 0; chunk < 500; ++chunk)
    CHECK(placement_first(nodes, "/n/f", chunk) == placement_order(nodes, "/n/f", chunk, 4)[0]);
}

TEST_CASE("an order names every node once, and at most as many as asked for") {
  const auto nodes = nodes_named({"a", "b", "c"});

  auto order = placement_order(nodes, "/n/f", 7, 99);
  CHECK(placement_order(nodes, "/n/f", 7, 2) ==
        std::vector<std::uint32_t>(order.begin(), order.begin() + 2));
  std::sort(order.begin(), order.end());
  CHECK(order == std::vector<std::uint32_t>{0, 1, 2});
}

TEST_CASE("the order of the list does not change who owns a chunk") {
  const auto nodes = nodes_named({"a", "b", "c"});
  const auto other = nodes_named({"c", "a", "b"});

  for (std::uint64_t chunk = 0; chunk < 200; ++chunk)
    CHECK(nodes[placement_first(nodes, "k", chunk)].id ==
          other[placement_first(other, "k", chunk)].id);
}

TEST_CASE("equal weights share evenly") {
  const auto counts = owned_counts(nodes_named({"a", "b", "c", "d"}), 40'000);

  for (const std::size_t count : counts) CHECK(std::abs(static_cast<double>(count) - 10e3) < 500);
}

TEST_CASE("a node of three times the weight gets three times the chunks, one of none gets none") {
  auto nodes = nodes_named({"a", "b", "idle"});
  nodes[0].weight = 3;
  nodes[2].weight = 0;

  const auto counts = owned_counts(nodes, 40'000);

  CHECK(std::abs(static_cast<double>(counts[0]) - 30e3) < 600);
  CHECK(counts[2] == 0);
}

TEST_CASE("when a node leaves, only its chunks move, each to the next of its order") {
  const auto nodes = nodes_named({"a", "b", "c", "d"});
  const std::vector<PlacedNode> left(nodes.begin(), nodes.begin() + 3);

  for (std::uint64_t chunk = 0; chunk < 2'000; ++chunk) {
    const auto order = placement_order(nodes, "/n/f", chunk, 2);
    CHECK(placement_first(left, "/n/f", chunk) == (order[0] == 3 ? order[1] : order[0]));
  }
}

TEST_CASE("the owners of these names never change between versions") {
  const auto nodes = nodes_named({"node-0", "node-1", "node-2"});

  std::string owners;
  for (std::uint64_t chunk = 0; chunk < 16; ++chunk)
    owners += std::to_string(placement_first(nodes, "/models/session", chunk));

  CHECK(owners == "1100002121020002");
}

namespace {

wire::Map map_named(std::initializer_list<const char*> names) {
  wire::Map map;
  for (const char* name : names) {
    map.nodes.emplace_back();
    map.nodes.back().id = node_id(name);
  }
  return map;
}

}  // namespace

TEST_CASE("a draining node owns nothing, and is asked where it was an owner") {
  wire::Map map = map_named({"a", "b", "c", "d"});
  const Placement before(map);
  map.nodes[2].state = wire::NodeState::draining;
  const Placement during(map);
  std::size_t moved = 0;

  for (std::uint64_t chunk = 0; chunk < 400; ++chunk) {
    const auto old_order = before.owners("/n/f", chunk, 4);
    CHECK(during.holders("/n/f", chunk, 4) == old_order);
    auto without = old_order;
    std::erase(without, 2u);
    CHECK(during.owners("/n/f", chunk, 4) == without);
    CHECK(during.owner("/n/f", chunk) == without.front());
    moved += old_order.front() == 2 ? 1 : 0;
  }
  CHECK(moved > 50);
}

TEST_CASE("a node that is gone is nobody's, and one that is draining alone still owns") {
  wire::Map map = map_named({"a", "b"});
  map.nodes[0].state = wire::NodeState::gone;
  CHECK(Placement(map).holders("/n/f", 0, 2) == std::vector<std::uint32_t>{1});

  map.nodes[1].state = wire::NodeState::draining;
  CHECK(Placement(map).owners("/n/f", 0, 2) == std::vector<std::uint32_t>{1});

  map.nodes[1].state = wire::NodeState::gone;
  CHECK(Placement(map).is_empty());
}

TEST_CASE("how many copies there are is a matter of the namespace") {
  wire::Map map = map_named({"a"});
  map.replicas = 2;
  map.namespaces = {{"tmp", 1}, {"kv", 3}};
  const Placement placement(map);

  CHECK(placement.replicas("/kv/session/1") == 3);
  CHECK(placement.replicas(page_name("tmp", "key")) == 1);
  CHECK(placement.replicas(page_name("kv", "/tmp")) == 3);
  CHECK(placement.replicas("/other/file") == 2);
}

TEST_CASE("the first of many nodes of all weights is the first of their order") {
  std::vector<PlacedNode> nodes;
  for (std::uint32_t at = 0; at < 60; ++at)
    nodes.push_back({node_id("node-" + std::to_string(at)), at % 7 == 3 ? 0 : 1 + at * at % 5});
  std::size_t differing = 0;
  for (std::uint64_t chunk = 0; chunk < 20'000; ++chunk) {
    const std::string name = "/n/f" + std::to_string(chunk);
    differing +=
        placement_first(nodes, name, chunk) != placement_order(nodes, name, chunk, 1)[0] ? 1 : 0;
  }

  CHECK(differing == 0);
}
