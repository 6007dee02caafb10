#include "range_advise.h"

#include <algorithm>
#include <map>

#include "record_call.h"
#include "replicas.h"

namespace gd2fs {

namespace {

constexpr std::uint64_t LOT_BYTES = 64 * MiB;  // of one round
constexpr std::uint64_t REQUEST_BYTES = 16 * MiB;
constexpr std::size_t PAGES_PER_LOT = 4096;
constexpr std::size_t RANKS_EXTRA = 2;  // beyond the copies that there should be, to let go of

bool is_less(MemoryWish wish) { return wish == MemoryWish::shed || wish == MemoryWish::unpin; }

std::uint16_t flags_of(MemoryWish wish) {
  switch (wish) {
    case MemoryWish::load: return wire::ITEM_MEMORY;
    case MemoryWish::shed: return wire::ITEM_MEMORY | wire::ITEM_DONTNEED;
    case MemoryWish::pin: return wire::ITEM_PIN;
    default: return wire::ITEM_PIN | wire::ITEM_DONTNEED;
  }
}

const char* name_of(MemoryWish wish) {
  switch (wish) {
    case MemoryWish::load: return "loading";
    case MemoryWish::shed: return "letting go";
    case MemoryWish::pin: return "pinning";
    default: return "unpinning";
  }
}

/// What the owners of one thing have said of it.
struct Told {
  bool is_there = false;  // one has done it
  bool is_lost = false;   // one has nothing
  Status fault = Status::ok;
  std::uint64_t bytes = 0;

  void take(Status status, std::uint64_t answered) {
    if (status == Status::ok) {
      is_there = true;
      bytes += answered;
    } else if (status == Status::miss) {
      is_lost = true;
    } else {
      fault = status;
    }
  }

  Status status(MemoryWish wish) const {
    if (fault != Status::ok && !is_there) return fault;
    if (fault == Status::full) return fault;  // a copy that could not be pinned may go
    return is_there || is_less(wish) ? Status::ok : Status::miss;
  }
};

/// The requests of one round: by node, cut as they must be.
class Round {
 public:
  struct Request {
    std::size_t node = 0;
    std::vector<wire::Item> items;
    std::vector<std::size_t> things;  // what each item is about
  };

  void add(std::size_t node, std::size_t thing, wire::Item item, std::uint64_t bytes) {
    Open& open =
        open_.try_emplace(node, Open{Cutter(wire::Op::advise, REQUEST_BYTES), 0}).first->second;
    if (open.cutter.begins(item.name.size(), bytes)) {
      open.request = requests_.size();
      requests_.push_back({node, {}, {}});
    }
    requests_[open.request].items.push_back(std::move(item));
    requests_[open.request].things.push_back(thing);
  }

  std::vector<Request> take() {
    open_.clear();
    return std::exchange(requests_, {});
  }

 private:
  struct Open {
    Cutter cutter;
    std::size_t request = 0;
  };
  std::map<std::size_t, Open> open_;
  std::vector<Request> requests_;
};

/// The nodes that shall hear of a thing, as positions in the map.
std::vector<std::uint32_t> listeners(const Routes& routes, std::string_view name,
                                     std::uint64_t chunk, std::size_t replicas, MemoryWish wish) {
  const Reach reach(routes, replicas);
  std::size_t count = reach.is_moving ? reach.ranks : replicas;
  if (is_less(wish) && replicas > 1) count += RANKS_EXTRA;
  const auto order = routes.placement.holders(name, chunk, count);
  return {order.begin(), order.end()};
}

class RangeAdvise : public RecordCall {
 public:
  RangeAdvise(CallContext context, std::string path, MemoryWish wish, std::uint64_t offset,
              std::uint64_t length, OnEnd on_end)
      : RecordCall(std::move(context), std::move(path), std::move(on_end)),
        wish_(wish),
        begin_(offset),
        end_(length == 0 ? FILE_BYTES_MAX : offset + length) {}

  void run() { ask_record(begin_); }

