#include "page_calls.h"

#include <algorithm>

#include "random.h"

namespace gd2fs {

namespace {

constexpr std::uint64_t REQUEST_BYTES_MAX = 4 * MiB;  // of bodies, unless one page is larger
constexpr std::uint64_t REQUEST_BYTES_MIN = 1 * MiB;  // not cut further for the streams' sake
constexpr std::size_t READ_RANK_MAX = 2;              // owners that a get asks, in order
constexpr std::uint32_t CORRUPT_MAX = 1;              // wrong sums forgiven to one page

class PageBatch : public Call {
 public:
  PageBatch(CallContext context, PageAction action, std::vector<std::string> names,
            std::vector<Buffer> buffers, OnEnd on_end)
      : Call(std::move(context), std::move(on_end)),
        action_(action),
        names_(std::move(names)),
        buffers_(std::move(buffers)),
        pages_(names_.size()),
        tag_(action == PageAction::put ? random_tag() : 0) {}

  void run();

 private:
  struct Page {
    ItemOutcome outcome;
    bool is_settled = false;
    std::uint8_t corrupt_count = 0;
    std::uint16_t rank = 0;  // of the owners' order: whom to ask
  };

  std::shared_ptr<PageBatch> self() {
    return std::static_pointer_cast<PageBatch>(shared_from_this());
  }
  bool route(std::size_t page, std::size_t& node);
  void cut(std::size_t node, std::span<const std::uint32_t> pages, std::vector<Sent>& out);
  void add(Rpc& rpc, std::uint32_t page);
  void collect();
  void take(std::size_t page, const Rpc& rpc, std::size_t item);
  void take_get(Page& page, const wire::ResponseItem& answer);
  void take_put(Page& page, const wire::ResponseItem& answer);
  void settle(Page& page, Status status, std::uint64_t bytes = 0);
  void unreached(Page& page) { ++page.rank; }
  void settle_rest(Status status);
  void end();

  std::size_t rank_max() const {
    const std::size_t nodes = network().node_count();
    return action_ == PageAction::put ? nodes : std::min(READ_RANK_MAX, nodes);
  }
  Status unreachable_status() const {
    return action_ == PageAction::put ? Status::unavailable : Status::miss;
  }
  std::uint64_t bytes_of(std::size_t page) const {
    return action_ == PageAction::exists ? 0 : buffers_[page].bytes;
  }

