#include "page_calls.h"

#include <algorithm>
#include <map>

#include "random.h"

namespace gd2fs {

namespace {

constexpr std::uint64_t OFFER_BYTES_MAX = 4 * MiB;  // of bodies, unless one page is larger
constexpr std::uint64_t OFFER_BYTES_MIN = 1 * MiB;  // not cut further for the streams' sake
constexpr std::uint64_t CUT_BYTES_MIN = 4 * MiB;    // smaller pages are fetched whole
constexpr std::size_t READ_RANK_MAX = 2;            // owners that a get asks, in order
constexpr std::uint32_t CORRUPT_MAX = 1;            // wrong sums forgiven to one page

class PageBatch : public Call {
 public:
  PageBatch(CallContext context, PageAction action, PageNames names, std::vector<Buffer> buffers,
            OnEnd on_end)
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
    bool is_whole = false;  // not to be cut into ranges
    std::uint8_t corrupt_count = 0;
    std::uint16_t rank = 0;  // of the owners' order: whom to ask
  };
  /// What one item of a request moves: a page, or a range of a large one.
  struct Part {
    std::uint32_t page;
    bool is_range = false;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  /// What the ranges of one page came to together.
  struct Ranges {
    Status reached = Status::ok;  // of the requests
    wire::ResponseItem answer;
    bool is_mixed = false;  // ranges of two values
  };

  std::shared_ptr<PageBatch> self() {
    return std::static_pointer_cast<PageBatch>(shared_from_this());
  }
  bool route(std::size_t page, std::size_t& node);
  std::vector<Part> parts_of(std::span<const std::uint32_t> pages, std::uint64_t range_bytes) const;
  void cut(std::size_t node, std::span<const std::uint32_t> pages, std::vector<Sent>& out);
  void add(Rpc& rpc, const Part& part);
  void collect();
  void take(std::size_t page, const Rpc& rpc, std::size_t item);
  void take_answer(Page& page, const wire::ResponseItem& answer);
  void merge(Ranges& ranges, const Rpc& rpc, std::size_t item) const;
  void take_ranges(std::size_t page, const Ranges& ranges);
  void take_get(Page& page, const wire::ResponseItem& answer);
  void take_put(Page& page, const wire::ResponseItem& answer);
  void settle(Page& page, Status status, std::uint64_t bytes = 0);
  void unreached(Page& page) { ++page.rank; }
  void settle_rest(Status status);
  void end();

  std::size_t rank_max() const {
    const std::size_t nodes = routes_->slots.size();
    return action_ == PageAction::put ? nodes : std::min(READ_RANK_MAX, nodes);
  }
  Status unreachable_status() const {
    return action_ == PageAction::put ? Status::unavailable : Status::miss;
  }
  std::uint64_t bytes_of(std::size_t page) const {
    return action_ == PageAction::exists ? 0 : buffers_[page].bytes;
  }

