// Wire pieces: the table that DATA and LEASE have in common, pieces and then their sums.
#pragma once

#include "wire.h"

namespace gd2fs::wire {

void write_pieces(FrameWriter& frame, const DataTable& table);
/// The bytes that the pieces have in all; nothing when malformed, and then `out` means nothing.
std::optional<std::uint64_t> read_pieces(TableReader& table, std::uint16_t items, DataTable& out);

}  // namespace gd2fs::wire
