#include "file_table.h"

#include <algorithm>

#include "assertion.h"

namespace gd2fs {

namespace {

// Which bytes of a chunk are covered so far: sorted ranges that do not touch.
class Cover {
 public:
  bool has(std::uint64_t begin, std::uint64_t end) const {
    const auto after = ranges_.upper_bound(begin);
    return after != ranges_.begin() && std::prev(after)->second >= end;
  }

  void add(std::uint64_t begin, std::uint64_t end) {
    auto at = ranges_.upper_bound(begin);
    if (at != ranges_.begin() && std::prev(at)->second >= begin) --at;
    while (at != ranges_.end() && at->first <= end) {
      begin = std::min(begin, at->first);
      end = std::max(end, at->second);
      at = ranges_.erase(at);
    }
    ranges_.emplace(begin, end);
  }

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  // begin -> end
};

std::uint64_t end_of(const Piece& piece) { return piece.offset() + piece.length(); }

bool touch(const Piece& a, const Piece& b) {
  return a.offset() < end_of(b) && b.offset() < end_of(a);
}

}  // namespace

Piece* FileTable::find(std::string_view name, std::uint64_t chunk, std::uint64_t tag) const {
  const Chunk* const pieces = this->chunk(name, chunk);
  if (pieces == nullptr) return nullptr;
  const auto found = std::find_if(pieces->begin(), pieces->end(),
                                  [&](const Entry& entry) { return entry.tag == tag; });
  return found == pieces->end() ? nullptr : found->piece;
}

Piece* FileTable::find_latest(std::string_view name, std::uint64_t chunk, std::uint64_t offset,
                              std::uint64_t length) const {
  const Chunk* const pieces = this->chunk(name, chunk);
  if (pieces == nullptr) return nullptr;
  Piece* best = nullptr;
  for (const auto& [tag, piece] : *pieces) {
    if (piece->state() != PieceState::live || piece->offset() > offset || piece->length() < length)
      continue;
    if (offset - piece->offset() > piece->length() - length) continue;
    if (best == nullptr || piece->seq() > best->seq()) best = piece;
  }
  return best;
}

const FileTable::Chunk* FileTable::chunk(std::string_view name, std::uint64_t chunk) const {
  const auto file = files_.find(name);
  if (file == files_.end()) return nullptr;
  const auto found = file->second.find(chunk);
  return found == file->second.end() ? nullptr : &found->second;
}

std::vector<Piece*> FileTable::covered_by(const Piece& fresh) const {
  const Chunk* const pieces = this->chunk(fresh.name(), fresh.chunk());
  GD2FS_ASSERT(pieces != nullptr);
  std::vector<Piece*> live, covered;
  bool is_touched = false;
  for (const auto& [tag, piece] : *pieces) {
    if (piece->state() != PieceState::live) continue;
    live.push_back(piece);
    is_touched = is_touched || (piece != &fresh && touch(*piece, fresh));
  }
  // An append: what it does not touch is covered as little as before.
  if (!is_touched) return covered;
  std::sort(live.begin(), live.end(),
            [](const Piece* a, const Piece* b) { return a->seq() > b->seq(); });
  Cover newer;
  for (std::size_t i = 0, same = 0; i < live.size(); ++i) {
    // Only a higher seq covers: those of one seq are one write, and lie side by side.
    for (; live[same]->seq() > live[i]->seq(); ++same) {
      newer.add(live[same]->offset(), end_of(*live[same]));
    }
    if (newer.has(live[i]->offset(), end_of(*live[i]))) covered.push_back(live[i]);
  }
  return covered;
}

std::vector<Piece*> FileTable::some_of(std::string_view name, std::size_t count_max) const {
  std::vector<Piece*> some;
  const auto file = files_.find(name);
  if (file == files_.end()) return some;
  for (const auto& [chunk, pieces] : file->second) {
    for (const auto& [tag, piece] : pieces) {
      if (some.size() == count_max) return some;
      some.push_back(piece);
    }
  }
  return some;
}

const std::string* FileTable::next_name(std::string_view after) const {
  const auto next = files_.upper_bound(after);
  return next == files_.end() ? nullptr : &next->first;
}

void FileTable::add(Piece& piece) {
  auto file = files_.find(piece.name());
  if (file == files_.end()) file = files_.emplace(piece.name(), File{}).first;
  file->second[piece.chunk()].push_back({piece.tag(), &piece});
}

void FileTable::remove(Piece& piece) {
  const auto file = files_.find(piece.name());
  GD2FS_ASSERT(file != files_.end());
  const auto chunk = file->second.find(piece.chunk());
  GD2FS_ASSERT(chunk != file->second.end());
  const auto at = std::find_if(chunk->second.begin(), chunk->second.end(),
                               [&](const Entry& entry) { return entry.piece == &piece; });
  GD2FS_ASSERT(at != chunk->second.end());
  *at = chunk->second.back();
  chunk->second.pop_back();
  if (chunk->second.empty()) file->second.erase(chunk);
  if (file->second.empty()) files_.erase(file);
}

}  // namespace gd2fs
