#include "forget.h"

#include <algorithm>
#include <map>
#include <utility>

#include "call.h"

namespace gd2fs {

namespace {

constexpr std::int64_t FORGET_MS = 5'000;
constexpr std::int64_t AGAIN_MS = 1'000;

class Forget : public Call {
 public:
  Forget(Network& network, std::string path, std::uint64_t tag, std::vector<StagedCopy> copies)
      : Call({network, nullptr, now_ms() + FORGET_MS, {}}, [](const Outcome&) {}),
        path_(std::move(path)),
        tag_(tag),
        copies_(std::move(copies)) {}

  void run() {
    std::map<std::size_t, Cutter> cutters;
    std::map<std::size_t, std::size_t> open;  // by node: its request that is being filled
    std::vector<Sent> requests;
    for (const StagedCopy& copy : copies_) {
      Cutter& cutter = cutters.try_emplace(copy.node, wire::Op::forget, 0).first->second;
      if (cutter.begins(path_.size(), 0)) {
        open[copy.node] = requests.size();
        requests.push_back({copy.node, new_rpc(wire::Op::forget)});
      }
      wire::Item item;
      item.name = wire::Name::borrowed(path_);
      item.chunk = copy.chunk;
      item.tag = tag_;
      requests[open[copy.node]].rpc->add(std::move(item));
    }
    scatter(std::move(requests), [self = self()] { self->take(); });
  }

 private:
  std::shared_ptr<Forget> self() { return std::static_pointer_cast<Forget>(shared_from_this()); }

  /// What is not there may be on its way, by another stream: once more, a little later.
  void take() {
    const bool is_done = std::all_of(sent().begin(), sent().end(), [](const Sent& each) {
      const std::size_t items = each.rpc->request.items.size();
      for (std::size_t item = 0; item < items; ++item)
        if (each.rpc->item_status(item) == Status::miss) return false;
      return true;
    });
    if (is_done || std::exchange(is_again_, true)) return finish(Status::ok);
    if (!after(AGAIN_MS, [self = self()] { self->run(); })) finish(Status::expired);
  }

  const std::string path_;
  const std::uint64_t tag_;
  const std::vector<StagedCopy> copies_;
  bool is_again_ = false;
};

}  // namespace

void forget_staged(Network& network, std::string path, std::uint64_t tag,
                   std::vector<StagedCopy> copies) {
  if (copies.empty()) return;
  std::make_shared<Forget>(network, std::move(path), tag, std::move(copies))->run();
}

}  // namespace gd2fs
