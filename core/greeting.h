// Greeting: what a node checks before it talks to a stream, and what it says of itself.
#pragma once

#include <string>

#include "node.h"

namespace gd2fs::serve {

/// Nothing wrong: an empty string. Else one line that says what was expected and what came.
std::string hello_fault(const Node& node, const wire::Hello& hello);
/// Why a table could not be read as a HELLO.
std::string hello_syntax_fault(wire::View table);
wire::Challenge challenge_of(const Node& node);

}  // namespace gd2fs::serve
