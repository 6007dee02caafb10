// What the simulator is made of, each part against something simpler, or against the real store.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <algorithm>
#include <array>
#include <cmath>
#include <list>
#include <map>
#include <numeric>
#include <random>
#include <unordered_map>

#include "sim/fleet.h"
#include "store_setup.h"

using namespace gd2fs;
using sim::Block;

namespace {

constexpr std::uint64_t PAGE = 4 * KiB;

/// Few blocks often, and now and then a scan over many.
std::vector<Block> sequence(std::size_t length, Block blocks, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Block> wanted;
  while (wanted.size() < length) {
    if (random() % 300 == 0) {
      const auto first = static_cast<Block>(blocks + random() % blocks);
      for (Block i = 0; i < blocks / 4; ++i) wanted.push_back(first + i);
    }
    const double share = static_cast<double>(random() % 1'000'000) / 1e6;
    wanted.push_back(static_cast<Block>(share * share * share * blocks));
  }
  return wanted;
}

std::size_t hits_of(sim::StoreNode& node, const std::vector<Block>& wanted) {
  std::size_t hits = 0;
  for (const Block block : wanted) {
    if (node.find(block) != sim::Where::nowhere) {
      ++hits;
      node.read(block);
    } else {
      node.put(block);
    }
  }
  return hits;
}

std::size_t hits_of(Store& store, const std::vector<Block>& wanted) {
  std::size_t hits = 0;
  for (const Block block : wanted) {
    if (store.find_page(key(block), true) != nullptr) {
      ++hits;
    } else {
      REQUIRE(put_page(store, key(block), PAGE, block) == Status::ok);
    }
  }
  return hits;
}

/// A trace of hand-made requests, which it owns.
struct MadeTrace {
  std::vector<double> arrives;
  std::vector<std::uint32_t> inputs, outputs, prompt_blocks, session;
  std::vector<std::uint64_t> first{0};
  std::vector<Block> blocks;

  void add(double at_s, std::uint32_t input, std::uint32_t output, std::vector<Block> own = {}) {
    arrives.push_back(at_s);
    inputs.push_back(input);
    outputs.push_back(output);
    prompt_blocks.push_back(static_cast<std::uint32_t>(own.size()));
    session.push_back(static_cast<std::uint32_t>(session.size()));
    blocks.insert(blocks.end(), own.begin(), own.end());
    first.push_back(blocks.size());
  }
  sim::Trace view() const {
    sim::Trace trace;
    trace.arrives_s = arrives;
    trace.input_tokens = inputs;
    trace.output_tokens = outputs;
    trace.first_block = first;
    trace.prompt_blocks = prompt_blocks;
    trace.blocks = blocks;
    trace.session = session;
    trace.block_tokens = 100;
    trace.block_count = blocks.empty() ? 0 : *std::max_element(blocks.begin(), blocks.end()) + 1;
    return trace;
  }
};

sim::EngineRates hundred_a_second() {
  sim::EngineRates rates;
  rates.token_s = 0.01;
  rates.step_s = 0.1;
  rates.requests_max = 8;
  return rates;
}

sim::ClusterOptions cluster_of(std::size_t nodes, std::uint32_t replicas = 1) {
  sim::ClusterOptions options;
  for (std::size_t at = 0; at < nodes; ++at) options.nodes.push_back("n" + std::to_string(at));
  options.weights.assign(nodes, 1);
  options.replicas = replicas;
  options.may_die = true;
  return options;
}

}  // namespace

