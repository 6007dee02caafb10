// Bootstrap: asks the first node that answers for the map. Blocks, for `connect`'s thread only.
#pragma once

#include <string>

#include "client.h"
#include "transport/channel.h"
#include "wire.h"

namespace gd2fs {

struct Bootstrapped {
  wire::Map map;
  std::string host;  // of the seed that answered: stands for the wildcard addresses of the map
  std::string name;  // the same as it was given
};

/// Greets the node at the other end, then sends a frame. False: it did not get so far
/// within `timeout_ms`.
bool say_after_greeting(Channel channel, const wire::Hello& hello, const TokenSourceRef& token,
                        wire::View frame, std::uint32_t timeout_ms);
/// Tries the seeds in order. The error names each of them and why it did not serve.
Result<Bootstrapped> bootstrap(const ClientOptions& options, const wire::Hello& hello,
                               const tls::ContextPtr& secured);

}  // namespace gd2fs
