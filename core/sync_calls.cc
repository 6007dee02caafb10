#include "sync_calls.h"

#include <algorithm>
#include <functional>

#include "kept_at.h"
#include "record_call.h"
#include "replicas.h"

namespace gd2fs {

namespace {

constexpr std::uint64_t REQUEST_BYTES = 256 * MiB;  // of what one request is about

/// What the nodes have said of one thing.
struct Kept {
  bool is_here = false;
  bool is_silent = false;  // someone who may have it did not answer
  KeptAt at = KeptAt::nowhere;

  void take(const Rpc& rpc, std::size_t item) {
    const Status status = rpc.item_status(item);
    is_silent =
        is_silent || (status != Status::ok && status != Status::miss && status != Status::denied);
    is_here = is_here || status == Status::ok || status == Status::denied;
    if (status != Status::ok) return;
    const auto told = static_cast<KeptAt>(rpc.answers[item].tier);
    at = std::max(at, std::min(told, KeptAt::disk));
  }
  Status status() const {
    if (at != KeptAt::nowhere) return Status::ok;
    if (is_silent) return Status::unavailable;
    return is_here ? Status::denied : Status::miss;
  }
};

/// Asks nodes about things, each about those that it may have.
template <class Base>
class SyncCall : public Base {
 public:
  using Base::Base;

 protected:
  struct Thing {
    wire::Item item;
    std::uint64_t bytes = 0;
  };

  /// `things` are asked about by number, of each node those in `by_node`.
  void ask(const std::vector<Thing>& things, const std::vector<std::vector<std::uint32_t>>& by_node,
           std::function<void()> then) {
    kept_.resize(things.size());
    std::vector<typename Base::Sent> requests;
    for (std::size_t node = 0; node < by_node.size(); ++node) {
      Cutter cutter(wire::Op::sync, REQUEST_BYTES);
      for (const std::uint32_t at : by_node[node]) {
        if (cutter.begins(things[at].item.name.size(), things[at].bytes)) {
          requests.push_back({node, this->new_rpc(wire::Op::sync)});
          asked_.emplace_back();
        }
        requests.back().rpc->add(things[at].item);
        asked_.back().push_back(at);
      }
    }
    this->scatter(std::move(requests), std::move(then));
  }

  const std::vector<Kept>& take() {
    for (std::size_t request = 0; request < asked_.size(); ++request) {
      for (std::size_t item = 0; item < asked_[request].size(); ++item)
        kept_[asked_[request][item]].take(*this->sent()[request].rpc, item);
    }
    return kept_;
  }

 private:
  std::vector<std::vector<std::uint32_t>> asked_;  // by request: what its items are about
  std::vector<Kept> kept_;
};

class SyncPages : public SyncCall<Call> {
 public:
  SyncPages(CallContext context, PageNames names, OnEnd on_end)
      : SyncCall(std::move(context), std::move(on_end)), names_(std::move(names)) {}

  void run() {
    const RoutesRef routes = network().routes();
    std::vector<Thing> things(names_.size());
    std::vector<std::vector<std::uint32_t>> by_node(network().slot_count());
    for (std::size_t page = 0; page < names_.size(); ++page) {
      things[page].item.name = wire::Name(names_[page]);
      things[page].item.flags = wire::ITEM_PAGE;
      const Reach reach(*routes, routes->placement.replicas(names_[page]));
      for (const std::uint32_t at : routes->placement.holders(names_[page], 0, reach.ranks))
        by_node[routes->slots[at]].push_back(static_cast<std::uint32_t>(page));
    }
    auto self = std::static_pointer_cast<SyncPages>(shared_from_this());
    ask(things, by_node, [self] { self->end(); });
  }

 private:
  void end() {
    Outcome outcome = outcome_of(Status::ok);
    for (const Kept& each : take()) {
      outcome.items.emplace_back();
      outcome.items.back().status = each.status();
      outcome.items.back().kept_at = each.at;
    }
    finish(std::move(outcome));
  }

  const PageNames names_;
};

class SyncFile : public SyncCall<RecordCall> {
 public:
  SyncFile(CallContext context, std::string path, OnEnd on_end)
      : SyncCall(std::move(context), std::move(path), std::move(on_end)) {}

  void run() { ask_record(0); }

 private:
  std::shared_ptr<SyncFile> self() {
    return std::static_pointer_cast<SyncFile>(shared_from_this());
  }

  void ask_record(std::uint64_t from) {
    wire::Item item = new_item();
    item.offset = from;
    item.length = FILE_BYTES_MAX - from;
    RecordCall::ask(wire::Op::meta, std::move(item),
                    [self = self(), from] { self->take_record(from); });
  }

  void take_record(std::uint64_t from) {
    if (answer_status() != Status::ok) return fail(answer_status(), what(), home());
    const wire::ResponseItem& record = answer().answers.front();
    const wire::MetaBody& body = answer().metas.front();
    if (from != 0 && record.gen != facts_.gen) return fail(Status::gone, what(), home());
    facts_ = {body.size, record.gen, record.seq, record.detail, body.ttl_s, body.replicas};
    segments_.insert(segments_.end(), body.segments.begin(), body.segments.end());
    if (record.tier != 0 && !body.segments.empty()) {
      const wire::Segment& last = segments_.back();
      return ask_record(last.chunk * facts_.chunk_bytes + last.offset + last.length);
    }
    ask_owners();
  }

  void ask_owners() {
    const RoutesRef routes = network().routes();
    const Reach reach(*routes, replicas_of(*routes, facts_));
    std::vector<Thing> things(segments_.size());
    std::vector<std::vector<std::uint32_t>> by_node(network().slot_count());
    for (std::size_t at = 0; at < segments_.size(); ++at) {
      const wire::Segment& segment = segments_[at];
      wire::Item& item = things[at].item;
      item.name = wire::Name(path_);
      item.chunk = segment.chunk;
      item.offset = segment.offset;
      item.length = segment.length;
      item.tag = segment.tag;
      things[at].bytes = segment.length;
      for (const std::uint32_t owner : routes->placement.holders(path_, segment.chunk, reach.ranks))
        by_node[routes->slots[owner]].push_back(static_cast<std::uint32_t>(at));
    }
    SyncCall::ask(things, by_node, [self = self()] { self->end(); });
  }

  /// Where all of it is. A file without bytes has nothing to lose.
  void end() {
    Outcome outcome = outcome_of(Status::ok);
    KeptAt least = KeptAt::disk;
    for (const Kept& each : take()) {
      if (each.status() != Status::ok && outcome.status == Status::ok)
        outcome.status = each.status();
      least = std::min(least, each.at);
    }
    outcome.value = static_cast<std::uint64_t>(least);
    finish(std::move(outcome));
  }

  std::string what() const { return "sync of `" + path_ + "`"; }

  FileFacts facts_;
  std::vector<wire::Segment> segments_;
};

}  // namespace

void start_sync_pages(CallContext context, PageNames names, Call::OnEnd on_end) {
  std::make_shared<SyncPages>(std::move(context), std::move(names), std::move(on_end))->run();
}

void start_sync_file(CallContext context, std::string path, Call::OnEnd on_end) {
  std::make_shared<SyncFile>(std::move(context), std::move(path), std::move(on_end))->run();
}

}  // namespace gd2fs
