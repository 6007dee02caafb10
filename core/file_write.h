// File write: pieces under a new tag to the nodes that own their chunks, each to as many as the
// file has copies; then one COMMIT at home that makes them all visible at once, and PUBLISH, with
// which their owners keep them.
#pragma once

#include <map>
#include <optional>

#include "record_call.h"
#include "replicas.h"
#include "staged.h"

namespace gd2fs {

struct WriteSpec {
  std::string path;
  std::uint64_t offset = 0;
  std::vector<Buffer> from;
  bool is_append = false;             // at the end, wherever that is; `offset` is not used
  bool is_replace = false;            // the file becomes just this, whether it was there or not
  std::optional<FileFacts> snapshot;  // only if nothing under it has changed since
};

class FileWrite : public RecordCall {
 public:
  /// ok: value = bytes, or the place where an append was put.
  FileWrite(CallContext context, WriteSpec spec, OnEnd on_end);
  void run();
  bool is_change() const override { return true; }

 private:
  /// What goes to one chunk.
  struct Piece {
    std::uint64_t chunk = 0;
    std::uint64_t offset = 0;  // in the chunk
    std::uint64_t length = 0;
    BufferCursor memory;
    RankMask asked = 0;       // of its chunk's order: who need not be asked (again)
    std::size_t copies = 0;   // that are staged
    std::size_t refused = 0;  // owners that take none, while others do
    std::uint8_t corrupt_count = 0;
  };
  /// One piece to one of its owners.
  struct Copy {
    std::size_t piece = 0;
    std::size_t rank = 0;  // in the order of its chunk
    std::size_t node = 0;
    bool is_short = false;  // an owner of the piece was passed over
  };
  /// The request that is being filled for one node.
  struct Open {
    Cutter cutter;
    std::size_t request = 0;
  };
  struct Fault {
    Status status = Status::ok;
    std::size_t node = 0;
  };

  static constexpr std::size_t COMMITS_MAX = 8;

  std::shared_ptr<FileWrite> self() {
    return std::static_pointer_cast<FileWrite>(shared_from_this());
  }
  void ask_record(std::uint64_t offset, std::uint64_t length, void (FileWrite::*then)());
  bool take_facts();
  void take_base();
  bool may_begin_anew();
  void give_up(Status status, std::size_t node);
  void fail_write(Status status, std::size_t node);
  void begin_pieces();
  void nothing_to_write();
  void stage();
  std::vector<Copy> copies_to_make();
  bool is_staged(const Piece& piece) const;
  void add_offers(std::span<const Copy> copies, std::vector<Sent>& requests);
  void add_offer(const Copy& copy, Sent& request) const;
  void collect_staged();
  Fault take_staged(const Copy& copy, Status status);
  void commit();
  void take_commit();
  void take_committed(std::uint64_t seq, std::uint64_t gen);
  void conflicted();
  void look_for_own_tag();
  void take_look();
  void publish();
  void take_published();
  void stage_missing();
  void written();
  void forget();

  // A chunk with too many segments is read, and written again as one piece: file_write_merge.cc.
  void merge_next_chunk();
  void take_chunk_record();
  void read_chunk(std::uint64_t bytes);
  void rewrite_chunk(const Outcome& read);

  std::string what() const;

  const WriteSpec spec_;
  const std::uint64_t bytes_;
  std::uint64_t offset_;
  FileFacts facts_;
  std::uint64_t gen_ = 0;    // of the file that this write began with
  wire::ResponseItem base_;  // of a put: what home said of the path, which it takes the place of
  std::uint64_t tag_ = 0;
  std::vector<Piece> pieces_;
  std::vector<std::vector<Copy>> offered_;  // beside sent(): what each request is about
  std::vector<Copy> staged_;
  std::set<StagedCopy> tried_;  // all that were offered under this tag, whatever came of it
  RoutesRef routes_;            // by which the owners of the pieces are chosen
  std::size_t replicas_ = 1;
  Fault lost_;     // an owner that could not be reached, or has no room
  Fault refusal_;  // of a piece that nobody has
  std::size_t begins_ = 0;
  std::size_t commits_ = 0;
  bool is_unsure_ = false;      // a COMMIT was sent, and is not known to be whole
  bool may_be_listed_ = false;  // this tag, by a COMMIT that has not been refused
  std::uint64_t seq_ = 0;       // of the COMMIT, once it is known to be applied
  std::size_t publishes_ = 0;
  std::uint64_t merging_ = 0;  // the chunk that is looked at, as long as there are merges
  std::size_t merges_ = 0;
  std::vector<std::byte> merged_;
};

}  // namespace gd2fs
