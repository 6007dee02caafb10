// Fake node: answers on a Unix socket as a node would, up to what it is told to do wrong.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "local_cluster.h"
#include "transport/unix.h"

namespace gd2fs {

class FakeNode {
 public:
  /// What it does once a request has come. `fd`: the stream.
  using Answer = std::function<void(int fd, const wire::Header& request, const wire::Request&)>;

  FakeNode(const wire::MapNode& entry, const wire::Map& map, Arena& arena, Answer answer)
      : id_(entry.id), map_(map), arena_(arena), answer_(std::move(answer)) {
    auto listener = local::listen_at(local::socket_name("test", map.list_hash, entry.addresses));
    REQUIRE(listener);
    listener_ = std::move(*listener);
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeNode() {
    is_over_ = true;
    thread_.join();
  }

  static void say(int fd, wire::View bytes, int descriptor = -1) {
    const iovec run{const_cast<std::byte*>(bytes.data()), bytes.size()};  // sendmsg only reads it
    static_cast<void>(!local::send_with(fd, &run, 1, descriptor));
  }

  std::atomic<bool> gives_arena{true};
  std::atomic<int> requests{0};

 private:
  struct Frame {
    wire::Header header;
    wire::Bytes table;
  };

  bool waits_for(int fd) {
    pollfd watched{fd, POLLIN, 0};
    while (!is_over_)
      if (poll(&watched, 1, 20) == 1) return true;
    return false;
  }

  std::optional<wire::Bytes> hear_bytes(int fd, std::size_t bytes) {
    wire::Bytes out(bytes);
    for (std::size_t at = 0; at < bytes;) {
      if (!waits_for(fd)) return {};
      const ssize_t got = recv(fd, out.data() + at, bytes - at, 0);
      if (got <= 0) return {};
      at += static_cast<std::size_t>(got);
    }
    return out;
  }

  std::optional<Frame> hear(int fd) {
    const auto head = hear_bytes(fd, HEADER_BYTES);
    const auto header = head ? wire::decode_header(*head) : std::nullopt;
    if (!header) return {};
    auto table = hear_bytes(fd, header->table_bytes);
    if (!table) return {};
    return Frame{*header, std::move(*table)};
  }

  void serve() {
    while (waits_for(listener_.get())) {
      tcp::Address peer;
      const tcp::Descriptor stream = tcp::accept_from(listener_.get(), peer);
      if (stream) converse(stream.get());
    }
  }

  void converse(int fd) {
    if (!hear(fd)) return;
    wire::Challenge challenge;
    challenge.node_id = id_;
    challenge.capabilities = wire::SHM | wire::VIEW;
    challenge.hold_bytes_max = 1 * MiB;
    wire::Bytes out;
    wire::encode_challenge(out, challenge);
    say(fd, out);
    if (!hear(fd)) return;
    out.clear();
    wire::encode_welcome(out, wire::Welcome{});
    wire::encode_map(out, 0, map_);
    say(fd, out);
    out.clear();
    wire::encode_arena(out, arena_.bytes());
    if (gives_arena) say(fd, out, arena_.descriptor());
    while (auto frame = hear(fd)) {
      if (frame->header.kind != wire::Kind::request) continue;
      const auto request = wire::decode_request(frame->table, frame->header.items);
      if (!request) return;
      ++requests;
      if (request->head.op == wire::Op::get) answer_(fd, frame->header, *request);
    }
  }

  const std::array<std::byte, 16> id_;
  const wire::Map map_;
  Arena& arena_;
  const Answer answer_;
  tcp::Descriptor listener_;
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

}  // namespace gd2fs
