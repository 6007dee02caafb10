#include "bare_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "../checksum.h"

namespace gd2fs::bench {

namespace {

constexpr std::size_t FRAME_KEY_BYTES_MAX = BARE_KEYS_MAX * BARE_KEY_BYTES_MAX;
constexpr std::size_t IN_BYTES = 256 * KiB;
constexpr int EVENTS_MAX = 64;

std::string key_at(const std::byte* keys, const BareHeader& header, std::size_t index) {
  const std::byte* at = keys + index * header.key_bytes;
  return {reinterpret_cast<const char*>(at), header.key_bytes};  // bytes as text
}

bool is_sane(const BareHeader& header) {
  return header.count >= 1 && header.count <= BARE_KEYS_MAX && header.key_bytes >= 1 &&
         header.key_bytes <= BARE_KEY_BYTES_MAX && header.item_bytes <= MiB;
}

}  // namespace

struct BareLoop::Line {
  tcp::Descriptor socket;
  std::vector<std::byte> in;
  std::size_t in_bytes = 0;
  std::vector<iovec> out;
  std::size_t out_at = 0;                      // the first of `out` not yet sent
  bool is_full = false;                        // the socket's queue: room is waited for
  std::deque<std::vector<std::byte>> answers;  // `out` points into them
};

BareLoop::BareLoop(std::span<const std::byte> memory) : memory_(memory) {}

Result<std::unique_ptr<BareLoop>> BareLoop::start(std::span<const std::byte> memory) {
  std::unique_ptr<BareLoop> loop(new BareLoop(memory));
  auto listening = loop->listen();
  if (!listening) return listening.error();
  loop->thread_ = std::thread([bare = loop.get()] { bare->loop(); });
  return loop;
}

Result<bool> BareLoop::listen() {
  epoll_ = tcp::Descriptor(epoll_create1(EPOLL_CLOEXEC));
  stop_ = tcp::Descriptor(eventfd(0, EFD_CLOEXEC));
  unix_address_ = "@gd2fs-bare-" + std::to_string(getpid());
  for (const auto& [text, into] :
       {std::pair{std::string("127.0.0.1:0"), &tcp_}, std::pair{unix_address_, &unix_}}) {
    auto address = raw_address(text);
    if (!address) return address.error();
    auto socket = tcp::listen_at(*address);
    if (!socket) return socket.error();
    *into = std::move(*socket);
    watch(into->get(), EPOLLIN, true);
  }
  watch(stop_.get(), EPOLLIN, true);
  tcp_address_ = tcp::address_text(tcp::local_address(tcp_.get()));
  return true;
}

BareLoop::~BareLoop() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof one) != sizeof one) std::abort();
  thread_.join();
}

void BareLoop::watch(int fd, std::uint32_t events, bool is_new) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  epoll_ctl(epoll_.get(), is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event);
}

void BareLoop::loop() {
  std::array<epoll_event, EVENTS_MAX> events;
  while (true) {
    const int ready = epoll_wait(epoll_.get(), events.data(), EVENTS_MAX, -1);
    for (int at = 0; at < ready; ++at) {
      const int fd = events[static_cast<std::size_t>(at)].data.fd;
      if (fd == stop_.get()) return;
      if (fd == tcp_.get() || fd == unix_.get()) {
        accept_from(fd);
      } else if (!is_served(*lines_.at(fd))) {
        lines_.erase(fd);
      }
    }
  }
}

void BareLoop::accept_from(int listener) {
  tcp::Address peer;
  tcp::Descriptor socket = tcp::accept_from(listener, peer);
  if (!socket) return;
  const int fd = socket.get();
  auto line = std::make_unique<Line>();
  line->socket = std::move(socket);
  line->in.resize(std::max(IN_BYTES, sizeof(BareHeader) + FRAME_KEY_BYTES_MAX));
  lines_[fd] = std::move(line);
  watch(fd, EPOLLIN, true);
}

bool BareLoop::is_served(Line& line) {
  const ssize_t received =
      recv(line.socket.get(), line.in.data() + line.in_bytes, line.in.size() - line.in_bytes, 0);
  if (received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR)) return false;
  if (received > 0) line.in_bytes += static_cast<std::size_t>(received);
  return take_frames(line) && flush(line);
}

bool BareLoop::take_frames(Line& line) {
  std::size_t at = 0;
  while (line.in_bytes - at >= sizeof(BareHeader)) {
    BareHeader header;
    std::memcpy(&header, line.in.data() + at, sizeof header);
    if (!is_sane(header)) return false;
    const std::size_t bytes = sizeof header + std::size_t{header.count} * header.key_bytes;
    if (line.in_bytes - at < bytes) break;
    if (!answer(line, header, line.in.data() + at + sizeof header)) return false;
    at += bytes;
  }
  std::memmove(line.in.data(), line.in.data() + at, line.in_bytes - at);
  line.in_bytes -= at;
  return true;
}

bool BareLoop::answer(Line& line, const BareHeader& header, const std::byte* keys) {
  std::vector<std::byte>& out = line.answers.emplace_back(sizeof header);
  std::memcpy(out.data(), &header, sizeof header);
  if (header.op == BareOp::get) return get(line, header, keys, out);
  if (header.op == BareOp::fill) fill(header, keys);
  if (header.op == BareOp::exists) {
    for (std::size_t index = 0; index < header.count; ++index)
      out.push_back(std::byte{items_.count(key_at(keys, header, index)) != 0});
  }
  line.out.push_back({out.data(), out.size()});
  return true;
}

