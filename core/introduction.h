// Introduction: a client's half of the greeting. What it says, what it proves, and whether the node
// knows its token too.
#pragma once

#include <optional>

#include "token.h"
#include "wire.h"

namespace gd2fs {

inline constexpr const char* UNPROVEN_NODE = "the node does not know this token: it is no member";

class Introduction {
 public:
  /// Of one stream. `source`: nothing where there is no token.
  explicit Introduction(const TokenSourceRef& source)
      : token_(source == nullptr ? std::nullopt : source->current()) {}

  /// Appends the HELLO, with a nonce of its own and the token's name.
  void hello(wire::Bytes& out, wire::Hello said);
  /// Appends the answer to a CHALLENGE. `exporter`: see Transcript.
  void proof(wire::Bytes& out, wire::View challenge, wire::View exporter = {});
  /// Has the node proven that it knows the token?
  bool takes_welcome(wire::View table, wire::View exporter = {}) const;

 private:
  std::optional<Token> token_;
  Transcript transcript_;
};

}  // namespace gd2fs
