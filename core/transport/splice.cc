#include "splice.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gd2fs {
namespace {

constexpr int PIPE_BYTES = static_cast<int>(1 * MiB);
constexpr int PIPE_BYTES_MIN = static_cast<int>(256 * KiB);
constexpr std::size_t RUNS_MAX = 1024;  // the kernel takes no more at once
constexpr std::size_t PROBE_BYTES = 4 * KiB;
constexpr int PROBE_MS = 1'000;

struct SocketPair {
  tcp::Descriptor writer, reader;
};

/// Two ends of a TCP connection over loopback, or of a Unix socket where there is no loopback.
SocketPair socket_pair() {
  tcp::Address loopback;
  auto* four = reinterpret_cast<sockaddr_in*>(&loopback.storage);  // as its family says
  four->sin_family = AF_INET;
  four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  loopback.bytes = sizeof *four;
  SocketPair pair;
  if (auto listener = tcp::listen_at(loopback)) {
    auto writer = tcp::connect_within(tcp::local_address(listener->get()), nullptr, PROBE_MS);
    tcp::Address peer;
    if (writer) pair = {std::move(*writer), tcp::accept_from(listener->get(), peer)};
  }
  if (pair.reader) return pair;
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return {};
  return {tcp::Descriptor(ends[0]), tcp::Descriptor(ends[1])};
}

bool receive_all(int fd, std::span<std::byte> into) {
  while (!into.empty()) {
    pollfd waiting{fd, POLLIN, 0};
    if (poll(&waiting, 1, PROBE_MS) != 1) return false;
    const ssize_t got = recv(fd, into.data(), into.size(), MSG_DONTWAIT);
    if (got <= 0) return false;
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

}  // namespace

std::unique_ptr<Pipe> Pipe::open() {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return nullptr;
  std::unique_ptr<Pipe> pipe(new Pipe);
  pipe->out_ = tcp::Descriptor(ends[0]);
  pipe->in_ = tcp::Descriptor(ends[1]);
  fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES);  // refused over the user's limit: what counts is next
  if (fcntl(ends[1], F_GETPIPE_SZ) < PIPE_BYTES_MIN) return nullptr;
  return pipe;
}

ssize_t Pipe::fill(std::span<const iovec> runs) {
  const std::size_t count = std::min(runs.size(), RUNS_MAX);
  const ssize_t taken = vmsplice(in_.get(), runs.data(), count, SPLICE_F_NONBLOCK);
  if (taken > 0) filled_ += static_cast<std::size_t>(taken);
  return taken;
}

ssize_t Pipe::drain(int socket, bool is_more) {
  const unsigned flags = SPLICE_F_NONBLOCK | SPLICE_F_MOVE | (is_more ? SPLICE_F_MORE : 0u);
  const ssize_t moved = splice(out_.get(), nullptr, socket, nullptr, filled_, flags);
  if (moved > 0) filled_ -= static_cast<std::size_t>(moved);
  return moved;
}

std::unique_ptr<Pipe> PipePool::take() {
  const std::lock_guard lock(mutex_);
  if (!idle_.empty()) {
    std::unique_ptr<Pipe> pipe = std::move(idle_.back());
    idle_.pop_back();
    return pipe;
  }
  if (count_ == PIPES_MAX) return nullptr;
  std::unique_ptr<Pipe> pipe = Pipe::open();
  if (pipe != nullptr) ++count_;
  return pipe;
}

void PipePool::give(std::unique_ptr<Pipe> pipe) {
  const std::lock_guard lock(mutex_);
  if (pipe->filled() == 0) {
    idle_.push_back(std::move(pipe));
  } else {
    --count_;
  }
}

std::string splice_fault(std::span<std::byte> memory) {
  const std::span<std::byte> probe = memory.first(PROBE_BYTES);
  std::fill(probe.begin(), probe.end(), std::byte{1});
  const auto pipe = Pipe::open();
  if (pipe == nullptr) return "the system gives no pipe of 256 KiB";
  const SocketPair pair = socket_pair();
  if (!pair.reader) return "no socket to try it with";
  const iovec run{probe.data(), probe.size()};
  if (pipe->fill(std::span(&run, 1)) != static_cast<ssize_t>(PROBE_BYTES)) {
    return std::string("vmsplice is refused: ") + std::strerror(errno);
  }
  while (pipe->filled() > 0) {
    if (pipe->drain(pair.writer.get(), false) <= 0) {
      return std::string("splice is refused: ") + std::strerror(errno);
    }
  }
  std::fill(probe.begin(), probe.end(), std::byte{2});
  std::vector<std::byte> seen(PROBE_BYTES);
  if (!receive_all(pair.reader.get(), seen)) return "spliced bytes do not arrive";
  return seen.front() == std::byte{2} ? "" : "the kernel copies what is spliced";
}

}  // namespace gd2fs
