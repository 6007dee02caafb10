// A stream's way to its node: which socket, from where, and the greeting.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "link.h"
#include "stream.h"
#include "transport/interface.h"
#include "transport/unix.h"

namespace gd2fs {

namespace {

constexpr std::uint64_t ACK_BYTES_MIN = 64 * KiB;
constexpr std::uint64_t ACK_BYTES_MAX = 4 * MiB;
constexpr std::int64_t RETRY_MS_MIN = 100;
constexpr std::int64_t RETRY_MS_MAX = 2'000;
constexpr std::int64_t UNIX_AGAIN_MS = 2'000;

}  // namespace

void Stream::connect(std::int64_t now) {
  link_.stream_connecting();
  goodbye_.clear();
  const bool is_bound = local() != nullptr;
  candidates_ = tcp::order_for(local(), index_, link_.addresses(),
                               is_bound ? tcp::interfaces() : std::vector<tcp::Interface>{});
  candidates_left_ = candidates_.size();
  connect_until_ms_ = now + link_.options().connect_ms;
  thread_.wake_at(connect_until_ms_);
  if (try_unix(now)) return;
  const Transport wanted = link_.options().transport;
  if (wanted == Transport::shm || wanted == Transport::unix_socket)
    return connect_failed("its Unix socket is not on this host, or not in this network namespace");
  if (!try_address(now)) connect_failed("no address can be reached");
}

/// A name that nobody has costs one call; whoever has it must be this user or root: anyone else
/// could have taken it to read along.
bool Stream::try_unix(std::int64_t now) {
  is_unix_ = false;
  const LinkOptions& options = link_.options();
  const bool is_remote =
      options.transport == Transport::tcp || options.transport == Transport::rdma;
  if (is_remote || now < unix_at_ms_) return false;
  tcp::Descriptor socket = local::connect_to(options.socket_name);
  const auto peer = socket ? local::peer_of(socket.get()) : std::nullopt;
  if (!peer) return false;
  const bool is_trusted = peer->uid == geteuid() || peer->uid == 0;
  if (!is_trusted && options.transport == Transport::automatic) return false;
  channel_ = Channel(std::move(socket));
  is_unix_ = true;
  state_ = State::connecting;
  thread_.watch(channel_.fd(), EPOLLOUT, *this);
  return true;
}

/// After a failure on the Unix socket: is TCP tried instead?
bool Stream::leaves_unix(std::int64_t now) {
  if (!is_unix_ || link_.options().transport != Transport::automatic) return false;
  unix_at_ms_ = now + UNIX_AGAIN_MS;
  is_unix_ = false;
  return try_address(now);
}

bool Stream::wants_shm() const {
  const Transport wanted = link_.options().transport;
  return is_unix_ && !has_failed_shm_ &&
         (wanted == Transport::automatic || wanted == Transport::shm);
}

Transport Stream::transport() const {
  if (!is_unix_) return worker_ != nullptr ? Transport::rdma : Transport::tcp;
  const bool is_shm = (challenge_.capabilities & wire::SHM) != 0;
  return is_shm ? Transport::shm : Transport::unix_socket;
}

/// The address to bind to; nullptr: the system chooses.
const tcp::Address* Stream::local() const {
  const std::vector<tcp::Address>& local = link_.options().local;
  return local.empty() ? nullptr : &local[index_ % local.size()];
}

/// Starts a connection to the next address that takes one. False: none is left.
bool Stream::try_address(std::int64_t now) {
  while (candidates_left_ > 0 && now < connect_until_ms_) {
    --candidates_left_;
    const tcp::Address& to = candidates_[candidate_++ % candidates_.size()];
    auto socket = tcp::connect_start(to, local(), link_.options().sockets);
    if (!socket) continue;
    channel_ = Channel(std::move(*socket));
    state_ = State::connecting;
    thread_.watch(channel_.fd(), EPOLLOUT, *this);
    return true;
  }
  return false;
}

/// The next attempt is further away than the last one was.
void Stream::back_off(std::int64_t now) {
  retry_ms_ = std::clamp(retry_ms_ * 2, RETRY_MS_MIN, RETRY_MS_MAX);
  retry_at_ms_ = now + retry_ms_;
}

void Stream::connect_failed(const std::string& reason) {
  const bool was_reaching = state_ == State::reaching;
  close();
  if (leaves_unix(now_ms()) || (was_reaching && leaves_rdma(now_ms()))) return;
  back_off(now_ms());
  const std::int64_t link_retry_ms =
      link_.stream_failed(index_, goodbye_.empty() ? reason : goodbye_);
  thread_.wake_at(std::min(retry_at_ms_, link_retry_ms));
}

void Stream::begin_greeting() {
  state_ = State::greeting;
  Inbound::Receiver& receiver = *this;
  in_ = std::make_unique<Inbound>(receiver, link_.options().is_verifying);
  out_ = std::make_unique<Outbound>(PAYLOAD_BYTES_MAX);
  is_waiting_to_send_ = false;
  thread_.rewatch(channel_.fd(), EPOLLIN, *this);
  wire::Hello hello = link_.options().hello;
  if (link_.options().tls != nullptr && !is_unix_) {
    channel_.begin_tls(link_.options().tls->connect(link_.names()));
    hello.capabilities &= ~wire::SPLICE_HOLDS;  // what comes sealed is a copy
  }
  if (is_unix_) {
    in_->expect_descriptor();
    out_->join_small();
  }
  if (wants_shm()) hello.capabilities |= wire::SHM | wire::VIEW;
  if (wants_rdma()) hello.capabilities |= wire::RDMA;
  introduction_.emplace(link_.options().token);
  introduction_->hello(out_->control(), std::move(hello));
  flush();
}

bool Stream::take_greeting(const wire::Header& header, wire::View table) {
  if (header.kind == wire::Kind::challenge && state_ == State::greeting) {
    const auto challenge = wire::decode_challenge(table);
    if (!challenge || challenge->version != wire::VERSION ||
        challenge->block_bytes != BLOCK_BYTES || challenge->payload_max < BLOCK_BYTES ||
        challenge->requests_max == 0)
      return false;
    if (!take_challenge(*challenge)) return false;
    state_ = State::proving;
    introduction_->proof(out_->control(), table, channel_.exporter());
    return true;
  }
  if (header.kind == wire::Kind::welcome && state_ == State::proving) {
    if (!introduction_->takes_welcome(table, channel_.exporter())) {
      goodbye_ = UNPROVEN_NODE;
      return false;
    }
    introduction_.reset();
    if (reach()) return goodbye_.empty();
    begin_ready(challenge_);
    return true;
  }
  if (state_ != State::reaching) return false;
  if (header.kind == wire::Kind::map) return take_map(table);
  return header.kind == wire::Kind::peer && take_peer(table);
}

bool Stream::take_challenge(const wire::Challenge& challenge) {
  challenge_ = challenge;
  const auto peer = is_unix_ ? local::peer_of(channel_.fd()) : std::nullopt;
  const bool is_other_user = peer && peer->uid != geteuid();
  // No node shares its memory with another user: who offers that may change it under the reader.
  if (!wants_shm() || is_other_user) challenge_.capabilities &= ~(wire::SHM | wire::VIEW);
  if (is_unix_ && challenge.node_id != link_.options().node_id) {
    goodbye_ = "another node answers on its Unix socket";
    return false;
  }
  const bool is_refused = (challenge_.capabilities & wire::SHM) == 0;
  if (link_.options().transport != Transport::shm || !is_refused) return true;
  goodbye_ = is_other_user
                 ? "it shares its memory with user " + std::to_string(peer->uid) +
                       ", not with user " + std::to_string(geteuid())
                 : "its memory is of a kind that cannot be shared, or it was told not to share it";
  return false;
}

void Stream::begin_ready(const wire::Challenge& challenge) {
  const std::size_t payload_max = std::min<std::size_t>(challenge.payload_max, PAYLOAD_BYTES_MAX);
  out_->limit_payload(payload_max);
  state_ = State::ready;
  candidate_ = 0;
  last_request_ = 0;
  acknowledged_ = 0;
  ack_bytes_ = std::clamp(challenge.hold_bytes_max / 4, ACK_BYTES_MIN, ACK_BYTES_MAX);
  reached_bytes_ = 0;
  hear(now_ms());
  link_.stream_greeted(challenge.boot);
  link_.stream_connected(index_, transport());
}

}  // namespace gd2fs
