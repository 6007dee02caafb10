#include "wire_pieces.h"

namespace gd2fs::wire {

namespace {

constexpr std::size_t RUN_BYTES = 16;

}  // namespace

void encode_lease(Bytes& out, std::uint64_t request, const Lease& lease, std::uint64_t consumed) {
  FrameWriter frame(out, Kind::lease, request);
  frame.u64(lease.id);
  write_pieces(frame, lease.data);
  for (const LeaseRun& run : lease.runs) {
    frame.u64(run.at);
    frame.u64(run.length);
  }
  frame.finish(static_cast<std::uint16_t>(lease.data.pieces.size()), 0, consumed);
}

std::optional<Lease> decode_lease(View bytes, std::uint16_t items, std::uint64_t arena_bytes) {
  TableReader table(bytes);
  Lease lease;
  lease.id = table.u64();
  if (items == 0 || !table.ok()) return {};
  const auto wanted = read_pieces(table, items, lease.data);
  if (!wanted || table.left() % RUN_BYTES != 0) return {};
  lease.runs.resize(table.left() / RUN_BYTES);
  std::uint64_t found = 0;
  for (LeaseRun& run : lease.runs) {
    run.at = table.u64();
    run.length = table.u64();
    if (run.length == 0 || run.length > arena_bytes || run.at > arena_bytes - run.length) return {};
    if (run.length > *wanted - found) return {};
    found += run.length;
  }
  if (found != *wanted) return {};
  return lease;
}

void encode_arena(Bytes& out, std::uint64_t arena_bytes) {
  FrameWriter frame(out, Kind::lease, 0);
  frame.u64(arena_bytes);
  frame.finish(0, 0, 0);
}

std::optional<std::uint64_t> decode_arena(View bytes, std::uint16_t items) {
  TableReader table(bytes);
  const std::uint64_t arena_bytes = table.u64();
  if (items != 0 || !table.ok() || table.left() != 0 || arena_bytes == 0) return {};
  return arena_bytes;
}

void encode_release(Bytes& out, std::span<const std::uint64_t> leases, std::uint64_t consumed) {
  FrameWriter frame(out, Kind::release, 0);
  for (const std::uint64_t lease : leases) frame.u64(lease);
  frame.finish(0, 0, consumed);
}

std::optional<std::vector<std::uint64_t>> decode_release(View bytes) {
  if (bytes.size() % sizeof(std::uint64_t) != 0) return {};
  TableReader table(bytes);
  std::vector<std::uint64_t> leases(bytes.size() / sizeof(std::uint64_t));
  for (std::uint64_t& lease : leases) lease = table.u64();
  return leases;
}

}  // namespace gd2fs::wire