  const PageAction action_;
  std::vector<std::string> names_;  // moved into a request and back while a page is not settled
  const std::vector<Buffer> buffers_;
  std::vector<Page> pages_;
  const std::uint64_t tag_;
  std::vector<std::vector<std::uint32_t>> parts_;  // beside sent(): the pages of each request
  std::uint32_t retry_ms_ = 0;                     // the longest pause that a node asked for
  bool has_progress_ = false;                      // something was settled in this round
};

/// Whom to ask for a page. False: nobody is left, and it is settled.
bool PageBatch::route(std::size_t page, std::size_t& node) {
  Page& entry = pages_[page];
  const std::string& name = names_[page];
  if (entry.rank == 0) {
    node = home_of(name, 0);
    if (!network().link(node).is_down()) return true;
    ++entry.rank;
  }
  const auto order = placement_order(network().placed(), name, 0, rank_max());
  while (entry.rank < order.size() && network().link(order[entry.rank]).is_down()) ++entry.rank;
  if (entry.rank < order.size()) {
    node = order[entry.rank];
    return true;
  }
  settle(entry, unreachable_status());
  return false;
}

void PageBatch::run() {
  if (left_ms() <= 0) {
    settle_rest(unreachable_status());
    return end();
  }
  std::vector<std::vector<std::uint32_t>> by_node(network().node_count());
  for (std::size_t page = 0; page < pages_.size(); ++page) {
    std::size_t node = 0;
    if (!pages_[page].is_settled && route(page, node))
      by_node[node].push_back(static_cast<std::uint32_t>(page));
  }
  parts_.clear();
  retry_ms_ = 0;
  has_progress_ = false;
  std::vector<Sent> sent;
  for (std::size_t node = 0; node < by_node.size(); ++node) cut(node, by_node[node], sent);
  if (sent.empty()) return end();
  scatter(std::move(sent), [self = self()] { self->collect(); });
}

/// Cuts a node's pages into requests, small enough that all streams have a share.
void PageBatch::cut(std::size_t node, std::span<const std::uint32_t> pages,
                    std::vector<Sent>& out) {
  std::uint64_t total = 0;
  for (const std::uint32_t page : pages) total += bytes_of(page);
  const std::uint64_t bytes_max =
      std::clamp(total / (2 * network().options().streams), REQUEST_BYTES_MIN, REQUEST_BYTES_MAX);
  constexpr wire::Op OPS[] = {wire::Op::get, wire::Op::offer, wire::Op::exists};
  const wire::Op op = OPS[static_cast<std::size_t>(action_)];
  Cutter cutter(op, bytes_max);
  for (const std::uint32_t page : pages) {
    if (cutter.begins(names_[page].size(), bytes_of(page))) {
      out.push_back({node, new_rpc(op)});
      parts_.emplace_back();
    }
    parts_.back().push_back(page);
    add(*out.back().rpc, page);
  }
}

void PageBatch::add(Rpc& rpc, std::uint32_t page) {
  wire::Item item;
  item.name = std::move(names_[page]);
  item.flags = wire::ITEM_PAGE;
  if (options().is_probe || action_ == PageAction::exists) item.flags |= wire::ITEM_PROBE;
  if (action_ == PageAction::exists) return rpc.add(std::move(item));
  item.length = buffers_[page].bytes;
  item.tag = tag_;
  item.ttl_s = action_ == PageAction::put ? options().ttl_s : 0;
  BufferCursor memory(std::span<const Buffer>(buffers_).subspan(page, 1));
  rpc.add(std::move(item), memory, buffers_[page].bytes);
}

void PageBatch::collect() {
  Status ended = Status::ok;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    Rpc& rpc = *sent()[part].rpc;
    if (rpc.status == Status::cancelled) ended = Status::cancelled;
    for (std::size_t item = 0; item < parts_[part].size(); ++item) {
      const std::uint32_t page = parts_[part][item];
      take(page, rpc, item);
      names_[page] = std::move(rpc.request.items[item].name);
    }
  }
  if (ended == Status::cancelled) return finish(Status::cancelled);
  const bool is_done =
      std::all_of(pages_.begin(), pages_.end(), [](const Page& page) { return page.is_settled; });
  if (is_done) return end();
  const std::int64_t pause_ms = has_progress_ ? 0 : retry_ms_;
  if (after(pause_ms, [self = self()] { self->run(); })) return;
  settle_rest(unreachable_status());
  end();
}

void PageBatch::take(std::size_t at, const Rpc& rpc, std::size_t item) {
  Page& page = pages_[at];
  if (rpc.status == Status::expired) return settle(page, unreachable_status());
  if (rpc.status != Status::ok) return unreached(page);
  if (action_ == PageAction::exists) {
    if (rpc.answers.front().status != Status::ok) return unreached(page);
    return settle(page, rpc.present[item] ? Status::ok : Status::miss);
  }
  const wire::ResponseItem& answer = rpc.answers[item];
  if (answer.status == Status::corrupt) {
    const Status worst = action_ == PageAction::put ? Status::corrupt : Status::miss;
    if (page.corrupt_count == CORRUPT_MAX) return settle(page, worst);
    ++page.corrupt_count;
    return;
  }
  if (action_ == PageAction::get) return take_get(page, answer);
  take_put(page, answer);
}

void PageBatch::take_get(Page& page, const wire::ResponseItem& answer) {
  switch (answer.status) {
    case Status::ok:
    case Status::invalid: return settle(page, answer.status, answer.length);
    case Status::retry: retry_ms_ = std::max(retry_ms_, std::max(answer.detail, RETRY_MS)); return;
    case Status::unavailable: return unreached(page);
    default: return settle(page, Status::miss);
  }
}

void PageBatch::take_put(Page& page, const wire::ResponseItem& answer) {
  switch (answer.status) {
    case Status::ok:
    case Status::have: return settle(page, answer.status, answer.length);
    case Status::full:
    case Status::denied:
    case Status::invalid: return settle(page, answer.status);
    case Status::retry: retry_ms_ = std::max(retry_ms_, std::max(answer.detail, RETRY_MS)); return;
    case Status::expired: return settle(page, Status::unavailable);
    default: return unreached(page);
  }
}

void PageBatch::settle(Page& page, Status status, std::uint64_t bytes) {
  page.outcome = {status, bytes};
  page.is_settled = true;
  has_progress_ = true;
}

void PageBatch::settle_rest(Status status) {
  for (Page& page : pages_)
    if (!page.is_settled) settle(page, status);
}

void PageBatch::end() {
  Outcome outcome = outcome_of(Status::ok);
  outcome.items.reserve(pages_.size());
  for (const Page& page : pages_) outcome.items.push_back(page.outcome);
  finish(std::move(outcome));
}

// ---- drop ----------------------------------------------------------------------------

/// Asks the first two of each page's order: one of them has it, unless more nodes were away.
class PageDrop : public Call {
 public:
  PageDrop(CallContext context, std::vector<std::string> names, OnEnd on_end)
      : Call(std::move(context), std::move(on_end)), names_(std::move(names)) {}

