#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "protocol_world.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <tuple>

namespace gd2fs {

std::uint32_t broken_rules = 0;

}  // namespace gd2fs

namespace gd2fs::testing {

constexpr KeeperTimes TIMES{.pull_ms = 30,
                            .replicate_ms = 40,
                            .again_ms = 3,
                            .confirm_ms = 10,
                            .touch_ms = 40,
                            .settle_ms = 30};

// ---- process ---------------------------------------------------------------------------

Process::Process(World& in, std::size_t number, std::uint64_t of, std::size_t first_map,
                 std::shared_ptr<Records> kept)
    : world(in),
      node(number),
      id(node_id("node-" + std::to_string(number))),
      boot(of),
      records(kept != nullptr ? std::move(kept) : std::make_shared<Records>(64)),
      lease(in.map(first_map).lease_ms > 0),
      map(first_map) {}

void Process::catch_up(std::size_t to, bool is_gap) {
  RecordKeeper::Effects effects;
  if (keeper == nullptr) {
    auto history = std::make_shared<const MapHistory>(self(), world.map(map), world.now);
    keeper = std::make_unique<RecordKeeper>(*records, lease, history, TIMES, world.now, effects);
  }
  to = std::min(to, world.last_map());
  if (is_gap && to > map + 1) map = to - 1;
  while (map < to) {
    keeper->take_map(world.map(++map), is_gap, world.now, effects);
    is_gap = false;
  }
  carry_out(effects);
}

std::uint64_t Process::ticket(OnEnd on_end) {
  tickets_.emplace(++last_ticket_, std::move(on_end));
  return last_ticket_;
}

void Process::carry_out(RecordKeeper::Effects& effects) {
  for (const RecordKeeper::Question& question : effects.questions) world.ask(*this, question);
  for (const RecordKeeper::End& end : effects.ends) {
    const OnEnd on_end = std::move(tickets_.at(end.ticket));
    tickets_.erase(end.ticket);
    on_end(end.answer);
  }
  const std::int64_t next = std::max(keeper->next_ms(), world.now + 1);
  if (next > world.now + STEPS || (tick_at_ > world.now && tick_at_ <= next)) return;
  tick_at_ = next;
  world.at(next, [this, self = world.process({id, boot})] {
    if (self != nullptr) world.on(self, [this] { tick(); });
  });
}

void Process::tick() {
  tick_at_ = 0;
  RecordKeeper::Effects effects;
  keeper->tick(world.now, effects);
  carry_out(effects);
}

void Process::answered(std::uint64_t number, const PeerAnswer& answer) {
  RecordKeeper::Effects effects;
  keeper->answered(number, answer, world.now, effects);
  carry_out(effects);
}

void Process::look(const std::string& path, bool is_first, std::function<void(Reply)> reply) {
  wire::MetaBody body;
  bool is_cut = false;
  Reply out;
  out.map = map;
  out.record = records->meta(path, 0, CELLS * CELL_BYTES, 100, body, is_cut);
  out.status = out.record.status;
  for (const wire::Segment& segment : body.segments) out.tags[segment.chunk] = segment.tag;
  if (out.status != Status::retry) return reply(out);
  out.status = Status::miss;
  if (!is_first) return reply(out);
  RecordKeeper::Effects effects;
  keeper->look(ticket([=, this](const RecordAnswer& answer) {
                 Reply end = out;
                 end.status = answer.status;
                 if (answer.status != Status::ok) return reply(end);
                 if (!lease.is_good(world.now)) return reply({Status::fenced, {}, {}, map});
                 look(path, false, reply);
               }),
               path, world.now + CALL_TIME, world.now, effects);
  carry_out(effects);
}

void Process::serve(const std::string& path, std::uint64_t epoch,
                    const std::optional<RecordChange>& asked, std::function<void(Reply)> reply) {
  // A request that is ahead of its node may find that the map has come by now.
  if (epoch > this->epoch() && world.chance(world.follow_chance)) {
    while (map < world.last_map() && this->epoch() < epoch) catch_up(map + 1);
  }
  const Status status = admit(*keeper->history(), lease, epoch, world.now);
  if (status != Status::ok) return reply({status, {}, {}, map});
  if (!asked) return look(path, true, reply);
  const auto answer = [this, reply](const RecordAnswer& record) {
    reply({record.status, record, {}, map});
  };
  if (const auto at_once = records->change_at_once(path, *asked)) return answer(*at_once);
  RecordKeeper::Effects effects;
  keeper->mutate(ticket(answer), path, *asked, world.now + CALL_TIME, world.now, effects);
  carry_out(effects);
}

void Process::serve(const PeerQuestion& question, std::function<void(PeerAnswer)> reply) {
  const std::uint64_t epoch = std::visit(
      [](const auto& each) {
        if constexpr (std::is_same_v<std::decay_t<decltype(each)>, ReplicationRef>)
          return each->epoch;
        else
          return each.epoch;
      },
      question);
  if (epoch > this->epoch() && world.chance(world.follow_chance)) {
    while (map < world.last_map() && this->epoch() < epoch) catch_up(map + 1);
  }
  if (std::holds_alternative<EpochQuestion>(question)) return reply(keeper->confirm(world.now));
  if (const auto* pull = std::get_if<PullQuestion>(&question))
    return reply(keeper->pull(pull->path, pull->epoch, world.now));
  if (const auto* replication = std::get_if<ReplicationRef>(&question))
    return reply(keeper->take(**replication, world.now));
  const std::string path = std::get<TouchQuestion>(question).path;
  if (admit(*keeper->history(), lease, epoch, world.now) != Status::ok)
    return reply(TouchAnswer{false});
  RecordKeeper::Effects effects;
  keeper->look(ticket([=, this](const RecordAnswer& answer) {
                 reply(TouchAnswer{answer.status == Status::ok &&
                                   records->standing(path) != Standing::unknown});
               }),
               path, world.now + CALL_TIME, world.now, effects);
  carry_out(effects);
}

// ---- the world -------------------------------------------------------------------------

World::World(std::uint64_t seed) : random_(seed), nodes_(NODES), down_(NODES), kept_alive_(NODES) {
  is_static_ = seed % 5 == 4;
  // Half of the worlds learn of maps by and by, from the membership alone, and change more often.
  const bool is_slow = seed / 2 % 2 == 1;
  follow_chance = is_slow ? 0 : 0.7;
  beat_chance_ = is_slow ? 0.06 : 0.25;
  change_chance_ = is_slow ? 0.02 : 0.006;
  for (std::size_t path = 0; path < PATHS; ++path)
    paths_.push_back("/ns/" + std::to_string(random_()));
  wire::Map map;
  map.epoch = 1;
  map.provider = is_static_ ? wire::Provider::fixed : wire::Provider::etcd;
  map.replicas = static_cast<std::uint8_t>(seed % 2 == 0 ? 2 : seed % 3 == 0 ? 3 : 1);
  map.lease_ms = is_static_ ? 0 : TTL;
  const std::size_t first = 2 + below(NODES - 1);
  for (std::size_t node = 0; node < first; ++node) {
    wire::MapNode entry;
    entry.id = node_id("node-" + std::to_string(node));
    entry.boot = is_static_ ? 0 : node + 1;
    entry.addresses = std::to_string(node);
    map.nodes.push_back(entry);
  }
  maps_.push_back(map);
  for (std::size_t node = 0; node < first; ++node) {
    nodes_[node] = std::make_shared<Process>(*this, node, ++last_boot_, 0, nullptr);
    nodes_[node]->catch_up(0);
    nodes_[node]->lease.set(TTL - MARGIN);
  }
}

void World::at(std::int64_t time, std::function<void()> what) {
  events_.push({time, ++order_, std::move(what)});
}

void World::on(const ProcessRef& process, std::function<void()> what) {
  if (!process->is_alive) return;
  if (process->paused_until <= now) return what();
  at(process->paused_until + 1, [=, this] { on(process, what); });
}

ProcessRef World::process(const Member& member) {
  for (const ProcessRef& each : nodes_) {
    if (each != nullptr && each->is_alive && each->self().is_same(member)) return each;
  }
  return nullptr;
}

std::int64_t World::delay() {
  constexpr std::int64_t USUAL[] = {1, 2, 3, 5, 8};
  return chance(0.93) ? USUAL[below(5)] : 20 + static_cast<std::int64_t>(below(240));
}

bool World::is_blocked(std::optional<std::size_t> from, std::optional<std::size_t> to) {
  if (from && to) {
    const auto cut = cuts_.find({*from, *to});
    if (cut != cuts_.end() && cut->second > now) return true;
  }
  for (const auto& side : {from, to}) {
    if (side && nodes_[*side] != nullptr && nodes_[*side]->cut_until > now && chance(0.97))
      return true;
  }
  return false;
}

void World::ask(Process& from, const RecordKeeper::Question& question) {
  const ProcessRef source = process(from.self());
  const auto is_done = std::make_shared<bool>(false);
  const std::uint64_t number = question.number;
  const auto end = [=, this](const PeerAnswer& answer) {
    if (*is_done || source == nullptr) return;
    *is_done = true;
    on(source, [=] { source->answered(number, answer); });
  };
  const ProcessRef target = process(question.to);
  if (target == nullptr && chance(0.5)) return at(now + 1, [=] { end(NoAnswer{false}); });
  at(std::max(question.deadline_ms, now + 1), [=] { end(NoAnswer{true}); });
  const std::size_t source_node = from.node;
  if (target == nullptr) return;
  // What is on its way to a process ends with it.
  at(now + delay(), [=, this, to = target->self(), what = question.what] {
    const ProcessRef arrived = process(to);
    if (arrived == nullptr || is_blocked(source_node, arrived->node)) return;
    on(arrived, [=, this] {
      arrived->serve(what, [=, this](const PeerAnswer& answer) {
        if (is_blocked(arrived->node, source_node)) return;
        at(now + static_cast<std::int64_t>(below(5)), [=] { end(answer); });
      });
    });
  });
}

// ---- membership ------------------------------------------------------------------------

std::vector<wire::MapNode> World::listed() const {
  std::vector<wire::MapNode> nodes = maps_.back().nodes;
  std::erase_if(nodes,
                [](const wire::MapNode& node) { return node.state == wire::NodeState::gone; });
  return nodes;
}

bool World::is_listed(const Member& member) const {
  const auto nodes = listed();
  return std::any_of(nodes.begin(), nodes.end(), [&](const wire::MapNode& node) {
    return Member{node.id, node.boot} == member;
  });
}

/// The next map. Who is in the last one and not in this one is named as gone.
void World::set_map(std::vector<wire::MapNode> nodes, const std::vector<Member>& expired) {
  const auto has = [](const auto& all, const wire::MapNode& node) {
    return std::any_of(all.begin(), all.end(), [&](const auto& each) {
      return each.id == node.id && each.boot == node.boot;
    });
  };
  std::vector<wire::MapNode> gone;
  for (wire::MapNode node : listed()) {
    if (has(nodes, node)) continue;
    node.state = wire::NodeState::gone;
    node.left_by = has(expired, node) ? wire::LeftBy::lease_expired : wire::LeftBy::taken_out;
    // One name stands in a map once.
    const bool is_back = std::any_of(nodes.begin(), nodes.end(),
                                     [&](const auto& each) { return each.id == node.id; });
    if (!is_back) gone.push_back(node);
  }
  nodes.insert(nodes.end(), gone.begin(), gone.end());
  wire::Map map = maps_.back();
  map.epoch += 1 + below(3);
  map.nodes = std::move(nodes);
  maps_.push_back(std::move(map));
}

ProcessRef World::join(std::size_t node, const ProcessRef& kept) {
  const std::uint64_t boot = ++last_boot_;
  // Some watch the membership before they join it, so that they know the map before.
  const bool is_watching = chance(0.5);
  std::shared_ptr<Records> records;
  if (kept != nullptr && !is_static_) records = kept->records;
  std::vector<wire::MapNode> nodes = listed();
  const NodeId id = node_id("node-" + std::to_string(node));
  std::erase_if(nodes, [&](const wire::MapNode& each) { return each.id == id; });
  wire::MapNode entry;
  entry.id = id;
  entry.boot = boot;
  entry.addresses = std::to_string(node);
  nodes.push_back(entry);
  const std::size_t before = last_map();
  if (!is_static_) set_map(std::move(nodes), {});
  const std::size_t first = is_watching || is_static_ ? before : last_map();
  nodes_[node] = std::make_shared<Process>(*this, node, boot, first, std::move(records));
  nodes_[node]->catch_up(last_map());
  nodes_[node]->lease.set(now + TTL - MARGIN);
  kept_alive_[node] = now;
  return nodes_[node];
}

void World::keep_alive(const ProcessRef& process) {
  const bool is_reached =
      process->paused_until <= now && process->cut_until <= now && process->etcd_cut_until <= now;
  if (!is_reached) return;
  const bool is_member = is_listed(process->self());
  if (is_member && chance(beat_chance_)) {
    kept_alive_[process->node] = now;
    // It counts only once all maps up to the one in the answer are applied.
    process->catch_up(last_map(), chance(0.02));
    process->lease.set(now - static_cast<std::int64_t>(below(4)) + TTL - MARGIN);
  } else if (!is_member && chance(0.02)) {
    std::vector<wire::MapNode> nodes = listed();
    std::erase_if(nodes, [&](const auto& each) { return each.id == process->id; });
    wire::MapNode entry;
    entry.id = process->id;
    entry.boot = process->boot;
    entry.addresses = std::to_string(process->node);
    nodes.push_back(entry);
    set_map(std::move(nodes), {});
    kept_alive_[process->node] = now;
    process->catch_up(last_map());
    process->lease.set(now + TTL - MARGIN);
  } else if (chance(0.02)) {
    process->catch_up(process->map + 1);
  }
}

void World::membership() {
  for (std::size_t node = 0; node < NODES; ++node) {
    const ProcessRef process = nodes_[node];
    if (process != nullptr && process->is_alive) keep_alive(process);
  }
  std::vector<wire::MapNode> nodes = listed();
  if (chance(change_chance_) && nodes.size() > 1) {
    const std::size_t at = below(nodes.size());
    switch (below(3)) {
      case 0: nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(at)); break;
      case 1: nodes[at].weight = 1 + static_cast<std::uint32_t>(below(4)); break;
      default:
        nodes[at].state = nodes[at].state == wire::NodeState::draining ? wire::NodeState::active
                                                                       : wire::NodeState::draining;
    }
    set_map(nodes, {});
  }
  std::vector<Member> expired;
  for (const wire::MapNode& node : listed()) {
    const auto at = static_cast<std::size_t>(std::stoul(node.addresses));
    if (now > kept_alive_[at] + TTL) expired.push_back({node.id, node.boot});
  }
  if (!expired.empty() && expired.size() < listed().size()) {
    nodes = listed();
    std::erase_if(nodes, [&](const wire::MapNode& node) {
      return std::find(expired.begin(), expired.end(), Member{node.id, node.boot}) != expired.end();
    });
    set_map(nodes, expired);
  }
  if (now < STEPS) at(now + 1, [this] { membership(); });
}

