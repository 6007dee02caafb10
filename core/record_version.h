// Record version: names one attempt to change a record. Never used twice, whatever became of it.
#pragma once

#include <compare>
#include <cstdint>

namespace gd2fs {

struct RecordVersion {
  std::uint64_t epoch = 0;
  std::uint64_t boot = 0;  // of the home
  std::uint64_t attempt = 0;

  friend auto operator<=>(const RecordVersion&, const RecordVersion&) = default;
};

}  // namespace gd2fs
