// View calls: a page, or a range of a file, to be read where it lies. What cannot be had so is
// fetched into memory of the view's own.
#pragma once

#include "call.h"

namespace gd2fs {

/// ok: the outcome's view. miss.
void start_page_view(CallContext context, std::string name, Call::OnEnd on_end);
/// ok: the outcome's view, short at the end of the file, and the facts of the file.
void start_file_view(CallContext context, std::string path, std::uint64_t offset,
                     std::uint64_t length, Call::OnEnd on_end);

}  // namespace gd2fs
