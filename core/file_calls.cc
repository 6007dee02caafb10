#include "file_calls.h"

#include <algorithm>

namespace gd2fs {

namespace {

constexpr std::int64_t DROP_MS = 500;  // to tell the owners of a file's pieces that it is gone
constexpr std::size_t CREATES_MAX = 2;

FileFacts facts_of(const wire::ResponseItem& record) {
  return {record.length, record.gen, record.seq, record.detail, 0, 0};
}

/// One request about the record, and its answer.
class FactsCall : public RecordCall {
 public:
  using RecordCall::RecordCall;

 protected:
  template <class Derived>
  void ask_home(wire::Op op, wire::Item item, void (Derived::*then)()) {
    auto self = std::static_pointer_cast<Derived>(shared_from_this());
    ask(op, std::move(item), [self, then] { ((*self).*then)(); });
  }

  void end_with_answer(const std::string& what) {
    if (answer_status() != Status::ok)
      return fail(answer_status(), what + " `" + path_ + "`", home());
    Outcome outcome = outcome_of(Status::ok);
    outcome.file = facts_of(answer().answers.front());
    finish(std::move(outcome));
  }
};

class FileCreate : public FactsCall {
 public:
  using FactsCall::FactsCall;

  void run() {
    wire::Item item = new_item();
    item.length = options().chunk_bytes == 0 ? CHUNK_BYTES_DEFAULT : options().chunk_bytes;
    item.sink = options().replicas;
    item.ttl_s = options().ttl_s;
    item.flags = options().if_absent ? wire::ITEM_IF_ABSENT : std::uint16_t{0};
    ++creates_;
    ask_home(wire::Op::create, std::move(item), &FileCreate::take);
  }

  void take() {
    // Made or there: both are what was asked for, so asking again is harmless.
    const bool is_lost = answer_status() == Status::unknown && !options().if_absent;
    if (is_lost && creates_ < CREATES_MAX) return run();
    end_with_answer("create of");
  }

 private:
  std::size_t creates_ = 0;
};

class FileStat : public FactsCall {
 public:
  using FactsCall::FactsCall;

  void run() { ask_home(wire::Op::meta, new_item(), &FileStat::take); }

  void take() {
    if (answer_status() != Status::ok) return end_with_answer("stat of");
    const wire::MetaBody& body = answer().metas.front();
    Outcome outcome = outcome_of(Status::ok);
    outcome.file = facts_of(answer().answers.front());
    outcome.file.size = body.size;
    outcome.file.ttl_s = body.ttl_s;
    outcome.file.replicas = body.replicas;
    finish(std::move(outcome));
  }
};

class FileTruncate : public FactsCall {
 public:
  FileTruncate(CallContext context, std::string path, std::uint64_t size, OnEnd on_end)
      : FactsCall(std::move(context), std::move(path), std::move(on_end)), size_(size) {}

  bool is_change() const override { return true; }
  void run() { ask_home(wire::Op::meta, new_item(), &FileTruncate::take_record); }

  void take_record() {
    if (answer_status() != Status::ok) return end();
    wire::Item item = new_item();
    item.gen = answer().answers.front().gen;
    item.seen_seq = answer().answers.front().seq;
    item.length = size_;
    ask_home(wire::Op::truncate, std::move(item), &FileTruncate::end);
  }

  void end() { end_with_answer("truncate to " + std::to_string(size_) + " bytes of"); }

 private:
  const std::uint64_t size_;
};

class FileUnlink : public FactsCall {
 public:
  using FactsCall::FactsCall;

  void run() { ask_home(wire::Op::unlink, new_item(), &FileUnlink::take); }

  /// Its pieces are unreachable now; their owners are told, so that the memory is free at once.
  /// That is awaited for a moment: a hint that came late would hit the file's successor.
  void take() {
    status_ = answer_status();
    if (status_ != Status::ok) return end();
    std::vector<Sent> hints;
    const RoutesRef routes = network().routes();
    for (std::size_t at = 0; at < routes->slots.size(); ++at) {
      const std::size_t node = routes->slots[at];
      if (node == home() || routes->links[at] == nullptr) continue;  // it knows, or is gone
      RpcRef rpc = new_rpc(wire::Op::drop);
      rpc->deadline_ms = std::min(rpc->deadline_ms, now_ms() + DROP_MS);
      rpc->add(new_item());
      hints.push_back({node, std::move(rpc)});
    }
    auto self = std::static_pointer_cast<FileUnlink>(shared_from_this());
    scatter(std::move(hints), [self] { self->end(); });
  }

  void end() {
    if (status_ == Status::ok) return finish(Status::ok);
    fail(status_, "unlink of `" + path_ + "`", home());
  }

 private:
  Status status_ = Status::ok;
};

}  // namespace

void start_read(CallContext context, ReadSpec spec, Call::OnEnd on_end) {
  std::make_shared<FileRead>(std::move(context), std::move(spec), std::move(on_end))->run();
}

void start_write(CallContext context, WriteSpec spec, Call::OnEnd on_end) {
  std::make_shared<FileWrite>(std::move(context), std::move(spec), std::move(on_end))->run();
}

void start_create(CallContext context, std::string path, Call::OnEnd on_end) {
  std::make_shared<FileCreate>(std::move(context), std::move(path), std::move(on_end))->run();
}

void start_stat(CallContext context, std::string path, Call::OnEnd on_end) {
  std::make_shared<FileStat>(std::move(context), std::move(path), std::move(on_end))->run();
}

void start_truncate(CallContext context, std::string path, std::uint64_t size, Call::OnEnd on_end) {
  std::make_shared<FileTruncate>(std::move(context), std::move(path), size, std::move(on_end))
      ->run();
}

void start_unlink(CallContext context, std::string path, Call::OnEnd on_end) {
  std::make_shared<FileUnlink>(std::move(context), std::move(path), std::move(on_end))->run();
}

}  // namespace gd2fs
