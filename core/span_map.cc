#include "span_map.h"

#include <algorithm>
#include <iterator>

namespace gd2fs {

SpanMap::Spans::const_iterator SpanMap::first_after(std::uint64_t offset) const {
  auto at = spans_.upper_bound(offset);
  if (at != spans_.begin() && std::prev(at)->second.end > offset) --at;
  return at;
}

bool SpanMap::has_later(std::uint64_t begin, std::uint64_t end, std::uint64_t seq) const {
  for (auto at = first_after(begin); at != spans_.end() && at->first < end; ++at) {
    if (at->second.seq > seq) return true;
  }
  return false;
}

std::size_t SpanMap::count_with(std::uint64_t begin, std::uint64_t end, std::uint64_t cut_begin,
                                std::uint64_t cut_end, std::size_t count_max) const {
  std::size_t count = cut_begin < end && cut_end > begin ? 1 : 0;
  for (auto at = first_after(begin); at != spans_.end() && at->first < end && count <= count_max;
       ++at) {
    const std::uint64_t first = std::max(at->first, begin);
    const std::uint64_t last = std::min(at->second.end, end);
    // What is left of it before and after the cut.
    if (first < std::min(last, cut_begin)) ++count;
    if (std::max(first, cut_end) < last) ++count;
  }
  return count;
}

void SpanMap::cut(std::uint64_t begin, std::uint64_t end) {
  auto at = spans_.upper_bound(begin);
  if (at != spans_.begin() && std::prev(at)->second.end > begin) --at;
  while (at != spans_.end() && at->first < end) {
    const std::uint64_t first = at->first;
    const Span span = at->second;
    at = spans_.erase(at);
    if (first < begin) spans_.emplace_hint(at, first, Span{begin, span.tag, span.seq});
    if (span.end > end) at = spans_.emplace_hint(at, end, span);
  }
}

void SpanMap::set(std::uint64_t begin, std::uint64_t end, std::uint64_t tag, std::uint64_t seq) {
  cut(begin, end);
  spans_.emplace(begin, Span{end, tag, seq});
}

}  // namespace gd2fs
