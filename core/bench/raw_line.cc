#include "raw_line.h"

#include <algorithm>
#include <atomic>

namespace gd2fs::bench {

namespace {

bool take_receipt(int fd) {
  std::byte taken;
  return receive_all(fd, &taken, 1);
}

}  // namespace

Result<std::unique_ptr<RawLine>> RawLine::connect(const std::string& address, std::size_t streams) {
  std::vector<tcp::Descriptor> sockets;
  for (std::size_t index = 0; index < streams; ++index) {
    auto socket = raw_connect(address);
    if (!socket) return socket.error();
    sockets.push_back(std::move(*socket));
  }
  return std::unique_ptr<RawLine>(new RawLine(std::move(sockets)));
}

template <class Move>
bool RawLine::share(std::size_t bytes, RawWork work, const Move& move) {
  const std::size_t members = bytes < SHARED_BYTES_MIN ? 1 : sockets_.size();
  const std::size_t even = (bytes / members + GRAIN_BYTES - 1) / GRAIN_BYTES * GRAIN_BYTES;
  std::atomic<bool> is_whole{true};
  crew_.run(members, [&](std::size_t index) {
    const std::size_t from = std::min(bytes, index * even);
    const std::size_t end = index + 1 == members ? bytes : std::min(bytes, from + even);
    const RawOrder order{end - from, from, work, 0};
    const int fd = sockets_[index].get();
    const auto* sent = reinterpret_cast<const std::byte*>(&order);  // plain numbers
    if (!send_all(fd, sent, sizeof order) || !move(fd, from, end - from)) is_whole = false;
  });
  return is_whole;
}

bool RawLine::read(std::span<std::byte> into, bool is_spliced) {
  return share(into.size(), is_spliced ? RawWork::vmsplice : RawWork::send,
               [&](int fd, std::size_t at, std::size_t bytes) {
                 return receive_all(fd, into.data() + at, bytes);
               });
}

bool RawLine::write(std::span<const std::byte> from) {
  return share(from.size(), RawWork::receive, [&](int fd, std::size_t at, std::size_t bytes) {
    return send_all(fd, from.data() + at, bytes) && take_receipt(fd);
  });
}

}  // namespace gd2fs::bench