void World::nemesis() {
  break_something();
  if (now < STEPS) at(now + 15 + static_cast<std::int64_t>(below(75)), [this] { nemesis(); });
}

void World::break_something() {
  const auto some = [this](std::int64_t most) {
    return now + 10 + static_cast<std::int64_t>(below(static_cast<std::size_t>(most)));
  };
  std::vector<ProcessRef> live, dead;
  for (const ProcessRef& each : nodes_) {
    if (each != nullptr && each->is_alive) live.push_back(each);
  }
  const double dice = std::uniform_real_distribution<>()(random_);
  const ProcessRef victim = live.empty() ? nullptr : live[below(live.size())];
  if (dice < 0.3 && victim != nullptr) {
    victim->paused_until = some(3 * TTL);
  } else if (dice < 0.38 && victim != nullptr) {
    victim->cut_until = some(2 * TTL);
  } else if (dice < 0.5 && victim != nullptr) {
    victim->etcd_cut_until = some(2 * TTL);
  } else if (dice < 0.62) {
    cuts_[{below(NODES), below(NODES)}] = some(3 * TTL);
  } else if (dice < 0.72 && live.size() > 1) {
    victim->is_alive = false;
    down_[victim->node] = victim;
  } else {
    std::vector<std::size_t> free;
    for (std::size_t node = 0; node < NODES; ++node) {
      const bool is_known = !is_static_ || nodes_[node] != nullptr;
      if (is_known && (nodes_[node] == nullptr || !nodes_[node]->is_alive)) free.push_back(node);
    }
    if (free.empty()) return;
    const std::size_t node = free[below(free.size())];
    join(node, chance(0.5) ? down_[node] : nullptr);
  }
}

