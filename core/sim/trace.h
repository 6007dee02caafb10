// Trace: what is asked, as arrays that somebody else owns.
#pragma once

#include <cstdint>
#include <span>

#include "block_table.h"

namespace gd2fs::sim {

using Request = std::uint32_t;  // its place in the trace
inline constexpr Request NO_REQUEST = ~Request{0};

struct Trace {
  std::span<const double> arrives_s;             // never falling
  std::span<const std::uint32_t> input_tokens;   // of the whole prompt
  std::span<const std::uint32_t> output_tokens;  // of the answer
  std::span<const std::uint64_t> first_block;    // one more than requests: where their blocks begin
  std::span<const std::uint32_t> prompt_blocks;  // of these; the rest is what the answer completes
  std::span<const Block> blocks;
  std::span<const std::uint32_t> session;  // the same number: the same conversation
  std::span<const std::int32_t> instance;  // that shall have it; empty: the balancer decides
  std::span<const std::uint16_t> node;     // that was asked for its blocks; empty: not known
  // When its first token and its end came, since it arrived, as somebody has measured them; empty:
  // the engines' rates say so.
  std::span<const double> measured_first_s, measured_done_s;
  std::uint32_t node_count = 0;  // of these
  std::uint32_t block_tokens = 1;
  std::uint32_t block_count = 0;  // how many different ones: every number is below

  std::size_t size() const noexcept { return arrives_s.size(); }
  std::span<const Block> prompt_of(Request request) const noexcept {
    return blocks.subspan(first_block[request], prompt_blocks[request]);
  }
  std::span<const Block> all_of(Request request) const noexcept {
    return blocks.subspan(first_block[request], first_block[request + 1] - first_block[request]);
  }
};

}  // namespace gd2fs::sim