  const PageAction action_;
  RoutesRef routes_;  // of this round
  const PageNames names_;
  const std::vector<Buffer> buffers_;
  std::vector<Page> pages_;
  const std::uint64_t tag_;
  std::vector<std::vector<Part>> parts_;    // beside sent(): the parts of each request
  std::map<std::uint32_t, Ranges> ranges_;  // of this round, by page
  std::uint32_t retry_ms_ = 0;              // the longest pause that a node asked for
  bool has_progress_ = false;               // something was settled in this round
};

/// Whom to ask for a page. False: nobody is left, and it is settled.
bool PageBatch::route(std::size_t page, std::size_t& node) {
  Page& entry = pages_[page];
  const std::string_view name = names_[page];
  if (entry.rank == 0) {
    const std::uint32_t owner = routes_->placement.owner(name, 0);
    node = routes_->slots[owner];
    if (!routes_->links[owner]->is_down()) return true;
    ++entry.rank;
  }
  const bool is_put = action_ == PageAction::put;
  const auto order = is_put ? routes_->placement.owners(name, 0, rank_max())
                            : routes_->placement.holders(name, 0, rank_max());
  while (entry.rank < order.size() && routes_->links[order[entry.rank]]->is_down()) ++entry.rank;
  if (entry.rank < order.size()) {
    node = routes_->slots[order[entry.rank]];
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
  routes_ = network().routes();
  std::vector<std::vector<std::uint32_t>> by_node(network().slot_count());
  for (std::size_t page = 0; page < pages_.size(); ++page) {
    std::size_t node = 0;
    if (!pages_[page].is_settled && route(page, node))
      by_node[node].push_back(static_cast<std::uint32_t>(page));
  }
  parts_.clear();
  ranges_.clear();
  retry_ms_ = 0;
  has_progress_ = false;
  std::vector<Sent> sent;
  for (std::size_t node = 0; node < by_node.size(); ++node) cut(node, by_node[node], sent);
  if (sent.empty()) return end();
  scatter(std::move(sent), [self = self()] { self->collect(); });
}

/// Large pages are fetched in ranges, so that all streams carry a share. A put is one stream's.
std::vector<PageBatch::Part> PageBatch::parts_of(std::span<const std::uint32_t> pages,
                                                 std::uint64_t range_bytes) const {
  std::vector<Part> parts;
  parts.reserve(pages.size());
  const bool is_cuttable = action_ == PageAction::get && network().stream_count() > 1;
  for (const std::uint32_t page : pages) {
    const std::uint64_t bytes = bytes_of(page);
    if (!is_cuttable || bytes <= CUT_BYTES_MIN || pages_[page].is_whole) {
      parts.push_back({page, false, 0, bytes});
      continue;
    }
    for (std::uint64_t at = 0; at < bytes; at += range_bytes)
      parts.push_back({page, true, at, std::min(range_bytes, bytes - at)});
  }
  return parts;
}

/// Cuts a node's pages into requests, small enough that all streams have a share.
void PageBatch::cut(std::size_t node, std::span<const std::uint32_t> pages,
                    std::vector<Sent>& out) {
  std::uint64_t total = 0;
  for (const std::uint32_t page : pages) total += bytes_of(page);
  const std::uint64_t offered =
      std::clamp(total / (2 * network().stream_count()), OFFER_BYTES_MIN, OFFER_BYTES_MAX);
  const std::uint64_t bytes_max = action_ == PageAction::put ? offered : share_bytes(node, total);
  constexpr wire::Op OPS[] = {wire::Op::get, wire::Op::offer, wire::Op::exists};
  const wire::Op op = OPS[static_cast<std::size_t>(action_)];
  Cutter cutter(op, bytes_max);
  const std::vector<Part> parts = parts_of(pages, bytes_max);
  for (std::size_t at = 0; at < parts.size(); ++at) {
    const Part& part = parts[at];
    if (cutter.begins(names_[part.page].size(), part.bytes)) {
      out.push_back({node, new_rpc(op)});
      out.back().rpc->request.names = names_.memory();
      // As if all were alike: so many of them fit.
      const std::size_t fit = part.bytes == 0 ? ITEMS_MAX : bytes_max / part.bytes + 1;
      out.back().rpc->reserve(std::min({parts.size() - at, fit, ITEMS_MAX}));
      parts_.emplace_back();
    }
    parts_.back().push_back(part);
    add(*out.back().rpc, part);
  }
}

void PageBatch::add(Rpc& rpc, const Part& part) {
  const std::uint32_t page = part.page;
  wire::Item item;
  item.name = wire::Name::borrowed(names_[page]);
  item.flags = part.is_range ? wire::ITEM_PAGE | wire::ITEM_RANGE : wire::ITEM_PAGE;
  if (options().is_probe || action_ == PageAction::exists) item.flags |= wire::ITEM_PROBE;
  if (action_ == PageAction::exists) return rpc.add(std::move(item));
  item.offset = part.offset;
  item.length = part.bytes;
  item.tag = tag_;
  if (action_ == PageAction::put) {
    item.ttl_s = options().ttl_s;
    if (!network().options().is_verifying) item.flags |= wire::ITEM_NO_VERIFY;
  }
  BufferCursor memory(std::span<const Buffer>(buffers_).subspan(page, 1));
  memory.skip(static_cast<std::size_t>(part.offset));
  rpc.add(std::move(item), memory, part.bytes);
}

void PageBatch::collect() {
  Status ended = Status::ok;
  for (std::size_t request = 0; request < parts_.size(); ++request) {
    const Rpc& rpc = *sent()[request].rpc;
    if (rpc.status == Status::cancelled) ended = Status::cancelled;
    for (std::size_t item = 0; item < parts_[request].size(); ++item) {
      const Part& part = parts_[request][item];
      if (part.is_range) {
        merge(ranges_[part.page], rpc, item);
      } else {
        take(part.page, rpc, item);
      }
    }
  }
  for (const auto& [page, ranges] : ranges_) take_ranges(page, ranges);
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
  take_answer(page, rpc.answers[item]);
}

void PageBatch::merge(Ranges& ranges, const Rpc& rpc, std::size_t item) const {
  if (rpc.status != Status::ok) {
    // An expired one settles the page, whatever became of the others.
    if (ranges.reached != Status::expired) ranges.reached = rpc.status;
    return;
  }
  const wire::ResponseItem& answer = rpc.answers[item];
  const bool is_first = ranges.answer.gen == 0;
  if (ranges.answer.status != Status::ok) return;
  const bool is_other = answer.gen != ranges.answer.gen || answer.length != ranges.answer.length;
  ranges.is_mixed = ranges.is_mixed || (!is_first && is_other);
  ranges.answer = answer;
}

/// Only ranges of one value make a page. Anything odd is asked for once more, whole.
void PageBatch::take_ranges(std::size_t at, const Ranges& ranges) {
  Page& page = pages_[at];
  if (ranges.reached == Status::expired) return settle(page, unreachable_status());
  if (ranges.reached != Status::ok) return unreached(page);
  wire::ResponseItem answer = ranges.answer;
  const bool is_ok = answer.status == Status::ok;
  if (is_ok && !ranges.is_mixed && answer.length > bytes_of(at)) answer.status = Status::invalid;
  page.is_whole = is_ok ? ranges.is_mixed : answer.status == Status::invalid;
  if (page.is_whole) {
    has_progress_ = true;
    return;
  }
  take_answer(page, answer);
}

void PageBatch::take_answer(Page& page, const wire::ResponseItem& answer) {
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
  PageDrop(CallContext context, PageNames names, OnEnd on_end)
      : Call(std::move(context), std::move(on_end)), names_(std::move(names)) {}

  void run() {
    const std::size_t nodes = network().slot_count();
    const RoutesRef routes = network().routes();
    std::vector<std::vector<std::uint32_t>> by_node(nodes);
    for (std::size_t page = 0; page < names_.size(); ++page)
      for (const std::uint32_t at : routes->placement.holders(names_[page], 0, READ_RANK_MAX))
        by_node[routes->slots[at]].push_back(static_cast<std::uint32_t>(page));
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

void start_pages(CallContext context, PageAction action, PageNames names,
                 std::vector<Buffer> buffers, Call::OnEnd on_end) {
  std::make_shared<PageBatch>(std::move(context), action, std::move(names), std::move(buffers),
                              std::move(on_end))
      ->run();
}

void start_drop(CallContext context, PageNames names, Call::OnEnd on_end) {
  std::make_shared<PageDrop>(std::move(context), std::move(names), std::move(on_end))->run();
}

}  // namespace gd2fs
