// File calls: reads, writes and the small calls on one file. Each ends with the outcome that
// `Client` promises.
#pragma once

#include "file_read.h"
#include "file_write.h"

namespace gd2fs {

void start_read(CallContext context, ReadSpec spec, Call::OnEnd on_end);
void start_write(CallContext context, WriteSpec spec, Call::OnEnd on_end);
void start_create(CallContext context, std::string path, Call::OnEnd on_end);
void start_stat(CallContext context, std::string path, Call::OnEnd on_end);
void start_truncate(CallContext context, std::string path, std::uint64_t size, Call::OnEnd on_end);
void start_unlink(CallContext context, std::string path, Call::OnEnd on_end);

}  // namespace gd2fs
