// SpanMap: which range of a file has which tag. Ranges are kept sorted and disjoint; a later one
// cuts older ones.
//
// Kept over the whole file, not chunk by chunk: a write of any length is one range, cut at chunk
// borders only when it is shown. A range that no write filled is a hole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace gd2fs {

class SpanMap {
 public:
  struct Span {
    std::uint64_t end = 0;
    std::uint64_t tag = 0;
    std::uint64_t seq = 0;
  };
  using Spans = std::map<std::uint64_t, Span>;  // by where they begin

  /// The first span that ends after `offset`.
  Spans::const_iterator first_after(std::uint64_t offset) const;
  Spans::const_iterator end() const { return spans_.end(); }
  /// How many spans there are.
  std::size_t count() const noexcept { return spans_.size(); }

  /// Is a part of `[begin, end)` from a later mutation than `seq`?
  bool has_later(std::uint64_t begin, std::uint64_t end, std::uint64_t seq) const;
  /// How many spans `[begin, end)` would show once `[cut_begin, cut_end)` is one new span. Counts
  /// to `count_max`.
  std::size_t count_with(std::uint64_t begin, std::uint64_t end, std::uint64_t cut_begin,
                         std::uint64_t cut_end, std::size_t count_max) const;

  /// Forgets `[begin, end)`.
  void cut(std::uint64_t begin, std::uint64_t end);
  void set(std::uint64_t begin, std::uint64_t end, std::uint64_t tag, std::uint64_t seq);

 private:
  Spans spans_;
};

}  // namespace gd2fs
