#include "board.h"

#include <algorithm>
#include <utility>

namespace gd2fs {

std::optional<Pick> Board::oldest(std::size_t queue, std::uint64_t before_ns) const noexcept {
  Pick pick{.queue = queue, .used_ns = NEVER_NS};
  std::uint64_t second_ns = NEVER_NS;
  for (std::size_t shard = 0; shard < INDEX_SHARDS; ++shard) {
    const std::uint64_t head_ns = head_ns_[queue][shard].load(std::memory_order_relaxed);
    if (head_ns < pick.used_ns) {
      second_ns = std::exchange(pick.used_ns, head_ns);
      pick.shard = shard;
    } else {
      second_ns = std::min(second_ns, head_ns);
    }
  }
  if (pick.used_ns == NEVER_NS || pick.used_ns >= before_ns) return {};
  pick.until_ns = std::min(second_ns, before_ns - 1);
  return pick;
}

}  // namespace gd2fs
