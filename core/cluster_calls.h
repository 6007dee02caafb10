// Cluster calls: what is asked of every node, and put together from their answers.
#pragma once

#include "call.h"

namespace gd2fs {

struct ListSpec {
  bool is_pages = false;
  std::string what;   // a prefix of paths, or a namespace
  std::string after;  // a path, or a key
  std::size_t count_max = 0;
};

void start_list(CallContext context, ListSpec spec, Call::OnEnd on_end);
/// Files and pages of a namespace. value: how many records and pieces there were.
void start_clear(CallContext context, std::string name_space, Call::OnEnd on_end);
void start_ask_nodes(CallContext context, NodeQuestion question, Call::OnEnd on_end);
void start_ping(CallContext context, Call::OnEnd on_end);
/// Tells one node to hand over what it has.
void start_drain(CallContext context, std::string node_name, Call::OnEnd on_end);

}  // namespace gd2fs
