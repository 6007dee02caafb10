#include <algorithm>

#include "page_calls.h"
#include "replicas.h"

namespace gd2fs {

namespace {

constexpr std::size_t RANKS_EXTRA = 2;  // of owners that were not there, when there are copies

/// Asks everyone who may have it: while nodes come and go, all of them.
class PageDrop : public Call {
 public:
  PageDrop(CallContext context, PageNames names, OnEnd on_end)
      : Call(std::move(context), std::move(on_end)), names_(std::move(names)) {}

  void run() {
    const RoutesRef routes = network().routes();
    const std::size_t nodes = network().slot_count();
    std::vector<std::vector<std::uint32_t>> by_node(nodes);
    const std::size_t ranks = ranks_of(*routes);
    for (std::size_t page = 0; page < names_.size(); ++page)
      for (const std::uint32_t at : routes->placement.holders(names_[page], 0, ranks))
        by_node[routes->slots[at]].push_back(static_cast<std::uint32_t>(page));
    std::vector<Sent> sent;
    for (std::size_t node = 0; node < nodes; ++node) cut(node, by_node[node], sent);
    auto self = std::static_pointer_cast<PageDrop>(shared_from_this());
    scatter(std::move(sent), [self] { self->collect(); });
  }

 private:
  std::size_t ranks_of(const Routes& routes) const {
    const std::size_t nodes = routes.slots.size();
    if (names_.size() == 0) return 0;
    const std::size_t replicas = routes.placement.replicas(names_[0]);
    const Reach reach(routes, replicas);
    return reach.is_moving ? nodes
                           : std::min(nodes, reach.ranks + (replicas > 1 ? RANKS_EXTRA : 0));
  }

  void cut(std::size_t node, std::span<const std::uint32_t> pages, std::vector<Sent>& out) {
    Cutter cutter(wire::Op::drop, 0);
    for (const std::uint32_t page : pages) {
      if (cutter.begins(names_[page].size(), 0)) {
        out.push_back({node, new_rpc(wire::Op::drop)});
        out.back().rpc->request.names = names_.memory();
        parts_.emplace_back();
      }
      parts_.back().push_back(page);
      wire::Item item;
      item.name = wire::Name::borrowed(names_[page]);
      item.flags = wire::ITEM_PAGE;
      out.back().rpc->add(std::move(item));
    }
  }

  void collect() {
    std::vector<bool> was_there(names_.size());
    Outcome outcome = outcome_of(Status::ok);
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      const Rpc& rpc = *sent()[part].rpc;
      if (rpc.status == Status::cancelled) return finish(Status::cancelled);
      if (rpc.item_status(0) == Status::denied)
        return fail(Status::denied, "drop of pages", sent()[part].node);
      outcome.is_partial = outcome.is_partial || rpc.status != Status::ok;
      for (std::size_t item = 0; item < parts_[part].size(); ++item)
        if (rpc.item_status(item) == Status::ok && rpc.answers[item].length != 0)
          was_there[parts_[part][item]] = true;
    }
    outcome.value =
        static_cast<std::uint64_t>(std::count(was_there.begin(), was_there.end(), true));
    finish(std::move(outcome));
  }

  const PageNames names_;
  std::vector<std::vector<std::uint32_t>> parts_;
};

}  // namespace

void start_drop(CallContext context, PageNames names, Call::OnEnd on_end) {
  std::make_shared<PageDrop>(std::move(context), std::move(names), std::move(on_end))->run();
}

}  // namespace gd2fs