// ---- clients ---------------------------------------------------------------------------

void World::call(const Member& to, const std::string& path, std::uint64_t epoch,
                 const std::optional<RecordChange>& asked, OnReply then) {
  const auto is_done = std::make_shared<bool>(false);
  const auto end = [=](const Reply& reply) {
    if (*is_done) return;
    *is_done = true;
    then(reply);
  };
  at(now + CALL_TIME, [=] { end({}); });
  const ProcessRef target = process(to);
  if (target == nullptr) return;
  at(now + delay(), [=, this, life = target->self()] {
    const ProcessRef arrived = process(life);
    if (arrived == nullptr || is_blocked({}, arrived->node)) return;
    on(arrived, [=, this] {
      arrived->serve(path, epoch, asked, [=, this](const Reply& reply) {
        if (is_blocked(arrived->node, {})) return;
        at(now + static_cast<std::int64_t>(below(5)), [=] { end(reply); });
      });
    });
  });
}

std::vector<Member> owners_of(const wire::Map& map, const std::string& path) {
  return MapHistory({}, map, 0).owners(path);
}

void World::at_home(Client& client, std::size_t path, const std::optional<RecordChange>& asked,
                    std::size_t tries, OnReply then) {
  const std::vector<Member> owners = owners_of(maps_[client.map], paths_[path]);
  if (owners.empty() || tries == 0) return then({});
  call(owners.front(), paths_[path], maps_[client.map].epoch, asked,
       [=, this, &client](const Reply& reply) {
         if (reply.status == Status::stale_map) {
           client.map = std::max(client.map, reply.map);
           return at_home(client, path, asked, tries - 1, then);
         }
         if (reply.status == Status::unavailable && chance(0.4)) client.map = last_map();
         then(reply);
       });
}

