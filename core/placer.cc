#include "placer.h"

#include <algorithm>

namespace gd2fs::serve {

void Placer::add(ReadJob job, std::vector<Target> targets) {
  placements_.push_back(std::make_shared<Placement>(std::move(job), std::move(targets)));
}

bool Placer::has_work(const Transfers& transfers) const noexcept {
  return transfers.has_room() && !transfers.is_broken() &&
         std::any_of(placements_.begin(), placements_.end(),
                     [](const PlacementRef& each) { return is_ready(*each); });
}

void Placer::turn(Transfers& transfers, Replies& out, const ReadJob::Wake& wake) {
  const auto next = std::find_if(placements_.begin(), placements_.end(),
                                 [](const PlacementRef& each) { return is_ready(*each); });
  if (next == placements_.end()) return;
  const PlacementRef placement = *next;
  placements_.splice(placements_.end(), placements_, next);
  const auto batch = std::make_shared<Batch>(Batch{placement, {}, {}});
  const ReadJob::Turn turn =
      placement->job.next_batch(node_, batch->payload, batch->table, wake, TRANSFER_BYTES_MAX);
  if (turn == ReadJob::Turn::over) placement->ends_as = Status::ok;
  if (!batch->table.pieces.empty()) return start(transfers, batch, out);
  if (placement->ends_as && placement->under_way.empty()) finish(placement, out);
}

void Placer::start(Transfers& transfers, const std::shared_ptr<Batch>& batch, Replies& out) {
  std::vector<ucx::RemoteKeyRef> keys;
  const std::vector<ucx::Move> moves = moves_of(*batch->of, *batch, keys);
  batch->of->under_way.push_back(batch);
  transfers.start(ucx::Way::put, moves, std::move(keys), [this, batch, &out](bool is_whole) {
    if (is_whole && !batch->of->is_abandoned) placed(*batch, out);
  });
}

/// Each piece goes to its place among the bytes of all items: what lacks leaves a gap.
std::vector<ucx::Move> Placer::moves_of(Placement& of, const Batch& batch,
                                        std::vector<ucx::RemoteKeyRef>& keys) {
  std::vector<ucx::Move> moves;
  std::span<const std::span<std::byte>> runs = batch.payload.runs();
  std::uint64_t run_done = 0;  // of the first of `runs`
  for (const wire::DataPiece& piece : batch.table.pieces) {
    for (; of.item < piece.item; ++of.item) of.item_at += of.job.body().items[of.item].length;
    const std::uint64_t at = of.item_at + piece.offset;
    of.cursor.skip(at - of.cursor_at);
    for (std::uint64_t left = piece.length; left > 0;) {
      const auto here =
          static_cast<std::size_t>(std::min<std::uint64_t>(left, runs.front().size() - run_done));
      of.cursor.pair(runs.front().subspan(run_done, here), moves, keys);
      left -= here;
      run_done += here;
      if (run_done < runs.front().size()) continue;
      runs = runs.subspan(1);
      run_done = 0;
    }
    of.cursor_at = at + piece.length;
  }
  return moves;
}

void Placer::placed(Batch& batch, Replies& out) {
  batch.is_here = true;
  tally_.moved(Transport::rdma, Direction::out, batch.payload.bytes());
  const PlacementRef placement = batch.of;
  std::deque<std::shared_ptr<Batch>>& under_way = placement->under_way;
  while (!under_way.empty() && under_way.front()->is_here) {
    wire::encode_placed(out.bytes, placement->job.request(), under_way.front()->table);
    under_way.pop_front();
  }
  if (placement->ends_as && under_way.empty()) finish(placement, out);
}

void Placer::finish(const PlacementRef& placement, Replies& out) {
  placement->job.end(out.bytes, *placement->ends_as);
  out.ends.push_back(placement->job.request());
  placements_.remove(placement);
}

Placer::PlacementRef Placer::find(std::uint64_t request) const {
  const auto found =
      std::find_if(placements_.begin(), placements_.end(),
                   [&](const PlacementRef& each) { return each->job.request() == request; });
  return found == placements_.end() ? nullptr : *found;
}

void Placer::loaded(std::uint64_t request, Status status, PieceRef piece) {
  if (const PlacementRef placement = find(request)) placement->job.loaded(status, std::move(piece));
}

bool Placer::end(std::uint64_t request, Status status, Replies& out) {
  const PlacementRef placement = find(request);
  if (placement == nullptr) return false;
  if (!placement->ends_as) placement->ends_as = status;
  if (placement->under_way.empty()) finish(placement, out);
  return true;
}

void Placer::expire(std::int64_t now_ms, Replies& out) {
  std::vector<std::uint64_t> late;
  for (const PlacementRef& each : placements_) {
    const std::int64_t deadline_ms = each->job.deadline_ms();
    if (deadline_ms != 0 && now_ms >= deadline_ms) late.push_back(each->job.request());
  }
  for (const std::uint64_t request : late) end(request, Status::expired, out);
}

void Placer::abandon() {
  for (const PlacementRef& each : placements_) {
    each->is_abandoned = true;
    each->under_way.clear();  // their transfers have them
  }
  placements_.clear();
}

}  // namespace gd2fs::serve
