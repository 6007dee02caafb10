// Sealer: how quickly OpenSSL alone seals records of 16 KiB on one core, from and into the cache.
#pragma once

#include <string>

#include "../error.h"

namespace gd2fs::bench {

/// Bytes sealed in each second, over about `seconds`, by the calling thread. `cipher`: an AEAD, as
/// OpenSSL names it: `aes-128-gcm`.
Result<double> seal_rate(const std::string& cipher, double seconds);

}  // namespace gd2fs::bench
