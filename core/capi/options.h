// Options: what a C program and its environment ask for, checked, as the client's own options.
#pragma once

#include "../client.h"
#include "xfer/gd2fs.h"

namespace gd2fs::capi {

/// The only place of the library that reads the environment. An error says which field is wrong.
Result<ClientOptions> read_options(const xfer_gd2fs_options& options);

}  // namespace gd2fs::capi