/// Home first, then its backups.
void World::read_from(Client& client, std::size_t path, std::size_t owner, std::size_t tries,
                      OnReply then) {
  const std::vector<Member> owners = owners_of(maps_[client.map], paths_[path]);
  if (owner >= owners.size() || tries == 0) return then({});
  call(owners[owner], paths_[path], maps_[client.map].epoch, {},
       [=, this, &client](const Reply& reply) {
         if (reply.status == Status::ok || reply.status == Status::gone) return then(reply);
         if (reply.status == Status::stale_map) {
           client.map = std::max(client.map, reply.map);
           return read_from(client, path, 0, tries - 1, then);
         }
         if (reply.status == Status::unavailable && chance(0.2)) client.map = last_map();
         read_from(client, path, owner + 1, tries, then);
       });
}

void World::client(Client& client) {
  if (now >= STEPS) return;
  if (chance(0.15)) client.map = std::min(last_map(), client.map + 1);
  history_.push_back(std::make_unique<Event>());
  Event& event = *history_.back();
  event.start = now;
  event.path = below(8) == 0 ? 1 : 0;  // mostly one path: histories collide there
  event.cells = chance(0.4) ? 3u : 1u + static_cast<unsigned>(below(2));
  const double dice = std::uniform_real_distribution<>()(random_);
  if (dice < 0.45) return read(client, event);
  if (dice < 0.92) return write(client, event);
  remove(client, event);
}

