// Peer line: a stream from this node to another one, for a thread that may wait. One question at a
// time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "node.h"
#include "transport/tcp.h"

namespace gd2fs::serve {

class PeerLine {
 public:
  explicit PeerLine(tcp::Descriptor socket) : socket_(std::move(socket)) {}
  /// Connects to one of the node's addresses and greets it. Nothing: it did not answer in time, or
  /// refused.
  static std::unique_ptr<PeerLine> open(const Node& self, const wire::MapNode& peer,
                                        std::int64_t deadline_ms);
  /// Asks for one item. Nothing: no answer in time; the line is of no further use then.
  std::optional<wire::ResponseItem> ask(const wire::Request& request, std::int64_t deadline_ms);

 private:
  bool greet(const Node& self, std::int64_t deadline_ms);
  bool send(const wire::Bytes& bytes, std::int64_t deadline_ms);
  bool receive(std::span<std::byte> into, std::int64_t deadline_ms);
  /// The next frame without payload; its table is in `table_`.
  std::optional<wire::Header> receive_frame(std::int64_t deadline_ms);

  tcp::Descriptor socket_;
  wire::Bytes table_;
  std::uint64_t last_request_ = 0;
};

}  // namespace gd2fs::serve
