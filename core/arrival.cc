#include "arrival.h"

#include <algorithm>

#include "io_thread.h"
#include "name.h"

namespace gd2fs::serve {
namespace {

constexpr std::int64_t TELL_MS = 1'000;
constexpr std::int64_t PAUSE_MIN_MS = 200;
constexpr std::int64_t PAUSE_MAX_MS = 1'000;

}  // namespace

void Arrival::announce(const wire::Map& map) {
  if (map.provider != wire::Provider::fixed) return;
  const NodeId self = node_id(name_);
  for (const wire::MapNode& each : map.nodes) {
    if (each.id != self) tell(each.id, map.epoch, PAUSE_MIN_MS);
  }
}

void Arrival::tell(const NodeId& node, std::uint64_t epoch, std::int64_t pause_ms) {
  auto rpc = std::make_shared<Rpc>(wire::Op::epoch, nullptr, now_ms() + TELL_MS);
  rpc->request.head.map_epoch = epoch;
  wire::Item item;
  item.name = wire::Name(name_);
  item.offset = boot_;
  rpc->add(std::move(item));
  Rpc* const sent = rpc.get();
  rpc->done = [this, sent, node, epoch, pause_ms] {  // part of the request: it must not keep it
    const Status status = sent->item_status(0);
    if (status == Status::ok || status == Status::cancelled) return;
    peers_.after(pause_ms, [this, node, epoch, pause_ms] {
      tell(node, epoch, std::min(2 * pause_ms, PAUSE_MAX_MS));
    });
  };
  peers_.ask(node, std::move(rpc));
}

}  // namespace gd2fs::serve
