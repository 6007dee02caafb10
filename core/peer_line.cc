#include "peer_line.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace gd2fs::serve {
namespace {

constexpr int CONNECT_MS = 150;  // to one address

/// The addresses of `NAME=ADDR:PORT[+ADDR:PORT...]`.
std::vector<std::string> addresses_of(const wire::MapNode& node) {
  std::vector<std::string> addresses;
  std::string_view rest = node.addresses;
  rest.remove_prefix(std::min(rest.find('=') + 1, rest.size()));
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('+'), rest.size());
    addresses.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return addresses;
}

int remaining_ms(std::int64_t deadline_ms) {
  return static_cast<int>(std::clamp<std::int64_t>(deadline_ms - boottime_ms(), 0, 60'000));
}

bool wait_for(int fd, short events, std::int64_t deadline_ms) {
  pollfd waiting{fd, events, 0};
  return poll(&waiting, 1, remaining_ms(deadline_ms)) == 1;
}

bool is_try_again() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

tcp::Descriptor connect_to(const std::string& address, std::int64_t deadline_ms,
                           const tcp::SocketSettings& settings) {
  auto target = tcp::parse_host_port(address);
  if (!target) return {};
  auto resolved = tcp::resolve(*target);
  if (!resolved || resolved->empty()) return {};
  const int timeout_ms = std::min(CONNECT_MS, remaining_ms(deadline_ms));
  auto socket = tcp::connect_within(resolved->front(), nullptr, timeout_ms, settings);
  return socket ? std::move(*socket) : tcp::Descriptor{};
}

}  // namespace

std::unique_ptr<PeerLine> PeerLine::open(const Node& self, const wire::MapNode& peer,
                                         std::int64_t deadline_ms) {
  for (const std::string& address : addresses_of(peer)) {
    tcp::Descriptor socket = connect_to(address, deadline_ms, self.options.sockets);
    if (!socket) continue;
    auto line = std::make_unique<PeerLine>(std::move(socket));
    if (line->greet(self, deadline_ms)) return line;
  }
  return nullptr;
}

bool PeerLine::greet(const Node& self, std::int64_t deadline_ms) {
  wire::Hello hello;
  hello.client_id = self.id;
  hello.map_epoch = self.view()->map.epoch;
  hello.list_hash = self.options.map.list_hash;
  hello.stream_class = wire::StreamClass::node;
  hello.cluster = self.options.cluster;
  // 16 bytes come whole or not at all; no token hangs on them.
  static_cast<void>(!getrandom(hello.nonce.data(), hello.nonce.size(), 0));
  wire::Bytes out;
  wire::encode_hello(out, hello);
  wire::encode_proof(out, wire::Proof{});  // without a token it does not depend on the CHALLENGE
  if (!send(out, deadline_ms)) return false;
  const auto challenge = receive_frame(deadline_ms);
  if (!challenge || challenge->kind != wire::Kind::challenge) return false;
  const auto welcome = receive_frame(deadline_ms);
  return welcome && welcome->kind == wire::Kind::welcome;
}

std::optional<wire::ResponseItem> PeerLine::ask(const wire::Request& request,
                                                std::int64_t deadline_ms) {
  wire::Bytes out;
  wire::encode_request(out, ++last_request_, 0, request);
  if (!send(out, deadline_ms)) return {};
  while (const auto header = receive_frame(deadline_ms)) {
    if (header->kind == wire::Kind::map) continue;  // told unasked
    if (header->kind != wire::Kind::response || header->request != last_request_) return {};
    wire::TableReader table(table_);
    const auto items = wire::decode_response(table, header->items);
    return items && items->size() == 1 ? std::optional(items->front()) : std::nullopt;
  }
  return {};
}

bool PeerLine::send(const wire::Bytes& bytes, std::int64_t deadline_ms) {
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t sent =
        ::send(socket_.get(), &bytes[at], bytes.size() - at, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0)
      at += static_cast<std::size_t>(sent);
    else if (!is_try_again() || !wait_for(socket_.get(), POLLOUT, deadline_ms))
      return false;
  }
  return true;
}

bool PeerLine::receive(std::span<std::byte> into, std::int64_t deadline_ms) {
  while (!into.empty()) {
    const ssize_t got = recv(socket_.get(), into.data(), into.size(), MSG_DONTWAIT);
    if (got > 0)
      into = into.subspan(static_cast<std::size_t>(got));
    else if (got == 0 || !is_try_again())
      return false;
    else if (!wait_for(socket_.get(), POLLIN, deadline_ms))
      return false;
  }
  return true;
}

std::optional<wire::Header> PeerLine::receive_frame(std::int64_t deadline_ms) {
  std::array<std::byte, HEADER_BYTES> head;
  if (!receive(head, deadline_ms)) return {};
  const auto header = wire::decode_header(head);
  if (!header || header->payload_bytes() != 0) return {};
  table_.resize(header->table_bytes);
  if (!receive(table_, deadline_ms) || !wire::check_matches(head, table_)) return {};
  return header;
}

}  // namespace gd2fs::serve