void World::ended(Client& client, Event& event, bool is_acknowledged) {
  event.end = now;
  if (is_acknowledged) event.acknowledged = now;
  if (event.kind != Event::Kind::read) ++(is_acknowledged ? counts_.acknowledged : counts_.failed);
  at(now + 1 + static_cast<std::int64_t>(below(12)), [this, &client] { this->client(client); });
}

void World::read(Client& client, Event& event) {
  read_from(client, event.path, 0, 3, [this, &client, &event](const Reply& reply) {
    bool is_hit = false;
    for (std::size_t cell = 0; cell < CELLS && reply.status == Status::ok; ++cell) {
      event.seen[cell] = reply.tags[cell];
      is_hit = is_hit || reply.tags[cell] != 0;
    }
    ++(is_hit ? counts_.hits : counts_.misses);
    ended(client, event, false);
  });
}

void World::write(Client& client, Event& event) {
  event.kind = Event::Kind::write;
  event.tag = ++last_tag_;
  at_home(client, event.path, {}, 4, [this, &client, &event](const Reply& reply) {
    if (reply.record.gen != 0 && chance(0.3)) return replace(client, event, reply.record, 4);
    if (reply.status == Status::gone) return create(client, event);
    if (reply.status != Status::ok) return ended(client, event, false);
    // The pieces go to their owners.
    at(now + 1 + static_cast<std::int64_t>(below(30)),
       [=, this, &client, &event] { commit(client, event, reply.record, 4); });
  });
}

