// Memory advice: what a client says about which bytes shall be in memory. They are loaded, or let
// go, or stay whatever room is needed for.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "loader.h"
#include "node.h"

namespace gd2fs::serve {

/// The pieces that an item of an ADVISE is about.
std::vector<PieceRef> advised_pieces(Store& store, const wire::Item& item);

/// Is this ADVISE about memory, not about copies?
bool is_memory_advice(const wire::Request& request);

/// Carries one out. `reply` runs once, on any thread, under no lock. `stop`: it is not wanted any
/// more; what was not begun is not.
void start_memory_advice(Node& node, wire::Request request, std::int64_t deadline_ms, StopRef stop,
                         std::function<void(const std::vector<wire::ResponseItem>&)> reply);

}  // namespace gd2fs::serve
