#include "view_calls.h"

#include <algorithm>
#include <map>
#include <new>

#include "file_calls.h"
#include "page_calls.h"
#include "record_call.h"
#include "replicas.h"

namespace gd2fs {

namespace {

constexpr std::uint64_t COPY_BYTES_MAX = 64 * GiB;
constexpr std::size_t COPY_TRIES = 3;  // a page may come and go between two questions

std::unique_ptr<std::byte[]> memory_of(std::uint64_t bytes) {
  if (bytes == 0 || bytes > COPY_BYTES_MAX) return nullptr;
  return std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[bytes]);
}

Outcome too_large(const std::string& what, std::uint64_t bytes) {
  Outcome outcome = outcome_of(Status::invalid);
  outcome.message = what + ": there is no memory for a copy of " + std::to_string(bytes) + " bytes";
  return outcome;
}

/// What of an answered request with ITEM_VIEW becomes parts of a view. `item`: one of its items.
void add_parts(const Rpc& rpc, std::size_t item, std::vector<View::Part>& parts) {
  for (const Rpc::Seen& seen : rpc.seen)
    if (seen.item == item) parts.push_back(seen.bytes);
}

class PageView : public Call {
 public:
  PageView(CallContext context, std::string name, OnEnd on_end)
      : Call(std::move(context), std::move(on_end)), name_(std::move(name)) {}

  void run() {
    const RoutesRef routes = network().routes();
    const std::size_t replicas = routes->placement.replicas(name_);
    const auto order = routes->placement.holders(name_, 0, replicas);
    const std::size_t rank = Choice(routes, 0).next(order, replicas, 0);
    if (rank >= order.size()) return copy(0);
    const std::size_t node = routes->slots[order[rank]];
    RpcRef rpc = new_rpc(wire::Op::get);
    wire::Item item;
    item.name = name_;
    item.flags = wire::ITEM_PAGE | wire::ITEM_VIEW;
    if (options().is_probe) item.flags |= wire::ITEM_PROBE;
    item.length = PAGE_BYTES_MAX;
    rpc->add_view(std::move(item), options().is_verifying);
    auto self = std::static_pointer_cast<PageView>(shared_from_this());
    send(node, std::move(rpc), [self] { self->take(); });
  }

 private:
  void take() {
    Rpc& rpc = *sent().front().rpc;
    if (rpc.status == Status::cancelled) return finish(Status::cancelled);
    if (rpc.item_status(0) != Status::ok || rpc.leases.empty()) return copy(0);
    std::vector<View::Part> parts;
    add_parts(rpc, 0, parts);
    Outcome outcome = outcome_of(Status::ok);
    outcome.view =
        std::make_shared<View>(parts, std::move(rpc.leases), std::vector<ArenaMapRef>{rpc.arena});
    finish(std::move(outcome));
  }

  /// Asks with too little room how much is needed, then again with as much.
  void copy(std::uint64_t bytes) {
    if (++tries_ > COPY_TRIES) return finish(Status::miss);
    memory_ = memory_of(bytes);
    if (bytes > 0 && memory_ == nullptr) return finish(too_large("view of a page", bytes));
    auto self = std::static_pointer_cast<PageView>(shared_from_this());
    start_pages(context(), PageAction::get, PageNames(name_),
                PageMemory(Buffer{memory_.get(), bytes}),
                [self, bytes](Outcome outcome) { self->copied(std::move(outcome), bytes); });
  }

  void copied(Outcome outcome, std::uint64_t room) {
    if (outcome.status != Status::ok || outcome.items.empty()) return finish(std::move(outcome));
    const ItemOutcome item = outcome.items.front();
    if (item.status == Status::invalid && item.bytes > room) return copy(item.bytes);
    if (item.status != Status::ok) return finish(item.status);
    outcome.view = std::make_shared<View>(std::move(memory_), item.bytes);
    finish(std::move(outcome));
  }

  const std::string name_;
  std::unique_ptr<std::byte[]> memory_;
  std::size_t tries_ = 0;
};

class FileView : public RecordCall {
 public:
  FileView(CallContext context, std::string path, std::uint64_t offset, std::uint64_t length,
           OnEnd on_end)
      : RecordCall(std::move(context), std::move(path), std::move(on_end)),
        offset_(offset),
        length_(std::min(length, FILE_BYTES_MAX - offset)) {}

  void run() {
    wire::Item item = new_item();
    item.offset = offset_;
    item.length = length_;
    ask(wire::Op::meta, std::move(item), [self = self()] { self->take_record(); });
  }

 private:
  /// A part of a segment, and where its bytes will be found.
  struct Wanted {
    std::size_t request;
    std::size_t item;
    std::uint64_t tag;
  };

  std::shared_ptr<FileView> self() {
    return std::static_pointer_cast<FileView>(shared_from_this());
  }

  void take_record() {
    const Status status = answer_status();
    if (status != Status::ok) return fail(status, what(), home());
    const wire::ResponseItem record = answer().answers.front();
    const wire::MetaBody& body = answer().metas.front();
    facts_ = {body.size, record.gen, record.seq, record.detail, body.ttl_s, body.replicas};
    end_ = std::max(offset_, std::min(offset_ + length_, facts_.size));
    if (end_ == offset_) return finish_empty();
    std::vector<Sent> requests;
    const bool is_whole = record.tier == 0 && plan(body.segments, requests);
    if (!is_whole) return copy(end_ - offset_);
    scatter(std::move(requests), [self = self()] { self->collect(); });
  }

