#include "buffer_list.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <functional>

#include "checksum.h"

namespace gd2fs {

Buffer BufferCursor::next(std::size_t bytes_max) {
  while (!buffers_.empty() && offset_ == buffers_.front().bytes) {
    buffers_ = buffers_.subspan(1);
    offset_ = 0;
  }
  if (buffers_.empty()) return {};
  const Buffer& front = buffers_.front();
  const Buffer run{front.at + offset_, std::min(bytes_max, front.bytes - offset_)};
  offset_ += run.bytes;
  return run;
}

void BufferCursor::skip(std::size_t bytes) {
  while (bytes != 0) {
    const std::size_t run = next(bytes).bytes;
    assert(run != 0);
    bytes -= run;
  }
}

std::uint64_t BufferCursor::hash(std::size_t bytes) {
  const Buffer first = next(bytes);
  if (first.bytes == bytes) return checksum(std::span(first.at, bytes));
  std::vector<ChecksumRun> runs = {{first.at, first.bytes}};
  for (bytes -= first.bytes; bytes != 0;) {
    const Buffer run = next(bytes);
    assert(run.bytes != 0);
    runs.push_back({run.at, run.bytes});
    bytes -= run.bytes;
  }
  return checksum(runs);
}

void BufferCursor::fill_zero(std::size_t bytes) {
  while (bytes != 0) {
    const Buffer run = next(bytes);
    assert(run.bytes != 0);
    std::memset(run.at, 0, run.bytes);  // a run lies within one of the caller's buffers
    bytes -= run.bytes;
  }
}

void BufferCursor::split(std::size_t bytes, std::vector<Buffer>& out) {
  while (bytes != 0) {
    const Buffer run = next(bytes);
    assert(run.bytes != 0);
    out.push_back(run);
    bytes -= run.bytes;
  }
}

std::uint64_t total_bytes(std::span<const Buffer> buffers) noexcept {
  std::uint64_t total = 0;
  for (const Buffer& buffer : buffers) total += buffer.bytes;
  return total;
}

namespace {

bool is_before(const Buffer& a, const Buffer& b) {
  return std::less<const std::byte*>()(a.at, b.at);
}

bool share_memory(std::span<const Buffer> buffers) {
  std::vector<Buffer> sorted;
  for (const Buffer& buffer : buffers)
    if (buffer.bytes != 0) sorted.push_back(buffer);
  if (!std::is_sorted(sorted.begin(), sorted.end(), is_before))
    std::sort(sorted.begin(), sorted.end(), is_before);
  for (std::size_t at = 1; at < sorted.size(); ++at)
    if (sorted[at - 1].at + sorted[at - 1].bytes > sorted[at].at) return true;
  return false;
}

}  // namespace

std::string buffers_fault(std::span<const Buffer> buffers, bool is_written) {
  for (std::size_t at = 0; at < buffers.size(); ++at)
    if (buffers[at].at == nullptr && buffers[at].bytes != 0)
      return "buffer " + std::to_string(at) + " of " + std::to_string(buffers[at].bytes) +
             " bytes has no address";
  if (is_written && share_memory(buffers)) return "two buffers of a read share memory";
  return {};
}

}  // namespace gd2fs
