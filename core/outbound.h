// Outbound: the frames that a stream sends. Requests and acknowledgements go before bodies, at the
// borders of frames; a body's frame is summed just before it is sent.
#pragma once

#include <sys/uio.h>

#include <deque>
#include <vector>

#include "rpc.h"
#include "transport/channel.h"

namespace gd2fs {

class Outbound {
 public:
  enum class Progress { drained, blocked, closed };

  explicit Outbound(std::size_t payload_max) : payload_max_(payload_max) {}

  /// Many small pieces of a frame are copied together first: a Unix socket is slow with them.
  void join_small() noexcept { is_joining_ = true; }
  void limit_payload(std::size_t payload_max) noexcept { payload_max_ = payload_max; }
  /// Whole frames without payload are appended here.
  wire::Bytes& control() noexcept { return control_; }
  /// Sends the bodies of these items, in this order. `rpc` stays until `forget`, or all is sent.
  /// `is_named`: only says where they are; the node takes them.
  void upload(std::uint64_t request, Rpc& rpc, std::vector<std::uint16_t> items,
              bool is_named = false);
  /// Lets go of a request's memory: a frame of it that is half sent goes on with zeros, which
  /// its sums then refuse.
  void forget(std::uint64_t request);
  /// `consumed`: payload bytes received so far, told in every frame.
  Progress send(Channel& channel, std::uint64_t consumed);
  bool is_empty() const noexcept;

 private:
  struct Upload {
    std::uint64_t request;
    Rpc* rpc;
    std::vector<std::uint16_t> items;
    bool is_named;
    std::size_t at = 0;  // of items: the one being sent
  };

  bool next_frame(std::uint64_t consumed);
  void build_data(Upload& upload, std::uint64_t consumed);
  void finish_data(std::uint64_t request, std::uint64_t consumed);
  void finish_source(const Upload& upload, std::uint64_t consumed);
  std::size_t add_piece(Body& body, std::uint16_t item, std::size_t room);
  void join_runs();
  void step_over(std::size_t bytes);

  std::size_t payload_max_;
  bool is_joining_ = false;
  wire::Bytes control_;
  std::deque<Upload> uploads_;
  // The frame being sent: what is left of it.
  wire::Bytes head_;
  std::vector<iovec> runs_;
  std::size_t run_ = 0;              // of runs_: the first with bytes left
  std::uint64_t frame_request_ = 0;  // whose bodies runs_ points to; 0: nobody's
  wire::DataTable table_;
  wire::Source source_;  // likewise, of a SOURCE
};

}  // namespace gd2fs
