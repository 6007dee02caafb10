// Home: asks the home of a file whether a write is part of its record. Waits, for a short time; one
// thread's alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "node.h"
#include "peer_line.h"

namespace gd2fs::serve {

class Home {
 public:
  explicit Home(Node& node) : node_(node) {}
  /// The seq of the commit that lists this tag. Nothing: not listed, or home did not answer.
  std::optional<std::uint64_t> seq_of(const Store::StagedName& name);

 private:
  struct Neighbour {
    std::unique_ptr<PeerLine> line;
    std::int64_t silent_until_ms = 0;  // it did not answer: not asked again before
  };

  std::optional<std::uint64_t> ask(Neighbour& neighbour, const wire::MapNode& node,
                                   const Store::StagedName& name);

  Node& node_;
  std::map<std::uint32_t, Neighbour> neighbours_;  // by index in the map
};

}  // namespace gd2fs::serve