TEST_CASE("a table of blocks finds what a map finds, whatever came and went") {
  std::mt19937_64 random(1);
  sim::BlockTable table;
  std::unordered_map<Block, std::uint32_t> map;
  for (std::uint32_t step = 0; step < 200'000; ++step) {
    const auto block = static_cast<Block>(random() % 3'000);
    if (map.contains(block)) {
      table.erase(block);
      map.erase(block);
    } else {
      table.insert(block, step);
      map[block] = step;
    }
  }
  bool is_same = table.size() == map.size();
  for (Block block = 0; block < 3'000; ++block) {
    const auto found = map.find(block);
    is_same = is_same && table.find(block) == (found == map.end() ? sim::NO_SLOT : found->second);
  }

  CHECK(is_same);
}

TEST_CASE("a private cache lets go of the least recently used") {
  const auto wanted = sequence(50'000, 900, 2);
  sim::PrivateCache cache(300);
  std::list<Block> order;
  std::unordered_map<Block, std::list<Block>::iterator> at;
  std::size_t differing = 0;
  for (const Block block : wanted) {
    differing += cache.has(block) != at.contains(block) ? 1 : 0;
    if (const auto found = at.find(block); found != at.end()) {
      order.erase(found->second);
    } else if (order.size() == 300) {
      at.erase(order.back());
      order.pop_back();
    }
    order.push_front(block);
    at[block] = order.begin();
    cache.use(block);
  }

  CHECK(differing == 0);
  CHECK(cache.evicted() > 300);
}

TEST_CASE("a node of the simulator hits exactly as often as a real one, by every policy") {
  constexpr std::uint64_t CAPACITY = 400;
  const auto wanted = sequence(30'000, CAPACITY * 3, 3);
  for (const PolicyKind policy : {PolicyKind::lru, PolicyKind::s3_fifo, PolicyKind::priority}) {
    const auto store = open_store(16 * MiB);
    NamespaceRules rules;
    rules.policy = policy;
    rules.quota_bytes = CAPACITY * PAGE;
    REQUIRE(store->set_rules("ns", rules) == Status::ok);
    sim::StoreNode node(policy, CAPACITY, 0);

    const std::size_t real = hits_of(*store, wanted);

    CHECK(hits_of(node, wanted) == real);
    CHECK(node.counts().evicted > CAPACITY);
    CHECK(node.counts().evicted == store->counts().evicted_pieces);
  }
}

TEST_CASE("what leaves memory is found on disk, until that is full") {
  sim::StoreNode node(PolicyKind::lru, 2, 3);
  for (Block block = 0; block < 5; ++block) node.put(block);

  CHECK(node.find(4) == sim::Where::memory);
  CHECK(node.find(0) == sim::Where::disk);
  node.read(0);  // into memory: 3 leaves it
  CHECK(node.find(0) == sim::Where::memory);
  CHECK(node.find(3) == sim::Where::disk);
  CHECK(node.counts().disk_dropped == 1);  // of 0, 1, 2 and then 3: 1 was there longest
  CHECK(node.find(1) == sim::Where::nowhere);
  CHECK(node.find(2) == sim::Where::disk);
  CHECK(node.counts().disk_written == 4);
}

TEST_CASE("blocks lie with the owners that the product's placement names") {
  sim::Cluster cluster(cluster_of(5, 2), 200, 1);
  std::vector<PlacedNode> placed;
  for (int at = 0; at < 5; ++at) placed.push_back({node_id("n" + std::to_string(at)), 1});
  for (Block block = 0; block < 200; ++block) cluster.put(block, 0);

  for (Block block = 0; block < 200; ++block) {
    const std::string name = page_name("sim", sim::Cluster::key_of(block));
    const auto owners = placement_order(placed, name, 0, 2);
    for (std::uint32_t node = 0; node < 5; ++node) {
      const bool is_owner = std::find(owners.begin(), owners.end(), node) != owners.end();
      const bool is_there = cluster.nodes()[node].cache.find(block) == sim::Where::memory;
      REQUIRE(is_owner == is_there);
    }
    REQUIRE(cluster.find(block).node == owners[0]);
  }
}

TEST_CASE("a node that dies takes along what has no other copy") {
  for (const std::uint32_t replicas : {1u, 2u}) {
    sim::Cluster cluster(cluster_of(4, replicas), 400, 1);
    for (Block block = 0; block < 400; ++block) cluster.put(block, 0);
    std::size_t of_node = 0, left = 0;
    for (Block block = 0; block < 400; ++block) of_node += cluster.find(block).node == 2 ? 1 : 0;

    cluster.kill(2);

    for (Block block = 0; block < 400; ++block)
      left += cluster.find(block).where != sim::Where::nowhere ? 1 : 0;
    CHECK(of_node > 50);
    CHECK(left == (replicas == 1 ? 400 - of_node : 400));
  }
}

TEST_CASE("a request takes as long as its prompt and its steps") {
  MadeTrace made;
  made.add(1, 50, 11);
  sim::FleetOptions options;
  options.engine = hundred_a_second();
  sim::Fleet fleet(options, made.view());

  REQUIRE(fleet.run(1));
  CHECK(fleet.first_token_s()[0] == doctest::Approx(0.5));
  CHECK(fleet.done_s()[0] == doctest::Approx(1.5));
  CHECK(fleet.gaps().mean_s() == doctest::Approx(0.1));
  CHECK(fleet.counts().ended_s == doctest::Approx(2.5));
}

TEST_CASE("a prompt waits for the step that goes on, and whoever decodes waits for the prompt") {
  MadeTrace made;
  made.add(0, 100, 21);    // computed until 1, decodes until 3
  made.add(1.25, 100, 1);  // begins at 1.3, computed until 2.3
  sim::FleetOptions options;
  options.engine = hundred_a_second();
  sim::Fleet fleet(options, made.view());

  REQUIRE(fleet.run(2));
  CHECK(fleet.first_token_s()[1] == doctest::Approx(1.05));
  CHECK(fleet.done_s()[0] == doctest::Approx(4.0));
  CHECK(fleet.gaps().max_s() == doctest::Approx(1.1));
}

TEST_CASE("in chunks a prompt takes longer, and nobody waits for all of it") {
  MadeTrace made;
  made.add(0, 100, 21);
  made.add(1.25, 100, 1);
  sim::FleetOptions options;
  options.engine = hundred_a_second();
  options.engine.chunk_tokens = 25;
  sim::Fleet fleet(options, made.view());

  REQUIRE(fleet.run(2));
  CHECK(fleet.first_token_s()[1] == doctest::Approx(1.45));  // four steps more
  CHECK(fleet.done_s()[0] == doctest::Approx(4.0));
  CHECK(fleet.gaps().max_s() == doctest::Approx(0.35));
}

TEST_CASE("an answer that is complete does not wait for the chunks of somebody's prompt") {
  MadeTrace made;
  made.add(0, 100, 3);     // computed until 1, decodes until 1.1, and once more
  made.add(1.05, 100, 1);  // with its first chunk that other step, then alone
  sim::FleetOptions options;
  options.engine = hundred_a_second();
  options.engine.chunk_tokens = 25;
  sim::Fleet fleet(options, made.view());

  REQUIRE(fleet.run(2));
  CHECK(fleet.done_s()[0] == doctest::Approx(1.45));
  CHECK(fleet.first_token_s()[1] == doctest::Approx(1.15));
  CHECK(fleet.gaps().mean_s() == doctest::Approx((0.1 + 0.35) / 2));
}

TEST_CASE("no more are decoded at once than may be") {
  MadeTrace made;
  for (int at = 0; at < 3; ++at) made.add(0, 10, 11);
  sim::FleetOptions options;
  options.engine = hundred_a_second();
  options.engine.requests_max = 2;
  sim::Fleet fleet(options, made.view());

  REQUIRE(fleet.run(3));
  CHECK(fleet.first_token_s()[1] == doctest::Approx(0.2));
  CHECK(fleet.done_s()[0] == doctest::Approx(1.2));
  CHECK(fleet.first_token_s()[2] == doctest::Approx(1.3));  // after the two have ended
}

TEST_CASE("what is found is not computed, but loaded") {
  MadeTrace made;
  made.add(0, 401, 1, {0, 1, 2, 3});
  made.add(10, 401, 1, {0, 1, 2, 3});
  sim::FleetOptions options;
  options.engine = hundred_a_second();
  options.block_bytes = 1000;
  options.load_s = 0.05;
  options.engine_bytes_per_s = 8000;
  options.store = cluster_of(2);
  options.store->node_bytes_per_s = 1e9;
  sim::Fleet fleet(options, made.view());

  REQUIRE(fleet.run(2));
  CHECK(fleet.first_token_s()[0] == doctest::Approx(4.01));
  CHECK(fleet.first_token_s()[1] == doctest::Approx(0.5 + 0.05 + 0.01));
  CHECK(fleet.counts().found.memory == 4);
  CHECK(fleet.counts().saved_s == doctest::Approx(4.0));
}

TEST_CASE("what takes longer to load than to compute is computed") {
  MadeTrace made;
  made.add(0, 401, 1, {0, 1, 2, 3});
  made.add(10, 401, 1, {0, 1, 2, 3});
  sim::FleetOptions options;
  options.engine = hundred_a_second();
  options.block_bytes = 1000;
  options.engine_bytes_per_s = 800;
  options.store = cluster_of(2);
  sim::Fleet fleet(options, made.view());

  REQUIRE(fleet.run(2));
  CHECK(fleet.first_token_s()[1] == doctest::Approx(4.01));
  CHECK(fleet.counts().declined_blocks == 4);
  CHECK(fleet.counts().found.memory == 0);
}

TEST_CASE("an instance that leaves takes its private cache along") {
  MadeTrace made;
  for (int at = 0; at < 6; ++at) made.add(at, 100, 1, {0});
  sim::FleetOptions options;
  options.instances = 2;
  options.host_blocks = sim::PrivateCache::UNLIMITED;
  options.tide = {{2, 1}, {4, 2}};
  sim::Fleet fleet(options, made.view());

  REQUIRE(fleet.run(6));
  // The second instance comes back at 4 without what it had.
  CHECK(fleet.found_blocks() == std::vector<std::uint32_t>{0, 0, 1, 1, 1, 0});
}

/// One a second. Blocks below a hundred are what all of them begin with.
MadeTrace prompts_of_sessions(std::initializer_list<std::vector<Block>> prompts) {
  MadeTrace made;
  for (const auto& prompt : prompts) {
    made.add(static_cast<double>(made.arrives.size()), 100, 1, prompt);
  }
  return made;
}

TEST_CASE("of idle slots the one is taken that has most of a prompt, or that is idle for longest") {
  const MadeTrace made = prompts_of_sessions({{0, 100, 101, 102},
                                              {0, 200, 201, 202},
                                              {0, 100, 101, 102, 103},
                                              {300, 301, 302, 303},
                                              {400, 401, 402, 403},
                                              {400, 401, 402, 403}});
  const sim::Trace trace = made.view();
  sim::Slots slots(trace, 2, 0);

  CHECK(slots.take(0) == 0);
  CHECK(slots.take(1) == 0);  // the other slot: that one is busy, whatever it has
  CHECK_FALSE(slots.has_idle());
  slots.give(1, 1);
  slots.give(0, 2);
  CHECK(slots.take(2) == 4);  // of its own conversation, not what all begin with
  slots.give(2, 3);
  CHECK(slots.take(3) == 0);  // that of 1, which is idle for longest
  slots.give(3, 4);
  CHECK(slots.take(4) == 0);  // that of 2
  CHECK(slots.take(5) == 0);  // 4 is not complete yet
}

TEST_CASE("what gives way in a slot is found in host memory, until that is full") {
  const MadeTrace made = prompts_of_sessions(
      {{100, 101, 102}, {200, 201, 202}, {100, 101, 102, 103}, {300, 301, 302}, {200, 201, 202}});
  const sim::Trace trace = made.view();
  for (const std::uint64_t room : {std::uint64_t{0}, std::uint64_t{6}, std::uint64_t{100}}) {
    sim::Slots slots(trace, 1, room);
    std::vector<std::uint32_t> found;
    for (sim::Request request = 0; request < trace.size(); ++request) {
      found.push_back(slots.take(request));
      slots.give(request, request + 1);
    }

    CHECK(found[2] == (room == 0 ? 0 : 3));
    CHECK(found[4] == (room == 100 ? 3 : 0));
    CHECK(slots.evicted() == (room == 6 ? 2 : 0));
  }
}

TEST_CASE("a slot that is given in turn has what was restored into it, or what it had before") {
  const MadeTrace made =
      prompts_of_sessions({{0, 100, 101}, {0, 200, 201}, {0, 300, 301}, {0, 100, 101, 102}});
  const sim::Trace trace = made.view();
  sim::Slots slots(trace, 2, 0);
  for (sim::Request request = 0; request < 2; ++request) {
    CHECK(slots.take_in_turn(request, sim::NO_REQUEST) == 0);
    slots.give(request, request);
  }

  CHECK(slots.take_in_turn(2, sim::NO_REQUEST) == 1);  // the beginning that 0 has left there
  CHECK(slots.take_in_turn(3, 0) == 3);
}

TEST_CASE("without an idle slot a request waits, and all that end with a step give back theirs") {
  MadeTrace made = prompts_of_sessions({{100, 101}, {200, 201}, {200, 201, 202}});
  const std::vector<double> first{1, 1, 5}, done{4, 3, 6};  // 1 and 0 both end at 4
  sim::Trace trace = made.view();
  trace.measured_first_s = first;
  trace.measured_done_s = done;
  sim::FleetOptions options;
  options.slots = 2;
  sim::Fleet fleet(options, trace);

  REQUIRE(fleet.run(3));
  CHECK(fleet.found_blocks() == std::vector<std::uint32_t>{0, 0, 2});
  CHECK(fleet.first_token_s()[2] == doctest::Approx(5));
  CHECK(fleet.counts().ended_s == doctest::Approx(8));
}

TEST_CASE("conversations of engines with slots are stored as a whole, and found by their names") {
  MadeTrace made =
      prompts_of_sessions({{0, 100, 101, 102}, {0, 200, 201}, {0, 100, 101, 102, 103}});
  made.session = {0, 1, 0};
  sim::FleetOptions options;
  options.slots = 1;
  options.instances = 3;
  options.store = cluster_of(1);
  sim::Fleet fleet(options, made.view());

  REQUIRE(fleet.run(3));
  CHECK(fleet.found_blocks() == std::vector<std::uint32_t>{0, 0, 4});  // 1 has no use of 0's
  CHECK(fleet.counts().found.memory == 4);
}

TEST_CASE("with workers the next turn is asked when another was answered") {
  MadeTrace made;
  for (int at = 0; at < 4; ++at) made.add(0, 100, 11);
  made.session = {0, 0, 1, 1};
  sim::FleetOptions options;
  options.engine = hundred_a_second();
  options.workers = 1;
  sim::Fleet fleet(options, made.view());

  REQUIRE(fleet.run(4));
  for (const float done_s : fleet.done_s()) CHECK(done_s == doctest::Approx(2.0));
  CHECK(fleet.counts().ended_s == doctest::Approx(8.0));
}

TEST_CASE("balancers spread, and sticky ones keep a conversation where it is") {
  MadeTrace made;
  for (int at = 0; at < 8'000; ++at) made.add(0, 1, 1);
  const sim::Trace trace = made.view();
  for (const sim::Balance kind : {sim::Balance::round_robin, sim::Balance::random,
                                  sim::Balance::least_loaded, sim::Balance::sticky}) {
    sim::Balancer balancer(kind, 8, 1, 0);
    std::array<int, 8> counts{};
    for (sim::Request request = 0; request < trace.size(); ++request)
      ++counts[balancer.choose(trace, request, 8)];
    const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
    CHECK(*least > 850);
    CHECK(*most < 1'150);
  }
  sim::Balancer sticky(sim::Balance::sticky, 9, 1, 0);
  int moved = 0;
  for (sim::Request request = 0; request < trace.size(); ++request)
    moved += sticky.choose(trace, request, 8) != sticky.choose(trace, request, 9) ? 1 : 0;
  CHECK(moved < 8'000 / 9 * 1.2);
}

TEST_CASE("a balancer that knows caches sends a prompt where its beginning was") {
  MadeTrace made;
  made.add(0, 300, 1, {0, 1, 2});
  made.add(0, 300, 1, {5, 6, 7});
  made.add(0, 400, 1, {0, 1, 2, 3});
  made.add(0, 400, 1, {5, 6, 7, 8});
  const sim::Trace trace = made.view();
  sim::Balancer balancer(sim::Balance::cache_aware, 4, 1, trace.block_count);
  std::array<std::uint32_t, 4> chosen{};
  for (sim::Request request = 0; request < 4; ++request)
    chosen[request] = balancer.choose(trace, request, 4);

  CHECK(chosen[0] != chosen[1]);
  CHECK(chosen[2] == chosen[0]);
  CHECK(chosen[3] == chosen[1]);
}

TEST_CASE("a histogram's quantiles are within a percent") {
  sim::Histogram histogram;
  for (int at = 1; at <= 10'000; ++at) histogram.add(at * 1e-3, 1);

  CHECK(std::abs(histogram.quantile_s(0.5) / 5.0 - 1) < 0.011);
  CHECK(std::abs(histogram.quantile_s(0.99) / 9.9 - 1) < 0.011);
  CHECK(histogram.mean_s() == doctest::Approx(5.0005));
  CHECK(histogram.max_s() == doctest::Approx(10.0));
}
