#include "cluster_calls.h"

#include <algorithm>
#include <optional>

#include "name.h"

namespace gd2fs {

namespace {

/// One request to every node.
class ClusterCall : public Call {
 public:
  using Call::Call;

 protected:
  template <class Derived>
  void ask_all(wire::Op op, const std::vector<wire::Item>& items, void (Derived::*then)()) {
    ask_some(op, items, then, [](const std::string&) { return true; });
  }

  /// Those whose names are asked for.
  template <class Derived, class IsAsked>
  void ask_some(wire::Op op, const std::vector<wire::Item>& items, void (Derived::*then)(),
                IsAsked is_asked) {
    std::vector<Sent> sent;
    const RoutesRef routes = network().routes();
    for (std::size_t at = 0; at < routes->slots.size(); ++at) {
      Link* const link = routes->links[at];
      if (link == nullptr || !is_asked(link->node_name())) continue;
      RpcRef rpc = new_rpc(op);
      for (const wire::Item& item : items) rpc->add(item);
      sent.push_back({routes->slots[at], std::move(rpc)});
    }
    auto self = std::static_pointer_cast<Derived>(shared_from_this());
    scatter(std::move(sent), [self, then] { ((*self).*then)(); });
  }

  /// Nothing when some node answered well; else why none did.
  std::optional<Sent> failure() const {
    std::optional<Sent> failed;
    for (const Sent& each : sent()) {
      if (each.rpc->item_status(0) == Status::ok) return {};
      failed = each;
    }
    return failed;
  }
};

class List : public ClusterCall {
 public:
  List(CallContext context, ListSpec spec, OnEnd on_end)
      : ClusterCall(std::move(context), std::move(on_end)), spec_(std::move(spec)) {}

  void run() {
    std::vector<wire::Item> items(1);
    items[0].name = spec_.what;
    if (spec_.is_pages) items[0].flags = wire::ITEM_PAGE | wire::ITEM_NAMESPACE;
    if (!spec_.after.empty()) {
      items.emplace_back();
      items[1].name = spec_.is_pages ? page_name(spec_.what, spec_.after) : spec_.after;
    }
    ask_all(wire::Op::list, items, &List::collect);
  }

  void collect() {
    if (const auto failed = failure())
      return fail(failed->rpc->item_status(0), "list of `" + spec_.what + "`", failed->node);
    Outcome outcome = outcome_of(Status::ok);
    std::optional<std::string> known_to;  // past this a node may have more than it told
    for (const Sent& each : sent()) {
      Rpc& rpc = *each.rpc;
      if (rpc.item_status(0) != Status::ok) {
        outcome.is_partial = true;
        continue;
      }
      const bool has_more = rpc.answers.front().detail != 0 && !rpc.entries.empty();
      if (has_more && (!known_to || rpc.entries.back().name < *known_to))
        known_to = rpc.entries.back().name;
      std::move(rpc.entries.begin(), rpc.entries.end(), std::back_inserter(outcome.entries));
    }
    merge(outcome, known_to);
    finish(std::move(outcome));
  }

 private:
  void merge(Outcome& outcome, const std::optional<std::string>& known_to) const {
    auto& entries = outcome.entries;
    std::sort(entries.begin(), entries.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    const auto is_same = [](const auto& a, const auto& b) { return a.name == b.name; };
    entries.erase(std::unique(entries.begin(), entries.end(), is_same), entries.end());
    bool is_cut = known_to.has_value();
    if (known_to) std::erase_if(entries, [&](const auto& entry) { return entry.name > *known_to; });
    if (entries.size() > spec_.count_max) {
      entries.resize(spec_.count_max);
      is_cut = true;
    }
    if (is_cut && !entries.empty()) outcome.next = entries.back().name;
  }

  const ListSpec spec_;
};

class Clear : public ClusterCall {
 public:
  Clear(CallContext context, std::string name_space, OnEnd on_end)
      : ClusterCall(std::move(context), std::move(on_end)), name_space_(std::move(name_space)) {}

  void run() {
    std::vector<wire::Item> items(1);
    items[0].name = name_space_;
    items[0].flags = wire::ITEM_NAMESPACE;
    ask_all(wire::Op::drop, items, &Clear::collect);
  }

  void collect() {
    if (const auto failed = failure())
      return fail(failed->rpc->item_status(0), "clear of `" + name_space_ + "`", failed->node);
    Outcome outcome = outcome_of(Status::ok);
    for (const Sent& each : sent()) {
      const bool is_ok = each.rpc->item_status(0) == Status::ok;
      if (is_ok) outcome.value += each.rpc->answers.front().length;
      outcome.is_partial = outcome.is_partial || !is_ok;
    }
    finish(std::move(outcome));
  }

