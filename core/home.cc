#include "home.h"

namespace gd2fs::serve {
namespace {

constexpr std::int64_t ANSWER_MS = 300;
constexpr std::int64_t SILENCE_MS = 2'000;

wire::Request question(const Store::StagedName& name) {
  wire::Request request;
  request.head.op = wire::Op::is_listed;
  request.head.deadline_ms = static_cast<std::uint32_t>(ANSWER_MS);
  wire::Item item;
  item.name = name.name;
  item.chunk = name.chunk;
  item.tag = name.tag;
  request.items.push_back(std::move(item));
  return request;
}

}  // namespace

std::optional<std::uint64_t> Home::seq_of(const Store::StagedName& name) {
  std::uint32_t home = 0;
  if (node_.is_home(name.name, home)) {
    std::uint64_t seq = 0;
    const bool is_listed = node_.records.is_listed(name.name, name.chunk, name.tag, seq);
    return is_listed ? std::optional(seq) : std::nullopt;
  }
  return ask(neighbours_[home], node_.view()->map.nodes[home], name);
}

std::optional<std::uint64_t> Home::ask(Neighbour& neighbour, const wire::MapNode& node,
                                       const Store::StagedName& name) {
  if (boottime_ms() < neighbour.silent_until_ms) return {};
  const std::int64_t deadline_ms = boottime_ms() + ANSWER_MS;
  if (!neighbour.line) {
    neighbour.line = PeerLine::open(node_, node, deadline_ms);
  }
  std::optional<wire::ResponseItem> answer;
  if (neighbour.line) answer = neighbour.line->ask(question(name), deadline_ms);
  if (!answer) {
    neighbour.line = nullptr;
    neighbour.silent_until_ms = boottime_ms() + SILENCE_MS;
    return {};
  }
  return answer->status == Status::ok ? std::optional(answer->seq) : std::nullopt;
}

}  // namespace gd2fs::serve
