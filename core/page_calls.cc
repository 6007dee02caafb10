#include "page_calls.h"

#include <algorithm>
#include <map>
#include <optional>

#include "random.h"
#include "replicas.h"

namespace gd2fs {

namespace {

constexpr std::uint64_t OFFER_BYTES_MAX = 4 * MiB;  // of bodies, unless one page is larger
constexpr std::uint64_t OFFER_BYTES_MIN = 1 * MiB;  // not cut further for the streams' sake
constexpr std::uint64_t CUT_BYTES_MIN = 4 * MiB;    // smaller pages are fetched whole
constexpr std::uint32_t CORRUPT_MAX = 1;            // wrong sums forgiven to one page

class PageBatch : public Call {
 public:
  PageBatch(CallContext context, PageAction action, PageNames names, PageMemory memory,
            OnEnd on_end)
      : Call(std::move(context), std::move(on_end)),
        action_(action),
        names_(std::move(names)),
        memory_(std::move(memory)),
        pages_(names_.size()),
        tag_(action == PageAction::put ? random_tag() : 0) {}

  void run();

 private:
  struct Page {
    ItemOutcome outcome;
    bool is_settled = false;
    bool is_denied = false;  // by an owner: it does not have it
    bool is_whole = false;   // not to be cut into ranges
    std::uint8_t corrupt_count = 0;
    std::uint8_t misses = 0;       // nodes that have no copy
    std::uint8_t refused = 0;      // nodes that take none
    RankMask asked = 0;            // of its order: who need not be asked (again)
    Status refusal = Status::ok;   // the last one's
    Status stored = Status::have;  // of the copies together
  };
  /// What one item of a request moves: a page, or a range of a large one.
  struct Part {
    std::uint32_t page;
    std::uint16_t rank;                   // of whom it is asked, in the page's order
    std::uint32_t other = Hedge::NOBODY;  // the slot of who may have it too
    bool is_range = false;
    bool is_short = false;  // of a put: an owner of the page was passed over
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  /// What the ranges of one page came to together.
  struct Ranges {
    std::uint16_t rank = 0;
    Status reached = Status::ok;  // of the requests
    wire::ResponseItem answer;
    bool is_mixed = false;  // ranges of two values
  };

  std::shared_ptr<PageBatch> self() {
    return std::static_pointer_cast<PageBatch>(shared_from_this());
  }
  using ByNode = std::vector<std::vector<Part>>;  // by position in the map
  void look_at_map();
  void route(std::uint32_t page, ByNode& by_node);
  void route_first(std::uint32_t page, ByNode& by_node);
  void route_read(std::uint32_t page, ByNode& by_node);
  void route_put(std::uint32_t page, ByNode& by_node);
  Choice& choice();
  std::vector<Part> parts_of(std::vector<Part> whole, std::uint64_t range_bytes) const;
  void cut(std::uint32_t node, std::vector<Part> whole, std::vector<Sent>& out);
  Sent new_request(std::uint32_t node, wire::Op op) const;
  void add(Sent& request, const Part& part);
  void collect();
  void take(const Part& part, const Rpc& rpc, std::size_t item);
  void take_answer(Page& page, std::size_t rank, const wire::ResponseItem& answer);
  void merge(Ranges& ranges, const Part& part, const Rpc& rpc, std::size_t item) const;
  void take_ranges(std::size_t page, const Ranges& ranges);
  void take_get(Page& page, std::size_t rank, const wire::ResponseItem& answer);
  void take_miss(Page& page, std::size_t rank);
  void take_put(Page& page, std::size_t rank, const wire::ResponseItem& answer);
  void settle(Page& page, Status status, std::uint64_t bytes = 0);
  void settle_put(Page& page);
  void settle_put_if_over(Page& page);
  void settle_unreached(Page& page);
  void settle_missing(Page& page);
  void settle_rest();
  void end();

  bool is_put() const { return action_ == PageAction::put; }
  std::uint64_t bytes_of(std::size_t page) const {
    return action_ == PageAction::exists ? 0 : memory_.bytes(page);
  }

