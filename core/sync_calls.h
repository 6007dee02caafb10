// Sync calls: all nodes that have a thing bring it to where it outlives their processes; the copy
// that outlives most counts.
#pragma once

#include "call.h"
#include "page_names.h"

namespace gd2fs {

/// The outcome has one item per name.
void start_sync_pages(CallContext context, PageNames names, Call::OnEnd on_end);
/// The outcome's value: a KeptAt, of the segment that outlives least.
void start_sync_file(CallContext context, std::string path, Call::OnEnd on_end);

}  // namespace gd2fs
