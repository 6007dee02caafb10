// File read: one snapshot of the record, then its segments by tag from the nodes that own them.
#pragma once

#include <map>
#include <optional>

#include "record_call.h"
#include "replicas.h"

namespace gd2fs {

struct ReadSpec {
  std::string path;
  std::uint64_t offset = 0;
  std::vector<Buffer> into;
};

class FileRead : public RecordCall {
 public:
  /// ok: value = bytes, short at the end of the file; `file` = the snapshot that was read.
  FileRead(CallContext context, ReadSpec spec, OnEnd on_end);
  void run() { ask_record(spec_.offset); }

 private:
  /// A run of the file that one item of a READ brings.
  struct Part {
    std::uint64_t at = 0;  // in the file
    std::uint64_t length = 0;
    std::uint64_t tag = 0;
    std::size_t rank = 0;  // of whom it is asked, in the order of its chunk
  };
  /// Who has been asked for a part.
  struct Tried {
    RankMask asked = 0;
    std::size_t misses = 0;
  };
  /// The request that is being filled for one node.
  struct Open {
    Cutter cutter;
    std::size_t request = 0;  // of the requests of this round
  };

  std::shared_ptr<FileRead> self() {
    return std::static_pointer_cast<FileRead>(shared_from_this());
  }
  void ask_record(std::uint64_t from);
  void take_record(std::uint64_t from);
  bool are_segments_sound() const;
  void fetch();
  void look_at_map();
  void add_segment(const wire::Segment& segment, BufferCursor& cursor, std::uint64_t& at);
  void add_part(const wire::Segment& segment, Part part, BufferCursor& cursor);
  void fill_zero(BufferCursor& cursor, std::uint64_t bytes);
  bool is_had(const Part& part) const;
  Sent& request_to(std::uint32_t owner, const Part& part);
  void take_part(const Part& part, const Rpc& rpc, std::size_t item, std::size_t node);
  void no_news();
  void collect();
  void another_round();
  std::string what() const;

  const ReadSpec spec_;
  const std::uint64_t bytes_;
  std::uint64_t end_ = 0;  // of what is read, in the file
  FileFacts facts_;
  std::vector<wire::Segment> segments_;
  std::map<std::uint64_t, Part> done_;  // by place in the file
  std::uint64_t share_bytes_ = 0;       // of one request
  std::vector<Sent> requests_;
  std::vector<std::vector<Part>> parts_;  // beside requests_: what each item brings
  std::map<std::size_t, Open> open_;      // by node
  std::size_t rounds_ = 0;
  RoutesRef routes_;  // of these
  std::size_t replicas_ = 1;
  Reach reach_;
  std::optional<Choice> choice_;
  std::map<std::uint64_t, Tried> tried_;  // by place in the file; of this look at the record
  bool is_unfilled_ = false;              // a GPU did not take zeros
  bool is_stuck_ = false;                 // nobody is left to ask for some part
  bool is_told_to_wait_ = false;
  std::optional<std::size_t> lost_;  // a node that could not be reached
};

}  // namespace gd2fs
