// Raw line: the caller's end of a RawServer's bulk transfers, over several connections at once.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "crew.h"
#include "raw_socket.h"

namespace gd2fs::bench {

class RawLine {
 public:
  static Result<std::unique_ptr<RawLine>> connect(const std::string& address, std::size_t streams);

  /// False when the server is gone. Less than SHARED_BYTES_MIN goes over one stream.
  bool read(std::span<std::byte> into, bool is_spliced);
  bool write(std::span<const std::byte> from);

 private:
  static constexpr std::size_t SHARED_BYTES_MIN = 512 * KiB;

  explicit RawLine(std::vector<tcp::Descriptor> sockets)
      : sockets_(std::move(sockets)), crew_(sockets_.size()) {}
  template <class Move>
  bool share(std::size_t bytes, RawWork work, const Move& move);

  std::vector<tcp::Descriptor> sockets_;
  Crew crew_;
};

}  // namespace gd2fs::bench
