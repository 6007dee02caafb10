// Range advise: which bytes of a file, or which pages, shall be in the memory of their nodes.
//
// All owners are asked at once, a lot of bytes at a time: between two it is seen how far it has
// come, and whether it is still wanted.
#pragma once

#include "call.h"
#include "page_names.h"

namespace gd2fs {

/// `length` 0: to the end of the file. ok: value = bytes of the range that are in memory now, or
/// were let go (of all copies). miss: some of it is lost. gone: no such file. full: more than may
/// be would be pinned.
void start_range_advise(CallContext context, std::string path, MemoryWish wish,
                        std::uint64_t offset, std::uint64_t length, Call::OnEnd on_end);
/// The outcome has one item per name: ok, miss, or why not. value: as above.
void start_page_advise(CallContext context, PageNames names, MemoryWish wish, Call::OnEnd on_end);

}  // namespace gd2fs
