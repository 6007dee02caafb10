#include "file_advise.h"

#include <algorithm>
#include <map>

#include "record_call.h"
#include "replicas.h"

namespace gd2fs {

namespace {

constexpr std::uint64_t REQUEST_BYTES = 64 * MiB;  // of the pieces that one request is about
constexpr std::size_t RANKS_EXTRA = 2;             // beyond the copies that there should be

class FileAdvise : public RecordCall {
 public:
  FileAdvise(CallContext context, std::string path, Advice advice, std::uint32_t replicas,
             OnEnd on_end)
      : RecordCall(std::move(context), std::move(path), std::move(on_end)),
        is_more_(advice == Advice::willneed),
        wanted_(replicas) {}

  void run() { ask_record(0); }

 private:
  /// One segment, as one node is asked about it.
  struct Part {
    std::size_t segment = 0;
    std::size_t rank = 0;
  };
  struct Open {
    Cutter cutter;
    std::size_t request = 0;
  };

  std::shared_ptr<FileAdvise> self() {
    return std::static_pointer_cast<FileAdvise>(shared_from_this());
  }

  void ask_record(std::uint64_t from) {
    wire::Item item = new_item();
    item.offset = from;
    item.length = FILE_BYTES_MAX - from;
    ask(wire::Op::meta, std::move(item), [self = self(), from] { self->take_record(from); });
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
    asked_.assign(segments_.size(), 0);
    is_more_ ? spread() : set_replicas();
  }

  void set_replicas() {
    wire::Item item = new_item();
    item.flags = wire::ITEM_REPLICAS;
    item.tag = facts_.gen;
    item.sink = wanted_;
    ask(wire::Op::create, std::move(item), [self = self()] { self->take_set(); });
  }

  void take_set() {
    if (answer_status() != Status::ok) return fail(answer_status(), what(), home());
    is_more_ ? end() : drop();
  }

  std::size_t copies(const Routes& routes, std::uint32_t replicas) const {
    FileFacts facts = facts_;
    facts.replicas = replicas;
    return replicas_of(routes, facts);
  }

  // More.

  void spread() {
    routes_ = network().routes();
    const std::size_t count = copies(*routes_, wanted_);
    const Reach reach(*routes_, std::max(count, copies(*routes_, facts_.replicas)));
    const Choice choice(routes_, REQUEST_BYTES);
    std::vector<Sent> requests;
    begin_requests();
    for (std::size_t at = 0; at < segments_.size(); ++at) {
      if (asked_[at] == ALL) continue;
      const auto order = routes_->placement.holders(path_, segments_[at].chunk, reach.ranks);
      const std::size_t rank = choice.next(order, count, asked_[at]);
      if (rank >= order.size()) return finish(Status::miss);
      add(requests, order[rank], {at, rank}, 0);
    }
    if (requests.empty()) return set_replicas();
    scatter(std::move(requests), [self = self()] { self->take_spread(); });
  }

  void take_spread() {
    bool is_told_to_wait = false;
    for (std::size_t request = 0; request < parts_.size(); ++request) {
      const Sent& each = sent()[request];
      for (std::size_t item = 0; item < parts_[request].size(); ++item) {
        const Part& part = parts_[request][item];
        switch (const Status status = each.rpc->item_status(item)) {
          case Status::ok:
            asked_[part.segment] = ALL;
            bytes_ += segments_[part.segment].length;
            break;
          case Status::retry: is_told_to_wait = true; break;
          case Status::miss:
          case Status::unavailable: asked_[part.segment] |= rank_bit(part.rank); break;
          default: return fail(status, what(), each.node);
        }
      }
    }
    if (!after(is_told_to_wait ? RETRY_MS : 0, [self = self()] { self->spread(); }))
      fail(Status::expired, what(), sent().front().node);
  }

  // Fewer.

  void drop() {
    routes_ = network().routes();
    const std::size_t count =
        std::max(copies(*routes_, wanted_), copies(*routes_, facts_.replicas)) + RANKS_EXTRA;
    std::vector<Sent> requests;
    begin_requests();
    for (std::size_t at = 0; at < segments_.size(); ++at) {
      const auto order = routes_->placement.holders(path_, segments_[at].chunk, count);
      for (std::size_t rank = 0; rank < order.size(); ++rank)
        add(requests, order[rank], {at, rank}, wire::ITEM_DONTNEED);
    }
    scatter(std::move(requests), [self = self()] { self->take_dropped(); });
  }

  /// Those that keep theirs know now that no more is wanted. What is not dropped now goes when the
  /// map changes next.
  void take_dropped() {
    for (const Sent& each : sent())
      for (std::size_t item = 0; item < each.rpc->request.items.size(); ++item)
        if (each.rpc->item_status(item) == Status::ok) bytes_ += each.rpc->answers[item].length;
    end();
  }

  // Both.

  void begin_requests() {
    open_.clear();
    parts_.clear();
  }

  void add(std::vector<Sent>& requests, std::uint32_t owner, const Part& part,
           std::uint16_t flags) {
    const wire::Segment& segment = segments_[part.segment];
    const std::size_t node = routes_->slots[owner];
    Open& open =
        open_.try_emplace(node, Open{Cutter(wire::Op::advise, REQUEST_BYTES), 0}).first->second;
    if (open.cutter.begins(path_.size(), segment.length)) {
      open.request = requests.size();
      requests.push_back({node, new_rpc(wire::Op::advise)});
      requests.back().rpc->has_others = is_more_;
      parts_.emplace_back();
    }
    wire::Item item;
    item.name = wire::Name::borrowed(path_);
    item.flags = flags;
    item.chunk = segment.chunk;
    item.offset = segment.offset;
    item.length = segment.length;
    item.tag = segment.tag;
    item.sink = wanted_;
    requests[open.request].rpc->add(std::move(item));
    parts_[open.request].push_back(part);
  }

  void end() {
    Outcome outcome = outcome_of(Status::ok);
    outcome.value = bytes_;
    outcome.file = facts_;
    outcome.file.replicas = wanted_;
    finish(std::move(outcome));
  }

  std::string what() const {
    return std::string(is_more_ ? "spreading" : "taking back copies") + " of `" + path_ + "`";
  }

  static constexpr RankMask ALL = ~RankMask{0};  // it is done

  const bool is_more_;
  const std::uint32_t wanted_;
  FileFacts facts_;
  std::vector<wire::Segment> segments_;
  std::vector<RankMask> asked_;  // by segment
  RoutesRef routes_;
  std::map<std::size_t, Open> open_;      // by node
  std::vector<std::vector<Part>> parts_;  // beside sent(): what each item is about
  std::uint64_t bytes_ = 0;
};

}  // namespace

void start_advise(CallContext context, std::string path, Advice advice, std::uint32_t replicas,
                  Call::OnEnd on_end) {
  std::make_shared<FileAdvise>(std::move(context), std::move(path), advice, replicas,
                               std::move(on_end))
      ->run();
}

}  // namespace gd2fs