void World::create(Client& client, Event& event) {
  RecordChange change;
  change.kind = ChangeKind::create;
  change.chunk_bytes = CELL_BYTES;
  at_home(client, event.path, change, 4, [this, &client, &event](const Reply& reply) {
    if (reply.status != Status::ok) return ended(client, event, false);
    commit(client, event, reply.record, 4);
  });
}

/// A put of the whole file, based on what its writer has seen: a record, or that there is none.
void World::replace(Client& client, Event& event, const RecordAnswer& seen, std::size_t tries) {
  event.cells = 3;
  RecordChange change;
  change.kind = ChangeKind::replace;
  change.chunk_bytes = CELL_BYTES;
  change.gen = seen.gen;
  change.seen_seq = seen.seq;
  change.tag = event.tag;
  change.length = CELLS * CELL_BYTES;
  at_home(client, event.path, change, 4, [=, this, &client, &event](const Reply& reply) {
    if (reply.status == Status::conflict && tries > 1)
      return replace(client, event, reply.record, tries - 1);
    ended(client, event, reply.status == Status::ok);
  });
}

void World::commit(Client& client, Event& event, const RecordAnswer& seen, std::size_t tries) {
  RecordChange change;
  change.kind = ChangeKind::commit;
  change.gen = seen.gen;
  change.seen_seq = seen.seq;
  change.tag = event.tag;
  change.offset = event.cells == 2 ? CELL_BYTES : 0;
  change.length = event.cells == 3 ? 2 * CELL_BYTES : CELL_BYTES;
  at_home(client, event.path, change, 4, [=, this, &client, &event](const Reply& reply) {
    if (reply.status != Status::conflict || tries == 1)
      return ended(client, event, reply.status == Status::ok);
    at_home(client, event.path, {}, 4, [=, this, &client, &event](const Reply& fresh) {
      if (fresh.status != Status::ok || fresh.record.gen != seen.gen)
        return ended(client, event, false);
      commit(client, event, fresh.record, tries - 1);
    });
  });
}

/// Unlinks it, or cuts it to nothing.
void World::remove(Client& client, Event& event) {
  event.kind = Event::Kind::remove;
  event.cells = 3;
  RecordChange change;
  change.kind = ChangeKind::unlink;
  const auto then = [this, &client, &event](const Reply& reply) {
    ended(client, event, reply.status == Status::ok || reply.status == Status::gone);
  };
  if (chance(0.7)) return at_home(client, event.path, change, 4, then);
  at_home(client, event.path, {}, 4, [=, this, &client, &event](const Reply& reply) {
    if (reply.status != Status::ok) return ended(client, event, false);
    RecordChange cut;
    cut.kind = ChangeKind::truncate;
    cut.gen = reply.record.gen;
    at_home(client, event.path, cut, 4, [this, &client, &event](const Reply& done) {
      ended(client, event, done.status == Status::ok);
    });
  });
}

// ---- what must hold --------------------------------------------------------------------

std::optional<std::string> World::run() {
  clients_.resize(CLIENTS);
  for (Client& each : clients_)
    at(1 + static_cast<std::int64_t>(below(12)), [this, &each] { client(each); });
  if (!is_static_) at(1, [this] { membership(); });
  at(15, [this] { nemesis(); });
  while (!events_.empty() && events_.top().time <= STEPS) {
    const Timed next = events_.top();
    events_.pop();
    now = next.time;
    next.what();
  }
  counts_.maps = maps_.size();
  return check();
}

