// How a connection is greeted, what it may do once it has proven itself, and when it may not any
// more.
#include "connection.h"
#include "worker.h"

namespace gd2fs::serve {

void Connection::handle_hello(const Inlet::Frame& frame) {
  if (const auto refused = greeting_->take_hello(frame)) return refuse(*refused);
  const wire::Hello& hello = greeting_->said();
  // What is sealed is a copy already.
  const bool is_splicing = node_.splice_fault.empty() && !channel_.is_tls();
  if (is_splicing && (hello.capabilities & wire::SPLICE_HOLDS) != 0) sender_.allow_splice();
  // Beside TLS they would travel in the clear.
  may_transfer_ =
      node_.rdma.context != nullptr && !channel_.is_tls() && (hello.capabilities & wire::RDMA) != 0;
  const std::uint64_t capabilities =
      grant_arena() | (is_splicing ? wire::SPLICE_HOLDS : 0) | (may_transfer_ ? wire::RDMA : 0);
  if (const auto refused = greeting_->challenge(sender_.replies().bytes, capabilities))
    return refuse(*refused);
  phase_ = Phase::proof;
}

/// What this stream may do with the arena.
std::uint64_t Connection::grant_arena() {
  std::uint64_t rights = greeting_->arena_rights(peer_);
  is_leasing_ = (rights & wire::SHM) != 0;
  if (is_leasing_ && (rights & wire::VIEW) != 0)
    sender_.viewer = node_.views.viewer(peer_->pid, local::process_of(fd()));
  if (sender_.viewer == nullptr) rights &= ~wire::VIEW;
  return rights;
}

void Connection::handle_proof(const Inlet::Frame& frame) {
  wire::Bytes& out = sender_.replies().bytes;
  if (const auto refused = greeting_->take_proof(frame, out, channel_.exporter()))
    return refuse(*refused);
  is_node_ = greeting_->said().stream_class == wire::StreamClass::node;
  token_ = greeting_->take_token();
  greeting_.reset();
  wire::encode_map(out, 0, shown_map(token_->rights, node_.view()->map));
  if (is_leasing_) sender_.lease_arena();
  phase_ = Phase::open;
  node_.strangers.leave(host_, true);
  host_.clear();
}

/// Who has the new token is let in again at once.
void Connection::look_at_tokens() {
  if (phase_ != Phase::open || node_.tokens.has(*token_)) return;
  goodbye("its token is not valid any more, or has other rights", wire::MORE);
}

}  // namespace gd2fs::serve
