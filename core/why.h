// Why: what a node knows of one name. What of it is here, and what went of it lately.
#pragma once

#include <string>
#include <string_view>

#include "node.h"

namespace gd2fs::serve {

/// As JSON, for people and programs (docs/reference/cli.md). May take a few milliseconds.
/// Names of namespaces that `asker` may not read are left out.
std::string why_text(Node& node, std::string_view name, bool is_page, const Rights& asker);

}  // namespace gd2fs::serve