 private:
  const std::string name_space_;
};

class Ping : public ClusterCall {
 public:
  using ClusterCall::ClusterCall;

  void run() { ask_all(wire::Op::ping, {}, &Ping::collect); }

  void collect() {
    Outcome outcome = outcome_of(Status::ok);
    for (const Sent& each : sent()) {
      const Status answer = each.rpc->item_status(0);
      const bool is_ok = answer == Status::ok;
      wire::NodeStatus status = each.rpc->node;
      status.transport = transport_name(network().link(each.node).transport());
      if (!is_ok) {
        status = {};
        status.state = wire::NodeState::gone;
        status.name = network().link(each.node).node_name();
        status.fault = fault_of(answer, each.node);
      }
      outcome.is_partial = outcome.is_partial || !is_ok;
      outcome.nodes.push_back(std::move(status));
    }
    finish(std::move(outcome));
  }

  std::string fault_of(Status answer, std::size_t node) {
    if (answer == Status::expired) return "no answer before the deadline";
    std::string fault = network().link(node).last_fault();
    return answer == Status::unavailable && !fault.empty() ? fault : status_name(answer);
  }
};

class AskNodes : public ClusterCall {
 public:
  AskNodes(CallContext context, NodeQuestion question, OnEnd on_end)
      : ClusterCall(std::move(context), std::move(on_end)), question_(std::move(question)) {}

  void run() {
    wire::Item item;
    item.name = question_.text;
    if (question_.is_page) item.flags = wire::ITEM_PAGE;
    const auto op = question_.is_about_settings ? wire::Op::configure : wire::Op::why;
    const auto is_asked = [this](const std::string& node) {
      return question_.only.empty() || node == question_.only;
    };
    ask_some(op, {item}, &AskNodes::collect, is_asked);
  }

  void collect() {
    Outcome outcome = outcome_of(sent().empty() ? Status::gone : Status::ok);
    if (sent().empty())
      outcome.message =
          "no node `" + question_.only + "` in this cluster; `gd2fs status` lists them";
    for (const Sent& each : sent()) {
      NodeReply reply{network().link(each.node).node_name(), each.rpc->item_status(0), {}};
      for (const std::byte byte : each.rpc->body) reply.text += static_cast<char>(byte);
      outcome.is_partial = outcome.is_partial || reply.status != Status::ok;
      outcome.replies.push_back(std::move(reply));
    }
    finish(std::move(outcome));
  }

 private:
  const NodeQuestion question_;
};

/// To one node, by its name.
class Drain : public Call {
 public:
  Drain(CallContext context, std::string name, OnEnd on_end)
      : Call(std::move(context), std::move(on_end)), name_(std::move(name)) {}

  void run() {
    const RoutesRef routes = network().routes();
    for (std::size_t at = 0; at < routes->slots.size(); ++at) {
      Link* const link = routes->links[at];
      if (link == nullptr || link->node_name() != name_) continue;
      auto self = std::static_pointer_cast<Drain>(shared_from_this());
      return send(routes->slots[at], new_rpc(wire::Op::drain), [self] { self->take(); });
    }
    Outcome outcome = outcome_of(Status::gone);
    outcome.message = "no node `" + name_ + "` in this cluster; `gd2fs status` lists them";
    finish(std::move(outcome));
  }

 private:
  void take() {
    const Status status = answer_status();
    if (status == Status::ok) return finish(Status::ok);
    if (status != Status::invalid) return fail(status, "drain", sent().front().node);
    Outcome outcome = outcome_of(Status::invalid);
    outcome.message = "node `" + name_ +
                      "` is of a static list, which never changes; restart all nodes with the "
                      "new list, or keep the membership in etcd";
    finish(std::move(outcome));
  }

  const std::string name_;
};

}  // namespace

void start_drain(CallContext context, std::string name, Call::OnEnd on_end) {
  std::make_shared<Drain>(std::move(context), std::move(name), std::move(on_end))->run();
}

void start_list(CallContext context, ListSpec spec, Call::OnEnd on_end) {
  std::make_shared<List>(std::move(context), std::move(spec), std::move(on_end))->run();
}

void start_clear(CallContext context, std::string name_space, Call::OnEnd on_end) {
  std::make_shared<Clear>(std::move(context), std::move(name_space), std::move(on_end))->run();
}

void start_ask_nodes(CallContext context, NodeQuestion question, Call::OnEnd on_end) {
  std::make_shared<AskNodes>(std::move(context), std::move(question), std::move(on_end))->run();
}

void start_ping(CallContext context, Call::OnEnd on_end) {
  std::make_shared<Ping>(std::move(context), std::move(on_end))->run();
}

}  // namespace gd2fs
