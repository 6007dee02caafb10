#include "rdma.h"

namespace gd2fs {

Result<RdmaSide> open_rdma(const RdmaSettings& settings, bool is_tls) {
  if (settings.use == Rdma::off) return RdmaSide{nullptr, "it is turned off"};
  const bool is_wanted = settings.use == Rdma::on;
  if (is_tls && is_wanted)
    return Error{"RDMA beside TLS would carry bytes in the clear",
                 "choose one of them: leave RDMA or the certificates out", Status::invalid};
  if (is_tls) return RdmaSide{nullptr, "TLS seals the streams, and RDMA would not be sealed"};
  if (!is_wanted && !ucx::finds_cards(settings.ucx.transports))
    return RdmaSide{nullptr, "this machine has no card for it"};
  auto context = ucx::Context::open(settings.ucx);
  if (context && !is_wanted && !(*context)->has_cards())
    return RdmaSide{nullptr, (*context)->library().path() + " was built without support of cards"};
  if (context) return RdmaSide{std::move(*context), ""};
  if (is_wanted) return context.error();
  return RdmaSide{nullptr, context.error().message};
}

}  // namespace gd2fs