  void run() {
    const std::size_t nodes = network().node_count();
    std::vector<std::vector<std::uint32_t>> by_node(nodes);
    for (std::size_t page = 0; page < names_.size(); ++page)
      for (const std::uint32_t node :
           placement_order(network().placed(), names_[page], 0, READ_RANK_MAX))
        by_node[node].push_back(static_cast<std::uint32_t>(page));
    std::vector<Sent> sent;
    for (std::size_t node = 0; node < nodes; ++node) cut(node, by_node[node], sent);
    auto self = std::static_pointer_cast<PageDrop>(shared_from_this());
    scatter(std::move(sent), [self] { self->collect(); });
  }

 private:
  void cut(std::size_t node, std::span<const std::uint32_t> pages, std::vector<Sent>& out) {
    Cutter cutter(wire::Op::drop, 0);
    for (const std::uint32_t page : pages) {
      if (cutter.begins(names_[page].size(), 0)) {
        out.push_back({node, new_rpc(wire::Op::drop)});
        parts_.emplace_back();
      }
      parts_.back().push_back(page);
      wire::Item item;
      item.name = names_[page];
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
      outcome.is_partial = outcome.is_partial || rpc.status != Status::ok;
      for (std::size_t item = 0; item < parts_[part].size(); ++item)
        if (rpc.item_status(item) == Status::ok && rpc.answers[item].length != 0)
          was_there[parts_[part][item]] = true;
    }
    outcome.value =
        static_cast<std::uint64_t>(std::count(was_there.begin(), was_there.end(), true));
    finish(std::move(outcome));
  }

  const std::vector<std::string> names_;
  std::vector<std::vector<std::uint32_t>> parts_;
};

}  // namespace

void start_pages(CallContext context, PageAction action, std::vector<std::string> names,
                 std::vector<Buffer> buffers, Call::OnEnd on_end) {
  std::make_shared<PageBatch>(std::move(context), action, std::move(names), std::move(buffers),
                              std::move(on_end))
      ->run();
}

void start_drop(CallContext context, std::vector<std::string> names, Call::OnEnd on_end) {
  std::make_shared<PageDrop>(std::move(context), std::move(names), std::move(on_end))->run();
}

}  // namespace gd2fs