/// A write whose call did not succeed may be seen, by some and not by others. But neither it nor
/// any other may hide a mutation that began after its call had ended, and was acknowledged.
std::optional<std::string> World::check() const {
  std::map<std::uint64_t, const Event*> writes;
  std::vector<const Event*> mutations;
  for (const auto& event : history_) {
    if (event->kind == Event::Kind::write) writes[event->tag] = event.get();
    if (event->acknowledged >= 0) mutations.push_back(event.get());
  }
  for (const auto& read : history_) {
    if (read->kind != Event::Kind::read || read->end < 0) continue;
    for (std::size_t cell = 0; cell < CELLS; ++cell) {
      const std::uint64_t tag = read->seen[cell];
      if (tag == 0) continue;
      const Event* const write = writes.at(tag);
      const std::string what = "the read of cell " + std::to_string(cell) + " begun at " +
                               std::to_string(read->start) + " saw write " + std::to_string(tag);
      if ((write->cells >> cell & 1u) == 0 || write->path != read->path)
        return what + ", never there";
      const std::int64_t over = write->acknowledged >= 0 ? write->acknowledged
                                : write->end >= 0        ? write->end
                                                         : STEPS;
      for (const Event* later : mutations) {
        if (later->path == read->path && (later->cells >> cell & 1u) != 0 && over < later->start &&
            later->acknowledged < read->start)
          return what + ", which one of " + std::to_string(later->start) + " had replaced by " +
                 std::to_string(later->acknowledged);
      }
    }
  }
  return {};
}

// ---- tests -----------------------------------------------------------------------------

namespace {

std::uint64_t seeds_of(const char* variable, std::uint64_t usual) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? usual : std::strtoull(text, nullptr, 10);
}

/// How many seeds show a fault, until `enough` have.
std::uint64_t faulty(std::uint32_t broken, std::uint64_t seeds, std::uint64_t enough) {
  broken_rules = broken;
  std::uint64_t count = 0;
  for (std::uint64_t seed = 0; seed < seeds && count < enough; ++seed) {
    if (World(seed).run()) ++count;
  }
  broken_rules = 0;
  return count;
}

std::uint32_t bit(Rule rule) { return std::uint32_t{1} << static_cast<unsigned>(rule); }

}  // namespace

TEST_CASE("no reader sees what an acknowledged mutation has replaced") {
  const std::uint64_t first = seeds_of("GD2FS_PROTOCOL_FIRST", 0);
  const std::uint64_t seeds = seeds_of("GD2FS_PROTOCOL_SEEDS", 1'500);
  Counts all;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    World world(seed);
    const auto fault = world.run();
    CAPTURE(seed);
    CHECK_MESSAGE(!fault, *fault);
    all.acknowledged += world.counts().acknowledged;
    all.failed += world.counts().failed;
    all.hits += world.counts().hits;
    all.misses += world.counts().misses;
    all.maps += world.counts().maps;
  }
  MESSAGE(seeds, " seeds: ", all.acknowledged, " mutations acknowledged, ", all.failed, " not, ",
          all.hits, " hits, ", all.misses, " misses, ", all.maps, " maps");
  CHECK(all.acknowledged > 5 * seeds);
  CHECK(all.hits > 5 * seeds);
}

TEST_CASE("without any one of the rules some reader does") {
  const std::uint64_t seeds = seeds_of("GD2FS_PROTOCOL_BROKEN_SEEDS", 3'000);
  const std::uint64_t enough = seeds_of("GD2FS_PROTOCOL_BROKEN_ENOUGH", 1);
  const std::pair<const char*, Rule> rules[] = {
      {"lease", Rule::lease},           {"unbroken", Rule::unbroken},
      {"tombstone", Rule::tombstone},   {"barrier", Rule::barrier},
      {"backups", Rule::backups},       {"new version", Rule::new_version},
      {"later only", Rule::later_only}, {"recheck", Rule::recheck},
      {"overlap", Rule::overlap},       {"generation", Rule::generation}};
  for (const auto& [name, rule] : rules) {
    const std::uint64_t count = faulty(bit(rule), seeds, enough);
    MESSAGE("without ", std::string(name), ": ", count, " of ", seeds, " seeds show it");
    CHECK_MESSAGE(count > 0, std::string(name));
  }
}

}  // namespace gd2fs::testing
