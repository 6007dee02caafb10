// Fleet: engines behind a balancer, with private caches or a GD2FS cluster, over the time of a
// trace. One seed, one world: nothing depends on anything but what it is given.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <queue>
#include <vector>

#include "balancer.h"
#include "cluster.h"
#include "engine.h"
#include "link.h"
#include "private_cache.h"
#include "slots.h"
#include "trace.h"

namespace gd2fs::sim {

struct FleetOptions {
  std::uint32_t instances = 1;
  Balance balance = Balance::round_robin;
  std::uint64_t seed = 1;
  EngineRates engine;
  std::uint64_t device_blocks = 0;  // of each instance: on its device,
  std::uint64_t host_blocks = 0;    // and in its own host memory
  std::uint32_t slots = 0;          // of each, that have whole prompts; 0: it has pages
  double block_bytes = 0;
  double host_bytes_per_s = 0;    // from host memory to the device
  double engine_bytes_per_s = 0;  // of an instance's NICs, in each direction
  double load_s = 0;              // of every load from the store, beside its bytes
  bool never_slower = true;       // what would take longer to load than to compute is computed
  std::optional<ClusterOptions> store;

  struct Active {
    double from_s;
    std::uint32_t instances;
  };
  std::vector<Active> tide;  // how many instances there are, by time; empty: all, always
  struct Death {
    double at_s;
    std::uint32_t node;
  };
  std::vector<Death> deaths;
  std::uint32_t workers = 0;  // so many requests at a time, whatever the trace's times; 0: those
  double turn_s = 0;          // with workers: before every request
  double bin_s = 0;           // of the figures over time
};

/// What was found where, in blocks.
struct Tiers {
  std::uint64_t device = 0, host = 0, memory = 0, disk = 0;
};

struct Bin {
  double requests = 0, asked_blocks = 0, found_blocks = 0, first_token_s = 0, answered = 0,
         busy_s = 0;
};

struct FleetCounts {
  Tiers found;
  std::uint64_t asked_blocks = 0;
  std::uint64_t input_tokens = 0, found_tokens = 0, output_tokens = 0;
  std::uint64_t declined_blocks = 0;   // were there, and would have taken longer to load
  double computed_s = 0, saved_s = 0;  // of computing prompts
  double ended_s = 0;                  // when the last answer was complete
};

class Fleet {
 public:
  Fleet(const FleetOptions& options, const Trace& trace);

  /// Goes on until so many more requests have been answered. True: all have.
  bool run(std::size_t requests);

  struct Instance {
    Engine engine;
    PrivateCache device, host;  // of an engine with pages
    Slots slots;                // of one without
    std::deque<Request> without_slot{};
    Link in, out, from_host;
    double expected_s = -1;  // when its engine will do something by itself
  };
  const FleetCounts& counts() const noexcept { return counts_; }
  const std::vector<Instance>& instances() const noexcept { return instances_; }
  const Cluster* store() const noexcept { return store_.get(); }
  const Histogram& gaps() const noexcept { return gaps_; }
  const std::vector<Bin>& bins() const noexcept { return bins_; }
  // Of each request. Times since it came; none when engines take no time.
  const std::vector<float>& first_token_s() const noexcept { return first_token_s_; }
  const std::vector<float>& done_s() const noexcept { return done_s_; }
  const std::vector<std::uint32_t>& found_blocks() const noexcept { return found_; }
  const std::vector<std::uint16_t>& instance_of() const noexcept { return instance_of_; }
  std::size_t answered() const noexcept { return answered_; }

 private:
  enum class Kind : std::uint8_t { arrival, loaded, engine, slot, first_token, done };
  struct Event {
    double at_s;
    std::uint64_t number;  // of equal times, the first one made comes first
    Kind kind;
    std::uint32_t target, version;
    bool operator<(const Event& other) const noexcept {
      return at_s != other.at_s ? at_s > other.at_s : number > other.number;
    }
  };

  void settle_blocks();
  void link_turns();
  void step();
  void expect(double at_s, Kind kind, std::uint32_t target, std::uint32_t version = 0);
  void apply_changes(double now_s);
  void set_active(std::uint32_t count);
  void arrive(Request request, double now_s);
  void enter(Request request, Instance& instance, double now_s);
  void fill_slots(Instance& instance, double now_s);
  void look_up(Request request, Instance& instance);
  void take_slot(Request request, Instance& instance);
  Request stored_turn(Request request);
  double load(Request request, Instance& instance, double now_s);
  void decline_store_hits(Request request);
  void use_store_hits(Request request);
  void count_found();
  void answer_at_once(Request request, Instance& instance, double now_s);
  void answer_as_measured(Request request, double now_s);
  void settle(std::uint32_t at, double now_s);
  void begin(Instance& instance, double now_s);
  void on_computed(Request request, Instance& instance, double now_s);
  void on_finished(Request request, Instance& instance, double now_s);
  void keep(std::span<const Block> blocks, Instance& instance, double now_s);
  void leave(Request request, Instance& instance, double now_s);
  void end(Request request, double now_s);
  bool is_measured() const noexcept { return !trace_.measured_done_s.empty(); }
  double arrived_s(Request request) const noexcept;
  std::uint32_t found_tokens(Request request) const noexcept;
  Bin& bin(double now_s);

  const FleetOptions options_;
  const Trace trace_;
  Balancer balancer_;
  std::unique_ptr<Cluster> store_;
  std::vector<Instance> instances_;
  std::uint32_t active_;
  std::size_t tide_at_ = 0, deaths_at_ = 0;

  std::priority_queue<Event> events_;
  std::uint64_t event_number_ = 0;
  Request next_arrival_ = 0;
  std::vector<Request> next_turn_;  // of the same conversation; with workers
  std::deque<Request> ready_;       // likewise: turns that may be asked
  std::vector<double> arrived_;     // likewise
  std::vector<Request> last_done_;  // of each conversation, where engines have slots

  // Of the request that is looked up.
  Tiers tiers_;
  ClusterRead read_;
  struct Before {
    std::uint32_t blocks;
    Tiers tiers;
  };
  Before before_store_{};  // what was found ahead of the first block of the store

  std::vector<std::uint16_t> instance_of_;
  std::vector<std::uint32_t> found_;
  std::vector<float> first_token_s_, done_s_;
  std::size_t answered_ = 0;
  FleetCounts counts_;
  Histogram gaps_;
  std::vector<Bin> bins_;
};

}  // namespace gd2fs::sim
