// File advise: more copies of a file than its namespace has, or no longer more.
//
// More: each piece's first holder copies it to as many owners, then the record says so, and readers
// choose among them. Fewer: the record first, then the copies beyond it are dropped.
#pragma once

#include "call.h"

namespace gd2fs {

/// `replicas`: 0: as its namespace has. ok: value = bytes of the pieces that are there in so many
/// copies now, or that were dropped (of all copies). gone: no such file. miss: some of it is lost.
void start_advise(CallContext context, std::string path, Advice advice, std::uint32_t replicas,
                  Call::OnEnd on_end);

}  // namespace gd2fs
