#include "recorded_piece.h"

#include "store.h"

namespace gd2fs {

void RecordJoiner::add(const ExtentRecord& record, const Visitor& visit) {
  Key key{std::string(record.name),
          record.is_page,
          record.chunk,
          record.tag,
          record.seq,
          record.offset,
          record.length};
  const auto at = open_.try_emplace(std::move(key)).first;
  Parts& parts = at->second;
  parts.expires_ms = record.expires_ms;
  parts.replicas = record.replicas;
  parts.eviction_class = record.eviction_class;
  const bool is_new = parts.by_place
                          .try_emplace(record.extent.place, record.extent,
                                       std::vector(record.hashes.begin(), record.hashes.end()))
                          .second;
  if (!is_new) return useless_(record.extent.record);
  parts.bytes += record.extent.bytes;
  if (parts.bytes < record.length) return;
  if (is_whole(parts, record.length)) {
    visit(join(at->first, parts));
  } else {
    give_up(parts);
    ++given_up_;
  }
  open_.erase(at);
}

std::size_t RecordJoiner::end() {
  for (const auto& [key, parts] : open_) give_up(parts);
  given_up_ += open_.size();
  open_.clear();
  return given_up_;
}

bool RecordJoiner::is_whole(const Parts& parts, std::uint64_t length) {
  std::uint64_t end = 0;
  for (const auto& [place, part] : parts.by_place) {
    if (place != end) return false;
    end += part.first.bytes;
  }
  return end == length;
}

RecordedPiece RecordJoiner::join(const Key& key, Parts& parts) {
  RecordedPiece recorded;
  std::tie(recorded.name, recorded.is_page, recorded.chunk, recorded.tag, recorded.seq,
           recorded.offset, recorded.length) = key;
  recorded.expires_ms = parts.expires_ms;
  recorded.replicas = parts.replicas;
  recorded.eviction_class = parts.eviction_class;
  for (auto& [place, part] : parts.by_place) {
    recorded.extents.push_back(part.first);
    recorded.hashes.insert(recorded.hashes.end(), part.second.begin(), part.second.end());
  }
  return recorded;
}

void RecordJoiner::give_up(const Parts& parts) const {
  for (const auto& [place, part] : parts.by_place) useless_(part.first.record);
}

void Store::scan_records(std::span<const std::byte> arena,
                         const std::function<void(Recorded&&)>& visit) {
  RecordJoiner joiner([](std::uint32_t) {});
  Ledger::scan(arena, [&](const ExtentRecord& record) { joiner.add(record, visit); });
}

}  // namespace gd2fs
