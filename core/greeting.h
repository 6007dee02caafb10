// Greeting: what a node checks before it talks to a stream, and what it says of itself.
#pragma once

#include <optional>
#include <string>

#include "node.h"
#include "transport/unix.h"

namespace gd2fs::serve {

/// Nothing wrong: an empty string. Else one line that says what was expected and what came.
std::string hello_fault(const Node& node, const wire::Hello& hello);
/// Why a table could not be read as a HELLO.
std::string hello_syntax_fault(wire::View table);
wire::Challenge challenge_of(const Node& node);
/// Of the capabilities that a stream wants, those that concern the arena and that it gets. The only
/// place that decides who may map the memory of this node: a process of the node's own user on this
/// host, which could read the node's memory anyway. `peer`: nothing when it is no Unix socket.
std::uint64_t arena_rights(const Node& node, const std::optional<local::Peer>& peer,
                           std::uint64_t wanted);

}  // namespace gd2fs::serve
