// Wire pieces: what tables of several frames have in common. Pieces and then their sums; sinks.
#pragma once

#include "wire.h"

namespace gd2fs::wire {

void write_pieces(FrameWriter& frame, const DataTable& table);
/// The bytes that the pieces have in all; nothing when malformed, and then `out` means nothing.
std::optional<std::uint64_t> read_pieces(TableReader& table, std::uint16_t items, DataTable& out);

void write_sinks(FrameWriter& frame, std::span<const Sink> sinks);
/// All that is left of the table. Nothing when they are not `bytes` long together.
std::optional<std::vector<Sink>> read_sinks(TableReader table, std::uint64_t bytes);

}  // namespace gd2fs::wire
