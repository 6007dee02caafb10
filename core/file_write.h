// File write: pieces under a new tag to the nodes that own their chunks, then one COMMIT at home
// that makes them all visible at once, and PUBLISH, with which their owners keep them.
#pragma once

#include <optional>

#include "call.h"

namespace gd2fs {

struct WriteSpec {
  std::string path;
  std::uint64_t offset = 0;
  std::vector<Buffer> from;
  bool is_append = false;             // at the end, wherever that is; `offset` is not used
  bool is_replace = false;            // the file becomes just this, whether it was there or not
  std::optional<FileFacts> snapshot;  // only if nothing under it has changed since
};

class FileWrite : public Call {
 public:
  /// ok: value = bytes, or the place where an append was put.
  FileWrite(CallContext context, WriteSpec spec, OnEnd on_end);
  void run();

 private:
  /// What goes to one chunk.
  struct Piece {
    std::uint64_t chunk = 0;
    std::uint64_t offset = 0;  // in the chunk
    std::uint64_t length = 0;
    std::size_t node = 0;
    BufferCursor memory;
    bool is_staged = false;
    std::uint8_t corrupt_count = 0;
  };
  struct Fault {
    Status status = Status::ok;
    std::size_t node = 0;
  };

  std::shared_ptr<FileWrite> self() {
    return std::static_pointer_cast<FileWrite>(shared_from_this());
  }
  void ask_record(std::uint64_t offset, std::uint64_t length, void (FileWrite::*then)());
  bool take_facts();
  void give_up(Status status, std::size_t node);
  void begin_pieces();
  void nothing_to_write();
  void stage();
  void add_offers(std::vector<Sent>& requests);
  void collect_staged();
  Fault take_staged(Piece& piece, const Rpc& rpc, std::size_t item, std::size_t node);
  void commit();
  void take_commit();
  void take_committed(std::uint64_t seq, std::uint64_t gen);
  void conflicted();
  void commit_after_conflict();
  void look_for_own_tag();
  void take_look();
  void publish();
  void take_published();
  void stage_missing();
  void written();

  // A chunk with too many segments is read, and written again as one piece.
  void merge_next_chunk();
  void take_chunk_record();
  void read_chunk(std::uint64_t bytes);
  void rewrite_chunk(const Outcome& read);

  std::size_t home() const { return home_of(spec_.path, 0); }
  std::string what() const;

  const WriteSpec spec_;
  const std::uint64_t bytes_;
  std::uint64_t offset_;
  FileFacts facts_;
  std::uint64_t gen_ = 0;  // of the file that this write began with
  std::uint64_t tag_ = 0;
  std::vector<Piece> pieces_;
  std::vector<std::vector<std::size_t>> offered_;  // beside sent(): the pieces of each request
  std::size_t commits_ = 0;
  bool is_unsure_ = false;  // a COMMIT was sent, and is not known to be whole
  std::uint64_t seq_ = 0;   // of the COMMIT, once it is known to be applied
  std::size_t publishes_ = 0;
  std::uint64_t merging_ = 0;  // the chunk that is looked at, as long as there are merges
  std::size_t merges_ = 0;
  std::vector<std::byte> merged_;
};

}  // namespace gd2fs
