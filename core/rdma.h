// RDMA: does a side of a stream offer one-sided transfers, and by what?
#pragma once

#include <cstdint>
#include <string>

#include "transport/ucx_context.h"

namespace gd2fs {

/// automatic: where this machine has cards for it. on: or else it does not start.
enum class Rdma : std::uint8_t { automatic = 0, on = 1, off = 2 };

struct RdmaSettings {
  Rdma use = Rdma::automatic;
  ucx::Options ucx;
  /// Tests: memory of a GPU is reached by whatever moves bytes, as if a card did.
  bool is_direct_by_any = false;
};

struct RdmaSide {
  ucx::ContextRef context;  // nothing: there are no one-sided transfers,
  std::string lack;         // and why
};

/// `is_tls`: streams are sealed; what travels beside them would not be.
Result<RdmaSide> open_rdma(const RdmaSettings& settings, bool is_tls);

}  // namespace gd2fs
