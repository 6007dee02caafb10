// Page calls: batches of pages, each asked of the node that owns it. A batch is grouped by node
// and cut into requests that several streams carry at once.
#pragma once

#include "call.h"
#include "page_memory.h"
#include "page_names.h"

namespace gd2fs {

enum class PageAction : std::uint8_t { get, put, exists };

/// The outcome has one item per name. `memory`: none for exists.
void start_pages(CallContext context, PageAction action, PageNames names, PageMemory memory,
                 Call::OnEnd on_end);
/// The outcome's value: how many of them were there.
void start_drop(CallContext context, PageNames names, Call::OnEnd on_end);

}  // namespace gd2fs
