#include "raw_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace gd2fs::bench {

namespace {

constexpr std::size_t LINES_MAX = 256;  // bulk connections at a time
constexpr unsigned PATTERN_STEP = 2'654'435'761u;

void touch(std::span<std::byte> memory) {
  for (std::size_t at = 0; at + 8 <= memory.size(); at += 8) {
    const std::uint64_t word = at * PATTERN_STEP;
    std::memcpy(memory.data() + at, &word, sizeof word);
  }
}

/// Lends a page to a socket and reads it at the other end.
bool try_vmsplice(std::span<const std::byte> memory) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
  const tcp::Descriptor left(ends[0]), right(ends[1]);
  Splicer splicer;
  std::byte got[4 * KiB];
  return splicer.is_usable() && splicer.send_all(left.get(), memory.data(), sizeof got) &&
         receive_all(right.get(), got, sizeof got) &&
         std::memcmp(got, memory.data(), sizeof got) == 0;
}

}  // namespace

Result<std::unique_ptr<RawServer>> RawServer::start(const ArenaOptions& memory) {
  auto arena = Arena::open(memory);
  if (!arena) return arena.error();
  touch(arena->memory());
  std::unique_ptr<RawServer> server(new RawServer(std::move(*arena)));
  server->can_vmsplice_ = try_vmsplice(server->arena_.memory());
  auto listening = server->listen();
  if (!listening) return listening.error();
  server->acceptor_ = std::thread([raw = server.get()] { raw->accept_all(); });
  return server;
}

Result<bool> RawServer::listen() {
  auto bare = BareLoop::start(arena_.memory());
  if (!bare) return bare.error();
  bare_ = std::move(*bare);
  unix_address_ = "@gd2fs-raw-" + std::to_string(getpid());
  for (const auto& [text, into] :
       {std::pair{std::string("127.0.0.1:0"), &tcp_}, std::pair{unix_address_, &unix_}}) {
    auto address = raw_address(text);
    if (!address) return address.error();
    auto socket = tcp::listen_at(*address);
    if (!socket) return socket.error();
    *into = std::move(*socket);
  }
  tcp_address_ = tcp::address_text(tcp::local_address(tcp_.get()));
  stop_ = tcp::Descriptor(eventfd(0, EFD_CLOEXEC));
  return true;
}

RawServer::~RawServer() {
  if (!acceptor_.joinable()) return;
  const std::uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof one) != sizeof one) std::abort();
  acceptor_.join();
  for (Line& line : lines_) shutdown(line.socket.get(), SHUT_RDWR);
  for (Line& line : lines_) line.thread.join();
}

void RawServer::accept_all() {
  while (lines_.size() < LINES_MAX) {
    pollfd watched[] = {
        {tcp_.get(), POLLIN, 0}, {unix_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (poll(watched, 3, -1) < 0) continue;
    if (watched[2].revents != 0) return;
    for (int at = 0; at < 2; ++at) {
      if ((watched[at].revents & POLLIN) == 0) continue;
      tcp::Address peer;
      tcp::Descriptor socket = tcp::accept_from(watched[at].fd, peer);
      if (!socket || !make_blocking(socket.get())) continue;
      lines_.push_back({std::move(socket), {}});
      Line& line = lines_.back();
      line.thread = std::thread([this, fd = line.socket.get()] { serve(fd); });
    }
  }
}

void RawServer::serve(int fd) const {
  Splicer splicer;
  RawOrder order;
  pollfd waiting{fd, POLLIN, 0};
  while (poll(&waiting, 1, -1) == 1 &&
         // An order is plain numbers, from a process of the same program.
         receive_all(fd, reinterpret_cast<std::byte*>(&order), sizeof order) &&
         obey(order, fd, splicer)) {
  }
}

bool RawServer::obey(const RawOrder& order, int fd, Splicer& splicer) const {
  const std::span<std::byte> memory = arena_.memory();
  for (std::uint64_t done = 0; done < order.bytes;) {
    const std::uint64_t from = (order.at + done) % memory.size();
    const std::uint64_t bytes = std::min(order.bytes - done, memory.size() - from);
    std::byte* at = memory.data() + from;
    const bool is_moved = order.work == RawWork::send       ? send_all(fd, at, bytes)
                          : order.work == RawWork::vmsplice ? splicer.send_all(fd, at, bytes)
                                                            : receive_all(fd, at, bytes);
    if (!is_moved) return false;
    done += bytes;
  }
  if (order.work != RawWork::receive) return true;
  const std::byte taken{1};
  return send_all(fd, &taken, 1);
}

}  // namespace gd2fs::bench
