// Protocol world: nodes, clients, a membership and a network that all fail, in one thread and by a
// clock that is only a number. One seed is one history.
//
// The nodes run the record keeper itself, on real records; only what carries its questions is
// made up. Two paths with two chunks each, whose pieces can always be read: so whatever a record
// shows is seen.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "../../core/limits.h"  // the system has a limits.h of its own
#include "admission.h"
#include "record_keeper.h"

namespace gd2fs::testing {

constexpr std::int64_t TTL = 60, MARGIN = 8, CALL_TIME = 50, STEPS = 2'600;
constexpr std::size_t NODES = 4, CLIENTS = 3, CELLS = 2, PATHS = 2;
constexpr std::uint32_t CELL_BYTES = 64 * KiB;  // a chunk each

/// What a client's call was, and what came of it.
struct Event {
  enum class Kind { read, write, remove } kind = Kind::read;
  std::size_t path = 0;
  unsigned cells = 0;  // a bit each
  std::uint64_t tag = 0;
  std::int64_t start = 0;
  std::int64_t end = -1;           // of the call
  std::int64_t acknowledged = -1;  // and it succeeded
  std::uint64_t seen[CELLS] = {};  // read: tags
};

/// What a node answers a client.
struct Reply {
  Status status = Status::unavailable;
  RecordAnswer record;
  std::uint64_t tags[CELLS] = {};
  std::size_t map = 0;  // which one the node has
};

class World;

/// One life of a node.
class Process {
 public:
  using OnEnd = std::function<void(const RecordAnswer&)>;

  Process(World& world, std::size_t node, std::uint64_t boot, std::size_t map,
          std::shared_ptr<Records> kept);

  Member self() const { return {id, boot}; }
  std::uint64_t epoch() const { return keeper->history()->epoch(); }
  void catch_up(std::size_t map, bool is_gap = false);
  void serve(const std::string& path, std::uint64_t epoch, const std::optional<RecordChange>& asked,
             std::function<void(Reply)> reply);
  void serve(const PeerQuestion& question, std::function<void(PeerAnswer)> reply);
  void answered(std::uint64_t number, const PeerAnswer& answer);
  void tick();

  World& world;
  const std::size_t node;
  const NodeId id;
  const std::uint64_t boot;
  std::shared_ptr<Records> records;
  NodeLease lease;
  std::unique_ptr<RecordKeeper> keeper;
  std::size_t map;  // the last one that it has applied
  bool is_alive = true;
  std::int64_t paused_until = 0;
  std::int64_t cut_until = 0;       // from everyone
  std::int64_t etcd_cut_until = 0;  // from the membership

 private:
  void look(const std::string& path, bool is_first, std::function<void(Reply)> reply);
  std::uint64_t ticket(OnEnd on_end);
  void carry_out(RecordKeeper::Effects& effects);

  std::map<std::uint64_t, OnEnd> tickets_;
  std::uint64_t last_ticket_ = 0;
  std::int64_t tick_at_ = 0;
};
using ProcessRef = std::shared_ptr<Process>;

struct Counts {
  std::size_t acknowledged = 0, failed = 0, hits = 0, misses = 0, maps = 0;
};

class World {
 public:
  explicit World(std::uint64_t seed);
  /// Nothing, or what a reader saw that it must not.
  std::optional<std::string> run();
  const Counts& counts() const { return counts_; }

  // For its processes.
  std::int64_t now = 0;
  double follow_chance = 0;  // of learning a map because someone speaks of it
  std::size_t below(std::size_t count) { return random_() % count; }
  bool chance(double probability) {
    return std::uniform_real_distribution<>()(random_) < probability;
  }
  const wire::Map& map(std::size_t at) const { return maps_[at]; }
  std::size_t last_map() const { return maps_.size() - 1; }
  void at(std::int64_t time, std::function<void()> what);
  /// Soon, but not while it is paused, and not once it is dead.
  void on(const ProcessRef& process, std::function<void()> what);
  ProcessRef process(const Member& member);
  void ask(Process& from, const RecordKeeper::Question& question);

 private:
  struct Timed {
    std::int64_t time;
    std::uint64_t order;
    std::function<void()> what;
    bool operator>(const Timed& other) const {
      return std::tie(time, order) > std::tie(other.time, other.order);
    }
  };
  struct Client {
    std::size_t map = 0;
  };
  using OnReply = std::function<void(const Reply&)>;

  void begin();
  ProcessRef join(std::size_t node, const ProcessRef& kept);
  void set_map(std::vector<wire::MapNode> nodes, const std::vector<Member>& expired);
  std::vector<wire::MapNode> listed() const;
  std::int64_t delay();
  bool is_blocked(std::optional<std::size_t> from, std::optional<std::size_t> to);
  bool is_listed(const Member& member) const;

  void membership();
  void keep_alive(const ProcessRef& process);
  void nemesis();
  void break_something();

  void call(const Member& to, const std::string& path, std::uint64_t epoch,
            const std::optional<RecordChange>& asked, OnReply then);
  void at_home(Client& client, std::size_t path, const std::optional<RecordChange>& asked,
               std::size_t tries, OnReply then);
  void read_from(Client& client, std::size_t path, std::size_t owner, std::size_t tries,
                 OnReply then);
  void client(Client& client);
  void read(Client& client, Event& event);
  void write(Client& client, Event& event);
  void create(Client& client, Event& event);
  void replace(Client& client, Event& event, const RecordAnswer& seen, std::size_t tries);
  void commit(Client& client, Event& event, const RecordAnswer& seen, std::size_t tries);
  void remove(Client& client, Event& event);
  void ended(Client& client, Event& event, bool is_acknowledged);
  std::optional<std::string> check() const;

  std::mt19937_64 random_;
  std::uint64_t order_ = 0;
  std::priority_queue<Timed, std::vector<Timed>, std::greater<>> events_;
  std::vector<wire::Map> maps_;
  std::vector<ProcessRef> nodes_;
  std::vector<ProcessRef> down_;
  std::vector<std::int64_t> kept_alive_;
  std::map<std::pair<std::size_t, std::size_t>, std::int64_t> cuts_;
  std::uint64_t last_boot_ = 0, last_tag_ = 0;
  bool is_static_ = false;
  double beat_chance_ = 0;    // of a keep-alive, each moment
  double change_chance_ = 0;  // of an operator who changes the map
  std::vector<std::string> paths_;
  std::vector<Client> clients_;
  std::vector<std::unique_ptr<Event>> history_;
  Counts counts_;
};

}  // namespace gd2fs::testing