 private:
  std::shared_ptr<RangeAdvise> self() {
    return std::static_pointer_cast<RangeAdvise>(shared_from_this());
  }

  void ask_record(std::uint64_t from) {
    wire::Item item = new_item();
    item.offset = from;
    item.length = end_ - from;
    ask(wire::Op::meta, std::move(item), [self = self(), from] { self->take_record(from); });
  }

  void take_record(std::uint64_t from) {
    if (answer_status() != Status::ok) return fail(answer_status(), what(), home());
    const wire::ResponseItem& record = answer().answers.front();
    const wire::MetaBody& body = answer().metas.front();
    if (from != begin_ && record.gen != facts_.gen) return fail(Status::gone, what(), home());
    facts_ = {body.size, record.gen, record.seq, record.detail, body.ttl_s, body.replicas};
    for (const wire::Segment& each : body.segments) add_clipped(each);
    if (record.tier != 0 && !body.segments.empty()) {
      const wire::Segment& last = body.segments.back();
      return ask_record(last.chunk * facts_.chunk_bytes + last.offset + last.length);
    }
    told_.resize(segments_.size());
    next_lot();
  }

  /// What of it lies in the range.
  void add_clipped(wire::Segment segment) {
    const std::uint64_t at = segment.chunk * facts_.chunk_bytes + segment.offset;
    const std::uint64_t begin = std::max(at, begin_);
    const std::uint64_t end = std::min(at + segment.length, end_);
    if (begin >= end) return;
    segment.offset += static_cast<std::uint32_t>(begin - at);
    segment.length = static_cast<std::uint32_t>(end - begin);
    segments_.push_back(segment);
  }

  void next_lot() {
    if (next_ == segments_.size()) return end();
    const RoutesRef routes = network().routes();
    const std::size_t replicas = replicas_of(*routes, facts_);
    Round round;
    for (std::uint64_t bytes = 0; next_ < segments_.size() && bytes < LOT_BYTES; ++next_) {
      const wire::Segment& segment = segments_[next_];
      bytes += segment.length;
      for (const std::uint32_t at : listeners(*routes, path_, segment.chunk, replicas, wish_))
        round.add(routes->slots[at], next_, item_of(segment), segment.length);
    }
    std::vector<Sent> sent;
    things_.clear();
    for (Round::Request& each : round.take()) {
      sent.push_back({each.node, new_rpc(wire::Op::advise)});
      for (wire::Item& item : each.items) sent.back().rpc->add(std::move(item));
      things_.push_back(std::move(each.things));
    }
    scatter(std::move(sent), [self = self()] { self->take_lot(); });
  }

  wire::Item item_of(const wire::Segment& segment) const {
    wire::Item item;
    item.name = wire::Name::borrowed(path_);
    item.flags = flags_of(wish_);
    item.chunk = segment.chunk;
    item.offset = segment.offset;
    item.length = segment.length;
    item.tag = segment.tag;
    return item;
  }

  void take_lot() {
    for (std::size_t request = 0; request < things_.size(); ++request) {
      const Rpc& rpc = *sent()[request].rpc;
      if (rpc.status == Status::cancelled) return finish(Status::cancelled);
      for (std::size_t item = 0; item < things_[request].size(); ++item) {
        const Status status = rpc.item_status(item);
        const std::uint64_t bytes = status == Status::ok ? rpc.answers[item].length : 0;
        told_[things_[request][item]].take(status, bytes);
      }
    }
    for (; counted_ < next_; ++counted_) {
      const Told& told = told_[counted_];
      const Status status = told.status(wish_);
      if (status == Status::miss) is_lost_ = true;
      if (status != Status::ok && status != Status::miss) fault_ = status;
      // Copies are counted once: what is in memory; and all of them: what was let go.
      const std::uint64_t length = segments_[counted_].length;
      bytes_ += is_less(wish_) ? told.bytes : told.is_there ? length : 0;
      context().operation->note_progress(length);
    }
    next_lot();
  }