  /// One request to each node. False: a byte of the range lies in no segment, or the segments make
  /// no sense; a reader of copies sorts that out.
  bool plan(const std::vector<wire::Segment>& segments, std::vector<Sent>& requests) {
    std::map<std::size_t, std::size_t> request_of;  // by node
    std::uint64_t at = offset_;
    const RoutesRef routes = network().routes();
    const std::size_t replicas = replicas_of(*routes, facts_);
    const Choice choice(routes, 0);
    if (facts_.chunk_bytes == 0 || segments.size() > ITEMS_MAX / 2) return false;
    for (const wire::Segment& segment : segments) {
      if (segment.chunk > FILE_BYTES_MAX / facts_.chunk_bytes) return false;
      const std::uint64_t begin = segment.chunk * facts_.chunk_bytes + segment.offset;
      const std::uint64_t stop = std::min(begin + segment.length, end_);
      if (stop <= at) continue;
      if (begin > at) return false;
      const auto order = routes->placement.holders(path_, segment.chunk, replicas);
      const std::size_t rank = choice.next(order, replicas, 0);
      if (rank >= order.size()) return false;
      const std::size_t node = routes->slots[order[rank]];
      const auto [found, is_new] = request_of.try_emplace(node, requests.size());
      if (is_new) requests.push_back({node, new_rpc(wire::Op::read)});
      Rpc& rpc = *requests[found->second].rpc;
      wanted_.push_back({found->second, rpc.request.items.size(), segment.tag});
      rpc.add_view(item_of(segment, at, stop), options().is_verifying);
      at = stop;
    }
    return at == end_ && !requests.empty();
  }

  wire::Item item_of(const wire::Segment& segment, std::uint64_t at, std::uint64_t stop) const {
    wire::Item item;
    item.name = path_;
    item.flags = wire::ITEM_VIEW;
    if (options().is_probe) item.flags |= wire::ITEM_PROBE;
    item.chunk = segment.chunk;
    item.offset = at - segment.chunk * facts_.chunk_bytes;
    item.length = stop - at;
    item.tag = segment.tag;
    return item;
  }

  void collect() {
    std::vector<View::Part> parts;
    std::vector<LeaseHold> leases;
    std::vector<ArenaMapRef> maps;
    for (const Wanted& wanted : wanted_) {
      const Rpc& rpc = *sent()[wanted.request].rpc;
      if (rpc.status == Status::cancelled) return finish(Status::cancelled);
      const bool is_there = rpc.item_status(wanted.item) == Status::ok && !rpc.leases.empty() &&
                            rpc.bodies[wanted.item].tag == wanted.tag;
      if (!is_there) return copy(end_ - offset_);
      add_parts(rpc, wanted.item, parts);
    }
    for (const Sent& each : sent()) {
      std::move(each.rpc->leases.begin(), each.rpc->leases.end(), std::back_inserter(leases));
      each.rpc->leases.clear();
      maps.push_back(each.rpc->arena);
    }
    Outcome outcome = outcome_of(Status::ok);
    outcome.value = end_ - offset_;
    outcome.file = facts_;
    outcome.view = std::make_shared<View>(parts, std::move(leases), std::move(maps));
    finish(std::move(outcome));
  }

  void finish_empty() {
    Outcome outcome = outcome_of(Status::ok);
    outcome.file = facts_;
    outcome.view = std::make_shared<View>(std::vector<View::Part>{}, std::vector<LeaseHold>{},
                                          std::vector<ArenaMapRef>{});
    finish(std::move(outcome));
  }

  std::string what() const { return "view of `" + path_ + "`"; }

  void copy(std::uint64_t bytes) {
    memory_ = memory_of(bytes);
    if (memory_ == nullptr) return finish(too_large(what(), bytes));
    ReadSpec spec;
    spec.path = path_;
    spec.offset = offset_;
    spec.into.push_back({memory_.get(), static_cast<std::size_t>(bytes)});
    start_read(context(), std::move(spec), [self = self()](Outcome outcome) {
      if (outcome.status == Status::ok)
        outcome.view = std::make_shared<View>(std::move(self->memory_), outcome.value);
      self->finish(std::move(outcome));
    });
  }

  const std::uint64_t offset_;
  const std::uint64_t length_;
  std::uint64_t end_ = 0;
  FileFacts facts_;
  std::vector<Wanted> wanted_;
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace

void start_page_view(CallContext context, std::string name, Call::OnEnd on_end) {
  std::make_shared<PageView>(std::move(context), std::move(name), std::move(on_end))->run();
}

void start_file_view(CallContext context, std::string path, std::uint64_t offset,
                     std::uint64_t length, Call::OnEnd on_end) {
  std::make_shared<FileView>(std::move(context), std::move(path), offset, length, std::move(on_end))
      ->run();
}

}  // namespace gd2fs
