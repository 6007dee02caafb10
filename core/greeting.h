// Greeting: what a node checks before it talks to a stream, and what it says of itself.
//
//   HELLO -> CHALLENGE -> PROOF -> WELCOME, a deadline over all. Nothing is looked up before, and
//   what is kept meanwhile is a few hundred bytes.
#pragma once

#include <optional>
#include <string>

#include "inlet.h"
#include "node.h"
#include "token.h"
#include "transport/unix.h"

namespace gd2fs::serve {

/// Why a stream is not let in: for the counts, and one line for the other side.
struct Refused {
  Refusal reason = Refusal::bad_hello;
  std::string text;
};

class Greeting {
 public:
  explicit Greeting(Node& node) : node_(node) {}

  // In this order. A refusal ends it.
  std::optional<Refused> take_hello(const Inlet::Frame& frame);
  /// What it wants, as HELLO says.
  const wire::Hello& said() const noexcept { return said_; }
  /// The capabilities that concern the arena and that it gets, once it has proven itself. The only
  /// place that decides who may map the memory of this node: a process of the node's own user on
  /// this host, which could read the node's memory anyway, with a token for every namespace.
  /// `peer`: nothing when it is no Unix socket.
  std::uint64_t arena_rights(const std::optional<local::Peer>& peer) const;
  /// Appends the CHALLENGE.
  std::optional<Refused> challenge(wire::Bytes& out, std::uint64_t capabilities);
  /// Appends the WELCOME. `exporter`: what ties it to the secured connection below, if there is
  /// one.
  std::optional<Refused> take_proof(const Inlet::Frame& frame, wire::Bytes& out,
                                    wire::View exporter = {});
  /// What it has proven.
  TokenRef take_token() noexcept { return std::move(token_); }

 private:
  std::optional<Refused> take_token_name();

  Node& node_;
  wire::Hello said_;
  TokenRef token_;  // that it claims to have; nothing: there is none of that name
  Transcript transcript_;
};

}  // namespace gd2fs::serve