void BareLoop::fill(const BareHeader& header, const std::byte* keys) {
  items_.clear();
  const std::size_t room = memory_.size() / std::max(header.item_bytes, 1u);
  for (std::size_t index = 0; index < header.count; ++index) {
    const auto item = memory_.subspan(index % room * header.item_bytes, header.item_bytes);
    items_[key_at(keys, header, index)] = {item.data(), checksum(item)};
  }
}

bool BareLoop::get(Line& line, const BareHeader& header, const std::byte* keys,
                   std::vector<std::byte>& out) {
  out.resize(sizeof header + header.count * sizeof(std::uint64_t));
  line.out.push_back({out.data(), out.size()});
  for (std::size_t index = 0; index < header.count; ++index) {
    const auto found = items_.find(key_at(keys, header, index));
    if (found == items_.end()) return false;
    const Item& item = found->second;
    std::memcpy(out.data() + sizeof header + index * sizeof item.hash, &item.hash,
                sizeof item.hash);
    // writev only reads through this pointer.
    line.out.push_back({const_cast<std::byte*>(item.at), header.item_bytes});
  }
  return true;
}

bool BareLoop::flush(Line& line) {
  while (line.out_at < line.out.size()) {
    const auto count = static_cast<int>(
        std::min<std::size_t>(line.out.size() - line.out_at, static_cast<std::size_t>(IOV_MAX)));
    ssize_t sent = writev(line.socket.get(), line.out.data() + line.out_at, count);
    if (sent < 0 && errno == EAGAIN) {
      if (!line.is_full) watch(line.socket.get(), EPOLLIN | EPOLLOUT, false);
      line.is_full = true;
      return true;
    }
    if (sent < 0) return false;
    for (; sent > 0; ++line.out_at) {
      iovec& piece = line.out[line.out_at];
      const auto part = std::min(piece.iov_len, static_cast<std::size_t>(sent));
      piece.iov_base = static_cast<std::byte*>(piece.iov_base) + part;
      piece.iov_len -= part;
      sent -= static_cast<ssize_t>(part);
      if (piece.iov_len != 0) break;
    }
  }
  line.out.clear();
  line.out_at = 0;
  line.answers.clear();
  if (line.is_full) watch(line.socket.get(), EPOLLIN, false);
  line.is_full = false;
  return true;
}

// ---- the caller's end ----------------------------------------------------------------

Result<std::unique_ptr<BareLine>> BareLine::connect(const std::string& address) {
  auto socket = raw_connect(address);
  if (!socket) return socket.error();
  return std::unique_ptr<BareLine>(new BareLine(std::move(*socket)));
}

bool BareLine::ask(BareOp op) {
  header_.op = op;
  std::memcpy(frame_.data(), &header_, sizeof header_);
  return send_all(socket_.get(), frame_.data(), frame_.size());
}

bool BareLine::fill(std::span<const std::byte> keys, std::uint32_t count,
                    std::uint32_t item_bytes) {
  header_ = {BareOp::fill, count, count == 0 ? 0 : static_cast<std::uint32_t>(keys.size() / count),
             item_bytes};
  if (!is_sane(header_) || keys.size() != std::size_t{count} * header_.key_bytes) return false;
  frame_.resize(sizeof header_ + keys.size());
  std::memcpy(frame_.data() + sizeof header_, keys.data(), keys.size());
  table_.resize(sizeof header_);
  return ask(BareOp::fill) && receive_all(socket_.get(), table_.data(), table_.size());
}

bool BareLine::get(std::span<std::byte> into, std::size_t batches, std::size_t depth,
                   bool is_verifying) {
  const std::size_t bytes = std::size_t{header_.count} * header_.item_bytes;
  if (into.size() < depth * bytes || depth == 0) return false;
  std::size_t asked = 0;
  for (std::size_t taken = 0; taken < batches; ++taken) {
    for (; asked < batches && asked < taken + depth; ++asked)
      if (!ask(BareOp::get)) return false;
    if (!take(into.subspan(taken % depth * bytes, bytes), is_verifying)) return false;
  }
  return true;
}

bool BareLine::take(std::span<std::byte> into, bool is_verifying) {
  table_.resize(sizeof header_ + header_.count * sizeof(std::uint64_t));
  if (!receive_all(socket_.get(), table_.data(), table_.size())) return false;
  if (!receive_all(socket_.get(), into.data(), into.size())) return false;
  for (std::size_t index = 0; is_verifying && index < header_.count; ++index) {
    std::uint64_t hash;
    std::memcpy(&hash, table_.data() + sizeof header_ + index * sizeof hash, sizeof hash);
    if (checksum(into.subspan(index * header_.item_bytes, header_.item_bytes)) != hash)
      return false;
  }
  return true;
}

bool BareLine::exists(std::size_t batches) {
  table_.resize(sizeof header_ + header_.count);
  for (std::size_t batch = 0; batch < batches; ++batch) {
    if (!ask(BareOp::exists)) return false;
    if (!receive_all(socket_.get(), table_.data(), table_.size())) return false;
  }
  return true;
}

}  // namespace gd2fs::bench
