// UCX and cards: which builds of it drive some. Those of wheels `libucx` know TCP and a host alone.
#pragma once

#include "ucx_library.h"

namespace gd2fs::ucx {

/// Has this build the module for InfiniBand and RoCE?
bool knows_cards(const Library& library);

}  // namespace gd2fs::ucx
