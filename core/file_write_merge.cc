// What a write does with a chunk of which the record lists as many segments as it may: it reads the
// chunk, and writes it again as one.
#include <algorithm>

#include "file_read.h"
#include "file_write.h"

namespace gd2fs {

namespace {

constexpr std::size_t MERGES_MAX = 8;  // of chunks, for one write
constexpr std::size_t SEGMENTS_MERGE = SEGMENTS_PER_CHUNK_MAX / 2;

}  // namespace

/// One of the chunks has as many segments as a record may list. Merges those that are near it,
/// then commits again.
void FileWrite::merge_next_chunk() {
  if (merges_ == MERGES_MAX || commits_ == COMMITS_MAX) return fail_write(Status::invalid, home());
  if (merging_ > pieces_.back().chunk) return ask_record(0, 0, &FileWrite::commit);
  ask_record(merging_ * facts_.chunk_bytes, facts_.chunk_bytes, &FileWrite::take_chunk_record);
}

void FileWrite::take_chunk_record() {
  const std::uint64_t begin = merging_ * facts_.chunk_bytes;
  const auto& segments = answer().metas.front().segments;
  const auto count = std::count_if(segments.begin(), segments.end(),
                                   [&](const auto& segment) { return segment.chunk == merging_; });
  if (static_cast<std::size_t>(count) < SEGMENTS_MERGE || facts_.size <= begin) {
    ++merging_;
    return merge_next_chunk();
  }
  ++merges_;
  read_chunk(std::min<std::uint64_t>(facts_.chunk_bytes, facts_.size - begin));
}

void FileWrite::read_chunk(std::uint64_t bytes) {
  merged_.resize(static_cast<std::size_t>(bytes));
  ReadSpec spec;
  spec.path = path_;
  spec.offset = merging_ * facts_.chunk_bytes;
  spec.into.push_back({merged_.data(), merged_.size()});
  std::make_shared<FileRead>(context(), std::move(spec), [self = self()](Outcome read) {
    if (read.status == Status::ok && read.file.gen == self->gen_) return self->rewrite_chunk(read);
    self->fail_write(read.status == Status::ok ? Status::gone : read.status, self->home());
  })->run();
}

void FileWrite::rewrite_chunk(const Outcome& read) {
  if (read.value == 0) return merge_next_chunk();  // cut off since
  WriteSpec spec;
  spec.path = path_;
  spec.offset = merging_ * facts_.chunk_bytes;
  spec.from.push_back({merged_.data(), static_cast<std::size_t>(read.value)});
  spec.snapshot = read.file;
  std::make_shared<FileWrite>(context(), std::move(spec), [self = self()](Outcome written) {
    const bool is_again = written.status == Status::ok || written.status == Status::conflict;
    if (is_again) return self->merge_next_chunk();
    self->fail_write(written.status, self->home());
  })->run();
}

}  // namespace gd2fs
