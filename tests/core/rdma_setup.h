// What tests of one-sided transfers have in common. Before it is included GD2FS_TEST_RDMA is set.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>

#include "local_cluster.h"

namespace gd2fs {

inline constexpr const char* TRANSPORTS[] = {"tcp", "posix,sysv"};
inline constexpr std::byte CANARY{0x5a};

#define NEEDS_UCX()                   \
  if (!ucx_lack().empty()) {          \
    MESSAGE("skipped: ", ucx_lack()); \
    return;                           \
  }

/// Of all that follows in this process.
inline void choose(const std::string& transports) {
  setenv("GD2FS_TEST_UCX_TLS", transports.c_str(), 1);
}

inline std::uint64_t moved(const Server& server, serve::Direction direction) {
  const auto by = server.tally().bytes[static_cast<std::size_t>(Transport::rdma)];
  return by[static_cast<std::size_t>(direction)];
}

inline bool is_filled(const Memory& memory, std::byte with) {
  return std::all_of(memory.begin(), memory.end(), [&](std::byte each) { return each == with; });
}

/// Nothing that was half written, dropped or sent is kept for anyone.
inline bool is_at_rest(const Server& server) {
  const ServerCounts counts = server.counts();
  return counts.store.filling_bytes == 0 && counts.store.zombie_bytes == 0 &&
         counts.held_bytes == 0;
}

}  // namespace gd2fs
