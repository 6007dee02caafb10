// Sync: brings what is asked about to where it outlives this node's process, and says where.
#pragma once

#include <functional>
#include <vector>

#include "kept_at.h"
#include "store.h"
#include "wire.h"

namespace gd2fs::serve {

/// Each item names a page, or pieces of a file. ok: all of them are kept, `tier` says where. miss:
/// nothing of it is here. denied: this node keeps nothing. `reply` runs once, on any thread,
/// perhaps before this returns.
void sync(Store& store, wire::Request request,
          std::function<void(const std::vector<wire::ResponseItem>&)> reply);

}  // namespace gd2fs::serve
