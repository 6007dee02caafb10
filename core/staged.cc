#include "staged.h"

#include <map>
#include <utility>
#include <vector>

#include "call.h"

namespace gd2fs {

namespace {

constexpr std::int64_t TELL_MS = 5'000;
constexpr std::int64_t AGAIN_MS = 1'000;

class TellStaged : public Call {
 public:
  TellStaged(Network& network, std::string path, const wire::Item& word, wire::Op op,
             std::set<StagedCopy> copies)
      : Call({network, nullptr, now_ms() + TELL_MS, {}},
             [&network](const Outcome&) { network.hint_ends(); }),
        path_(std::move(path)),
        word_(word),
        op_(op),
        copies_(std::move(copies)) {}

  void run() {
    std::map<std::size_t, Cutter> cutters;
    std::map<std::size_t, std::size_t> open;  // by node: its request that is being filled
    std::vector<Sent> requests;
    parts_.clear();
    for (const StagedCopy& copy : copies_) {
      Cutter& cutter = cutters.try_emplace(copy.node, op_, 0).first->second;
      if (cutter.begins(path_.size(), 0)) {
        open[copy.node] = requests.size();
        requests.push_back({copy.node, new_rpc(op_)});
        parts_.emplace_back();
      }
      wire::Item item = word_;
      item.name = wire::Name::borrowed(path_);
      item.chunk = copy.chunk;
      requests[open[copy.node]].rpc->add(std::move(item));
      parts_[open[copy.node]].push_back(copy);
    }
    scatter(std::move(requests), [self = self()] { self->take(); });
  }

 private:
  std::shared_ptr<TellStaged> self() {
    return std::static_pointer_cast<TellStaged>(shared_from_this());
  }

  /// What is not there may be on its way, by another stream: once more, a little later.
  void take() {
    copies_.clear();
    for (std::size_t part = 0; part < parts_.size(); ++part)
      for (std::size_t item = 0; item < parts_[part].size(); ++item)
        if (sent()[part].rpc->item_status(item) == Status::miss) copies_.insert(parts_[part][item]);
    if (copies_.empty() || std::exchange(is_again_, true)) return finish(Status::ok);
    if (!after(AGAIN_MS, [self = self()] { self->run(); })) finish(Status::expired);
  }

  const std::string path_;
  const wire::Item word_;
  const wire::Op op_;
  std::set<StagedCopy> copies_;
  std::vector<std::vector<StagedCopy>> parts_;  // beside sent()
  bool is_again_ = false;
};

void tell(Network& network, std::string path, const wire::Item& word, wire::Op op,
          std::set<StagedCopy> copies) {
  if (copies.empty() || !network.hint_begins()) return;
  std::make_shared<TellStaged>(network, std::move(path), word, op, std::move(copies))->run();
}

}  // namespace

void forget_staged(Network& network, std::string path, std::uint64_t tag,
                   std::set<StagedCopy> copies) {
  wire::Item word;
  word.tag = tag;
  tell(network, std::move(path), word, wire::Op::forget, std::move(copies));
}

void publish_staged(Network& network, std::string path, std::uint64_t tag, std::uint64_t seq,
                    std::set<StagedCopy> copies) {
  wire::Item word;
  word.tag = tag;
  word.offset = seq;
  tell(network, std::move(path), word, wire::Op::publish, std::move(copies));
}

}  // namespace gd2fs
