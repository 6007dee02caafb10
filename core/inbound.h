// Inbound: the frames that a stream receives. Bodies go straight into the caller's memory and are
// verified there, block by block, while they are in the cache.
#pragma once

#include <sys/uio.h>

#include <optional>
#include <vector>

#include "rpc.h"
#include "transport/channel.h"

namespace gd2fs {

class Inbound {
 public:
  class Receiver {
   public:
    virtual ~Receiver() = default;
    /// A whole frame without payload. False: it broke the protocol, and the stream is over.
    virtual bool take_frame(const wire::Header& header, wire::View table) = 0;
    /// Who waits for bytes of this request: nothing when it was never asked, nullptr when it
    /// has let go of its memory since.
    virtual std::optional<Rpc*> receiver_of(std::uint64_t request) = 0;
  };
  enum class Progress { drained, more, closed, broken };

  Inbound(Receiver& receiver, bool is_verifying);

  /// Receives until nothing is there, or about `bytes_max` were taken.
  Progress receive(Channel& channel, std::size_t bytes_max);

  /// This is a Unix socket: a descriptor may come along with bytes.
  void expect_descriptor() noexcept { is_expecting_descriptor_ = true; }
  /// The last one that came, or an empty one.
  tcp::Descriptor take_descriptor() noexcept { return std::move(descriptor_); }
  /// Payload that did not travel on the socket: it was copied out of the node's arena.
  void count_leased(std::uint64_t bytes, std::uint64_t corrupt_blocks) noexcept;

  void count_corrupt(std::uint64_t blocks) noexcept { corrupt_blocks_ += blocks; }

  /// Bytes were read that no step has looked at yet: the socket does not tell of them again.
  bool has_staged() const noexcept { return begin_ != end_; }
  std::uint64_t consumed() const noexcept { return consumed_; }  // payload bytes of this stream
  /// What `consumed` is, or was, behind the last bytes that came by reference.
  std::uint64_t reference_end() const noexcept { return reference_end_; }
  std::uint64_t corrupt_blocks() const noexcept { return corrupt_blocks_; }

 private:
  enum class Part { header, table, payload };

  Progress step(Channel& channel);
  Progress stage(Channel& channel, std::size_t bytes);
  ssize_t receive_staged(Channel& channel, std::size_t room);
  Progress take_header(Channel& channel);
  Progress take_table(Channel& channel);
  Progress begin_payload();
  Progress take_payload(Channel& channel);
  Progress discard(Channel& channel);
  bool plan(const Rpc& rpc);
  std::size_t take_staged();
  void advance(Rpc& rpc, std::size_t bytes);
  void begin_piece(const Rpc& rpc);
  void verify_ready_blocks(Rpc& rpc);
  wire::View staged() const { return wire::View(staging_).subspan(begin_, end_ - begin_); }

  Receiver& receiver_;
  const bool is_verifying_;
  Part part_ = Part::header;
  wire::Bytes staging_;    // header, table, and what was read beyond
  std::size_t begin_ = 0;  // staging_[begin_, end_) is not used yet
  std::size_t end_ = 0;
  wire::Header header_;
  wire::DataTable pieces_;
  std::size_t piece_ = 0;  // of pieces_: the one being received
  std::size_t piece_done_ = 0;
  std::size_t piece_hashed_ = 0;
  std::size_t hash_ = 0;  // of pieces_.hashes: the next block's
  BufferCursor unhashed_;
  std::size_t payload_left_ = 0;
  std::vector<iovec> runs_;  // where the next bytes go
  std::size_t runs_bytes_ = 0;
  std::uint64_t consumed_ = 0;
  std::uint64_t reference_end_ = 0;
  bool is_expecting_descriptor_ = false;
  tcp::Descriptor descriptor_;
  std::uint64_t corrupt_blocks_ = 0;
};

}  // namespace gd2fs
