// Advice: what a client says about pieces to come. More copies of them, or one less.
#include <algorithm>

#include "memory_advice.h"
#include "mover.h"
#include "name.h"

namespace gd2fs::serve {
namespace {

bool is_page(const wire::Item& item) { return (item.flags & wire::ITEM_PAGE) != 0; }

std::vector<NodeId> owners_of(const ClusterView& view, const Piece& piece, std::size_t count) {
  std::vector<NodeId> nodes;
  if (view.placement.is_empty()) return nodes;
  if (count == 0) count = view.placement.replicas(piece.name());
  for (const std::uint32_t at : view.placement.owners(piece.name(), piece.chunk(), count))
    nodes.push_back(view.map.nodes[at].id);
  return nodes;
}

bool has(const std::vector<NodeId>& nodes, const NodeId& id) {
  return std::find(nodes.begin(), nodes.end(), id) != nodes.end();
}

}  // namespace

/// One ADVISE. It is answered when the last of its pieces has got where it shall be, or has not.
struct Mover::Advice {
  wire::Request request;
  std::int64_t deadline_ms = 0;
  Reply reply;
  std::vector<wire::ResponseItem> answers;
  std::size_t open_count = 0;

  void close_one() {
    if (--open_count == 0) reply(answers);
  }
};

void Mover::advise(wire::Request request, std::int64_t deadline_ms, Reply reply) {
  const auto shared = std::make_shared<wire::Request>(std::move(request));
  post([this, shared, deadline_ms, reply = std::move(reply)] {
    take_advice(*shared, deadline_ms, reply);
  });
}

void Mover::take_advice(wire::Request& request, std::int64_t deadline_ms, Reply reply) {
  const auto advice = std::make_shared<Advice>();
  advice->request = std::move(request);
  advice->deadline_ms = deadline_ms;
  advice->reply = std::move(reply);
  advice->answers.resize(advice->request.items.size());
  advice->open_count = 1;
  for (std::size_t at = 0; at < advice->answers.size(); ++at) advise_one(advice, at);
  courier_.pump(true);
  advice->close_one();
}

void Mover::advise_one(const std::shared_ptr<Advice>& advice, std::size_t at) {
  const wire::Item& item = advice->request.items[at];
  wire::ResponseItem& answer = advice->answers[at];
  answer.item = static_cast<std::uint16_t>(at);
  const bool is_fit = is_valid_name(item.name, is_page(item)) && item.sink <= REPLICAS_MAX;
  if (!is_fit) {
    answer.status = Status::invalid;
    return;
  }
  const std::vector<PieceRef> pieces = advised_pieces(*node_.store, item);
  if (pieces.empty()) answer.status = Status::miss;
  const bool is_to_drop = (item.flags & wire::ITEM_DONTNEED) != 0;
  for (const PieceRef& piece : pieces) {
    if (!is_to_drop) {
      load_advised(advice, at, piece);
      continue;
    }
    piece->set_replicas(static_cast<std::uint8_t>(item.sink));
    if (has(owners_of(*view_, *piece, piece->replicas()), node_.id)) {
      answer.status = Status::have;
    } else if (node_.store->drop(piece, Cause::advice)) {
      answer.length += piece->length();
    }
  }
}

void Mover::load_advised(const std::shared_ptr<Advice>& advice, std::size_t at,
                         const PieceRef& piece) {
  if (piece->is_whole()) return bring_advised(advice, at, piece);
  ++advice->open_count;
  node_.store->load(piece, LoadRank::advised, nullptr,
                    [this, advice, at](Status status, const PieceRef& loaded) {
                      post([this, advice, at, status, loaded] {
                        if (loaded != nullptr) {
                          bring_advised(advice, at, loaded);
                        } else {
                          const bool is_here = status == Status::full || status == Status::retry;
                          advice->answers[at].status = is_here ? status : Status::miss;
                        }
                        courier_.pump(true);
                        advice->close_one();
                      });
                    });
}

/// Copies beyond what the namespace has are the piece's own from here on: else the next walk would
/// let them go.
void Mover::bring_advised(const std::shared_ptr<Advice>& advice, std::size_t at,
                          const PieceRef& piece) {
  piece->raise_replicas(static_cast<std::uint8_t>(advice->request.items[at].sink));
  const auto move = std::make_shared<Move>();
  move->piece = piece;
  move->epoch = view_->map.epoch;
  move->replicas = piece->replicas();
  move->deadline_ms = advice->deadline_ms;
  move->done = [advice, at](Move& ended) {
    wire::ResponseItem& answer = advice->answers[at];
    const bool is_there = ended.missing_count + ended.refused_count == 0;
    if (is_there) answer.length += ended.piece->length();
    if (!is_there) answer.status = ended.fault;
    advice->close_one();
  };
  ++advice->open_count;
  ++move->waiting_count;  // until all are handed in
  for (const NodeId& target : owners_of(*view_, *piece, move->replicas)) {
    if (target == node_.id) continue;
    const bool is_in_reach = courier_.room(target, boottime_ms()) != Courier::Room::out_of_reach;
    if (is_in_reach) {
      courier_.send(move, target);
    } else {
      ++move->missing_count;
      move->fault = Status::unavailable;
    }
  }
  if (--move->waiting_count == 0) move->done(*move);
}

}  // namespace gd2fs::serve