  const PageAction action_;
  RoutesRef routes_;          // of this round
  std::size_t replicas_ = 1;  // of a page
  Reach reach_;               // of a read
  std::optional<Choice> choice_;
  const PageNames names_;
  const PageMemory memory_;
  std::vector<Page> pages_;
  const std::uint64_t tag_;
  std::vector<std::vector<Part>> parts_;    // beside sent(): the parts of each request
  std::map<std::uint32_t, Ranges> ranges_;  // of this round, by page
  std::uint32_t retry_ms_ = 0;              // the longest pause that a node asked for
  bool has_progress_ = false;               // something was settled in this round
  bool is_partial_ = false;                 // an owner of what is missing did not answer
};

/// Another map: who was asked by the last one is told apart by it no more. What stands is told
/// again, without its bytes.
void PageBatch::look_at_map() {
  const RoutesRef routes = network().routes();
  choice_.reset();
  if (routes == routes_) return;
  routes_ = routes;
  if (names_.size() != 0) replicas_ = routes->placement.replicas(names_[0]);  // of one namespace
  reach_ = Reach(*routes, replicas_);
  for (Page& page : pages_) {
    if (page.is_settled) continue;
    page.asked = 0;
    page.is_denied = false;
    page.misses = page.refused = page.outcome.copies = 0;
    page.stored = Status::have;
  }
}

Choice& PageBatch::choice() {
  if (!choice_) {
    const std::uint64_t bytes = memory_.is_empty() ? 0 : memory_.bytes(0);
    choice_.emplace(routes_, bytes);
  }
  return *choice_;
}

/// Adds the page to what its nodes are asked for, or settles it: there is nobody left to ask.
void PageBatch::route(std::uint32_t page, ByNode& by_node) {
  const bool is_first = replicas_ == 1 && pages_[page].asked == 0 && routes_->moving_count == 0;
  if (is_first) return route_first(page, by_node);
  is_put() ? route_put(page, by_node) : route_read(page, by_node);
}

/// With one copy there is nothing to choose, as long as its node answers.
void PageBatch::route_first(std::uint32_t page, ByNode& by_node) {
  const std::uint32_t owner = routes_->placement.owner(names_[page], 0);
  if (!routes_->links[owner]->is_down()) {
    by_node[owner].push_back({.page = page, .rank = 0, .bytes = bytes_of(page)});
    return;
  }
  pages_[page].asked = rank_bit(0);
  is_put() ? route_put(page, by_node) : route_read(page, by_node);
}

void PageBatch::route_read(std::uint32_t page, ByNode& by_node) {
  Page& entry = pages_[page];
  const auto order = routes_->placement.holders(names_[page], 0, reach_.ranks);
  const std::size_t rank = choice().next(order, replicas_, entry.asked);
  if (rank >= order.size()) return settle_unreached(entry);
  Part part{.page = page, .rank = static_cast<std::uint16_t>(rank), .bytes = bytes_of(page)};
  if (replicas_ > 1) {
    choice().assign(order[rank], part.bytes);
    const RankMask others = entry.asked | rank_bit(rank);
    const std::size_t other = choice().next(order, replicas_, others);
    if (other < order.size()) part.other = static_cast<std::uint32_t>(routes_->slots[order[other]]);
  }
  by_node[order[rank]].push_back(part);
}

/// To as many as copies are missing, in order, past those that do not answer.
void PageBatch::route_put(std::uint32_t page, ByNode& by_node) {
  Page& entry = pages_[page];
  const std::size_t count = std::min(routes_->slots.size(), RANKS_MAX);
  std::size_t wanted =
      replicas_ - std::min<std::size_t>(entry.outcome.copies + entry.refused, replicas_);
  auto order = routes_->placement.owners(names_[page], 0, std::min(replicas_, count));
  const bool is_short = entry.asked != 0 || routes_->is_any_down(order);
  bool is_routed = false;
  for (std::size_t rank = 0; rank < count && wanted > 0; ++rank) {
    if (rank == order.size()) order = routes_->placement.owners(names_[page], 0, count);
    if (rank >= order.size()) break;
    if ((entry.asked & rank_bit(rank)) != 0) continue;
    if (routes_->links[order[rank]]->is_down()) {
      entry.asked |= rank_bit(rank);
      continue;
    }
    by_node[order[rank]].push_back({.page = page,
                                    .rank = static_cast<std::uint16_t>(rank),
                                    .is_short = is_short,
                                    .bytes = bytes_of(page)});
    is_routed = true;
    --wanted;
  }
  if (!is_routed) settle_put(entry);
}

void PageBatch::run() {
  if (left_ms() <= 0) {
    settle_rest();
    return end();
  }
  look_at_map();
  ByNode by_node(routes_->slots.size());
  for (std::size_t page = 0; page < pages_.size(); ++page)
    if (!pages_[page].is_settled) route(static_cast<std::uint32_t>(page), by_node);
  parts_.clear();
  ranges_.clear();
  retry_ms_ = 0;
  has_progress_ = false;
  std::vector<Sent> sent;
  for (std::uint32_t node = 0; node < by_node.size(); ++node)
    cut(node, std::move(by_node[node]), sent);
  if (sent.empty()) return end();
  scatter(std::move(sent), [self = self()] { self->collect(); });
}

/// Large pages are fetched in ranges, so that all streams carry a share. A put is one stream's.
std::vector<PageBatch::Part> PageBatch::parts_of(std::vector<Part> whole,
                                                 std::uint64_t range_bytes) const {
  const bool is_cuttable = action_ == PageAction::get && network().stream_count() > 1;
  const auto is_cut = [&](const Part& part) {
    return part.bytes > CUT_BYTES_MIN && !pages_[part.page].is_whole;
  };
  if (!is_cuttable || std::none_of(whole.begin(), whole.end(), is_cut)) return whole;
  std::vector<Part> parts;
  parts.reserve(whole.size());
  for (const Part& part : whole) {
    if (!is_cut(part)) {
      parts.push_back(part);
      continue;
    }
    for (std::uint64_t at = 0; at < part.bytes; at += range_bytes) {
      parts.push_back(part);
      parts.back().is_range = true;
      parts.back().offset = at;
      parts.back().bytes = std::min(range_bytes, part.bytes - at);
    }
  }
  return parts;
}

/// Cuts a node's pages into requests, small enough that all streams have a share.
void PageBatch::cut(std::uint32_t node, std::vector<Part> whole, std::vector<Sent>& out) {
  if (whole.empty()) return;
  std::uint64_t total = 0;
  for (const Part& part : whole) total += part.bytes;
  const std::uint64_t offered =
      std::clamp(total / (2 * network().stream_count()), OFFER_BYTES_MIN, OFFER_BYTES_MAX);
  const std::uint64_t bytes_max = is_put() ? offered : share_bytes(routes_->slots[node], total);
  constexpr wire::Op OPS[] = {wire::Op::get, wire::Op::offer, wire::Op::exists};
  const wire::Op op = OPS[static_cast<std::size_t>(action_)];
  Cutter cutter(op, bytes_max);
  const std::vector<Part> parts = parts_of(std::move(whole), bytes_max);
  for (std::size_t at = 0; at < parts.size(); ++at) {
    const Part& part = parts[at];
    if (cutter.begins(names_[part.page].size(), part.bytes)) {
      out.push_back(new_request(node, op));
      // As if all were alike: so many of them fit.
      const std::size_t fit = part.bytes == 0 ? ITEMS_MAX : bytes_max / part.bytes + 1;
      out.back().rpc->reserve(std::min({parts.size() - at, fit, ITEMS_MAX}));
      parts_.emplace_back();
    }
    parts_.back().push_back(part);
    add(out.back(), part);
  }
}

Call::Sent PageBatch::new_request(std::uint32_t node, wire::Op op) const {
  Sent request{routes_->slots[node], new_rpc(op)};
  request.rpc->request.names = names_.memory();
  request.rpc->request.head.map_epoch = routes_->map.epoch;
  if (op == wire::Op::offer) request.rpc->set_tags(options().tags);
  // What is put goes to the next one then, what is read may be there too.
  request.rpc->has_others = routes_->slots.size() > 1 && (is_put() || replicas_ > 1);
  return request;
}

void PageBatch::add(Sent& request, const Part& part) {
  Rpc& rpc = *request.rpc;
  const std::uint32_t page = part.page;
  wire::Item item;
  item.name = wire::Name::borrowed(names_[page]);
  item.flags = part.is_range ? wire::ITEM_PAGE | wire::ITEM_RANGE : wire::ITEM_PAGE;
  if (options().is_probe || action_ == PageAction::exists) item.flags |= wire::ITEM_PROBE;
  if (action_ == PageAction::exists) return rpc.add(std::move(item));
  item.offset = part.offset;
  item.length = part.bytes;
  item.tag = tag_;
  if (is_put()) {
    item.ttl_s = options().ttl_s;
    item.flags |= wire::class_flags(options().eviction_class);
    if (!network().options().is_verifying) item.flags |= wire::ITEM_NO_VERIFY;
    if (part.is_short) item.flags |= wire::ITEM_SHORT;
  } else if (replicas_ > 1) {
    request.others.push_back(part.other);
  }
  BufferCursor memory(memory_.of(page));
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
        merge(ranges_[part.page], part, rpc, item);
      } else {
        take(part, rpc, item);
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
  settle_rest();
  end();
}

void PageBatch::take(const Part& part, const Rpc& rpc, std::size_t item) {
  Page& page = pages_[part.page];
  if (page.is_settled) return;
  if (rpc.status != Status::ok) {
    page.asked |= rank_bit(part.rank);
    return;
  }
  if (action_ != PageAction::exists) return take_answer(page, part.rank, rpc.answers[item]);
  const Status told = rpc.answers.front().status;
  if (told == Status::denied) {
    settle(page, told);
  } else if (told != Status::ok) {
    page.asked |= rank_bit(part.rank);
  } else if (rpc.present[item]) {
    settle(page, Status::ok);
  } else {
    take_miss(page, part.rank);
  }
}

void PageBatch::merge(Ranges& ranges, const Part& part, const Rpc& rpc, std::size_t item) const {
  ranges.rank = part.rank;
  if (rpc.status != Status::ok) {
    ranges.reached = rpc.status;
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
  if (ranges.reached != Status::ok) {
    page.asked |= rank_bit(ranges.rank);
    return;
  }
  wire::ResponseItem answer = ranges.answer;
  const bool is_ok = answer.status == Status::ok;
  if (is_ok && !ranges.is_mixed && answer.length > bytes_of(at)) answer.status = Status::invalid;
  page.is_whole = is_ok ? ranges.is_mixed : answer.status == Status::invalid;
  if (page.is_whole) {
    has_progress_ = true;
    return;
  }
  take_answer(page, ranges.rank, answer);
}

void PageBatch::take_answer(Page& page, std::size_t rank, const wire::ResponseItem& answer) {
  if (answer.status != Status::corrupt) {
    is_put() ? take_put(page, rank, answer) : take_get(page, rank, answer);
    return;
  }
  if (page.corrupt_count++ < CORRUPT_MAX) return;  // once more, of the same node
  if (!is_put()) return take_miss(page, rank);
  page.refusal = Status::corrupt;
  ++page.refused;
  page.asked |= rank_bit(rank);
  settle_put_if_over(page);
}

void PageBatch::take_get(Page& page, std::size_t rank, const wire::ResponseItem& answer) {
  switch (answer.status) {
    case Status::ok:
    case Status::denied:
    case Status::invalid: return settle(page, answer.status, answer.length);
    case Status::retry: retry_ms_ = std::max(retry_ms_, std::max(answer.detail, RETRY_MS)); return;
    case Status::unavailable: page.asked |= rank_bit(rank); return;
    default: return take_miss(page, rank);
  }
}

/// Another one may have it, unless all those have been asked that should.
void PageBatch::take_miss(Page& page, std::size_t rank) {
  page.asked |= rank_bit(rank);
  has_progress_ = true;
  page.is_denied = page.is_denied || rank < replicas_;
  if (++page.misses >= reach_.misses) settle_missing(page);
}

void PageBatch::take_put(Page& page, std::size_t rank, const wire::ResponseItem& answer) {
  switch (answer.status) {
    case Status::ok:
    case Status::have:
      page.outcome.bytes = answer.length;
      ++page.outcome.copies;
      if (answer.status == Status::ok) page.stored = Status::ok;
      break;
    case Status::full:
    case Status::denied:
    case Status::invalid:
      page.refusal = answer.status;
      ++page.refused;
      break;
    case Status::retry: retry_ms_ = std::max(retry_ms_, std::max(answer.detail, RETRY_MS)); return;
    default: break;  // the next one is asked
  }
  page.asked |= rank_bit(rank);
  settle_put_if_over(page);
}

void PageBatch::settle_put_if_over(Page& page) {
  has_progress_ = true;
  if (std::size_t{page.outcome.copies} + page.refused >= replicas_) settle_put(page);
}

void PageBatch::settle(Page& page, Status status, std::uint64_t bytes) {
  page.outcome.status = status;
  page.outcome.bytes = bytes;
  page.is_settled = true;
  has_progress_ = true;
}

/// By the copies that stand; by why there are none.
void PageBatch::settle_put(Page& page) {
  if (page.outcome.copies != 0) return settle(page, page.stored, page.outcome.bytes);
  settle(page, page.refused != 0 ? page.refusal : Status::unavailable);
}

void PageBatch::settle_unreached(Page& page) { is_put() ? settle_put(page) : settle_missing(page); }

/// Those that stand in for its owners may not have it; only an owner knows.
void PageBatch::settle_missing(Page& page) {
  is_partial_ = is_partial_ || !page.is_denied;
  settle(page, Status::miss);
}

void PageBatch::settle_rest() {
  for (Page& page : pages_)
    if (!page.is_settled) settle_unreached(page);
}

void PageBatch::end() {
  Outcome outcome = outcome_of(Status::ok);
  outcome.is_partial = is_partial_;
  outcome.items.reserve(pages_.size());
  for (const Page& page : pages_) outcome.items.push_back(page.outcome);
  finish(std::move(outcome));
}

}  // namespace

void start_pages(CallContext context, PageAction action, PageNames names, PageMemory memory,
                 Call::OnEnd on_end) {
  std::make_shared<PageBatch>(std::move(context), action, std::move(names), std::move(memory),
                              std::move(on_end))
      ->run();
}

}  // namespace gd2fs
