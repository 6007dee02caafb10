// Scan: whole pieces from the records of their extents.
#include <map>
#include <tuple>

#include "ledger.h"
#include "store.h"

namespace gd2fs {

namespace {

struct Parts {
  std::map<std::uint64_t, std::pair<Extent, std::vector<std::uint64_t>>> by_place;
  std::int64_t expires_ms = 0;
  std::uint64_t bytes = 0;
};
// name, is_page, chunk, tag, seq, offset, length: two pieces never agree in all of them.
using Key = std::tuple<std::string, bool, std::uint64_t, std::uint64_t, std::uint64_t,
                       std::uint64_t, std::uint64_t>;

bool is_whole(const Parts& parts, std::uint64_t length) {
  std::uint64_t end = 0;
  for (const auto& [place, part] : parts.by_place) {
    if (place != end) return false;
    end += part.first.bytes;
  }
  return end == length;
}

Store::Recorded join(const Key& key, Parts& parts) {
  Store::Recorded recorded;
  std::tie(recorded.name, recorded.is_page, recorded.chunk, recorded.tag, recorded.seq,
           recorded.offset, recorded.length) = key;
  recorded.expires_ms = parts.expires_ms;
  for (auto& [place, part] : parts.by_place) {
    recorded.extents.push_back(part.first);
    recorded.hashes.insert(recorded.hashes.end(), part.second.begin(), part.second.end());
  }
  return recorded;
}

}  // namespace

void Store::scan_records(std::span<const std::byte> arena,
                         const std::function<void(Recorded&&)>& visit) {
  std::map<Key, Parts> open;  // pieces of which some extents are still to come
  Ledger::scan(arena, [&](const ExtentRecord& record) {
    Key key{record.name, record.is_page, record.chunk, record.tag,
            record.seq,  record.offset,  record.length};
    const auto at = open.try_emplace(std::move(key)).first;
    Parts& parts = at->second;
    parts.expires_ms = record.expires_ms;
    const bool is_new = parts.by_place
                            .try_emplace(record.extent.place, record.extent,
                                         std::vector(record.hashes.begin(), record.hashes.end()))
                            .second;
    if (is_new) parts.bytes += record.extent.bytes;
    if (parts.bytes < record.length) return;
    if (is_whole(parts, record.length)) visit(join(at->first, parts));
    open.erase(at);
  });
}

}  // namespace gd2fs