  void end() {
    if (fault_ != Status::ok) {
      const bool has_node = !sent().empty();
      return fail(fault_, what(), has_node ? sent().front().node : home());
    }
    Outcome outcome = outcome_of(is_lost_ ? Status::miss : Status::ok);
    outcome.value = bytes_;
    outcome.file = facts_;
    finish(std::move(outcome));
  }

  std::string what() const { return std::string(name_of(wish_)) + " `" + path_ + "`"; }

  const MemoryWish wish_;
  const std::uint64_t begin_, end_;
  FileFacts facts_;
  std::vector<wire::Segment> segments_;
  std::vector<Told> told_;                        // by segment
  std::vector<std::vector<std::size_t>> things_;  // beside sent(): by item, its segment
  std::size_t next_ = 0, counted_ = 0;
  std::uint64_t bytes_ = 0;
  bool is_lost_ = false;
  Status fault_ = Status::ok;
};

class PageAdvise : public Call {
 public:
  PageAdvise(CallContext context, PageNames names, MemoryWish wish, OnEnd on_end)
      : Call(std::move(context), std::move(on_end)),
        names_(std::move(names)),
        wish_(wish),
        told_(names_.size()) {}

  void run() {
    if (next_ == names_.size()) return end();
    const RoutesRef routes = network().routes();
    Round round;
    const std::size_t last = std::min(names_.size(), next_ + PAGES_PER_LOT);
    for (; next_ < last; ++next_) {
      const std::string_view name = names_[next_];
      const std::size_t replicas = routes->placement.replicas(name);
      for (const std::uint32_t at : listeners(*routes, name, 0, replicas, wish_)) {
        wire::Item item;
        item.name = wire::Name::borrowed(name);
        item.flags = wire::ITEM_PAGE | flags_of(wish_);
        round.add(routes->slots[at], next_, std::move(item), 0);
      }
    }
    std::vector<Sent> sent;
    things_.clear();
    for (Round::Request& each : round.take()) {
      sent.push_back({each.node, new_rpc(wire::Op::advise)});
      sent.back().rpc->request.names = names_.memory();
      for (wire::Item& item : each.items) sent.back().rpc->add(std::move(item));
      things_.push_back(std::move(each.things));
    }
    const auto self = std::static_pointer_cast<PageAdvise>(shared_from_this());
    scatter(std::move(sent), [self] { self->take(); });
  }

 private:
  void take() {
    for (std::size_t request = 0; request < things_.size(); ++request) {
      const Rpc& rpc = *sent()[request].rpc;
      if (rpc.status == Status::cancelled) return finish(Status::cancelled);
      for (std::size_t item = 0; item < things_[request].size(); ++item) {
        const Status status = rpc.item_status(item);
        const std::uint64_t bytes = status == Status::ok ? rpc.answers[item].length : 0;
        Told& told = told_[things_[request][item]];
        const bool is_counted = told.is_there && !is_less(wish_);
        told.take(status, is_counted ? 0 : bytes);
        context().operation->note_progress(bytes);
      }
    }
    run();
  }

  void end() {
    Outcome outcome = outcome_of(Status::ok);
    for (const Told& told : told_) {
      outcome.items.push_back({told.status(wish_), told.bytes, 0});
      outcome.value += told.bytes;
    }
    finish(std::move(outcome));
  }

  const PageNames names_;
  const MemoryWish wish_;
  std::vector<Told> told_;                        // by page
  std::vector<std::vector<std::size_t>> things_;  // beside sent()
  std::size_t next_ = 0;
};

}  // namespace

void start_range_advise(CallContext context, std::string path, MemoryWish wish,
                        std::uint64_t offset, std::uint64_t length, Call::OnEnd on_end) {
  std::make_shared<RangeAdvise>(std::move(context), std::move(path), wish, offset, length,
                                std::move(on_end))
      ->run();
}

void start_page_advise(CallContext context, PageNames names, MemoryWish wish, Call::OnEnd on_end) {
  std::make_shared<PageAdvise>(std::move(context), std::move(names), wish, std::move(on_end))
      ->run();
}

}  // namespace gd2fs
