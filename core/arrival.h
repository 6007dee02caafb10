// Arrival: a node of a list tells all the others that it has begun anew, with nothing in memory.
// Whoever has what belongs there brings it. Under a membership the map itself says so.
//
// Each is told until it answers. Nothing here waits.
#pragma once

#include <string>

#include "peers.h"

namespace gd2fs::serve {

class Arrival {
 public:
  Arrival(Peers& peers, std::string name, std::uint64_t boot)
      : peers_(peers), name_(std::move(name)), boot_(boot) {}

  /// Tells every other node of a list. The peers are closed before this ends.
  void announce(const wire::Map& map);

 private:
  void tell(const NodeId& node, std::uint64_t epoch, std::int64_t pause_ms);

  Peers& peers_;
  const std::string name_;
  const std::uint64_t boot_;
};

}  // namespace gd2fs::serve
