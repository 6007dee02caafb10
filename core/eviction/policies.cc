#include "policies.h"

#include "lru.h"
#include "priority.h"
#include "s3_fifo.h"

namespace gd2fs {

std::unique_ptr<EvictionPolicy> make_policy(PolicyKind kind, Board& board, std::size_t shard,
                                            KeyOf key_of) {
  switch (kind) {
    case PolicyKind::s3_fifo: return std::make_unique<S3Fifo>(board, shard, key_of);
    case PolicyKind::priority: return std::make_unique<Priority>(board, shard);
    default: return std::make_unique<Lru>(board, shard);
  }
}

std::optional<Pick> next_of(PolicyKind kind, const Board& board, std::uint64_t before_ns) noexcept {
  switch (kind) {
    case PolicyKind::s3_fifo: return S3Fifo::next(board, before_ns);
    case PolicyKind::priority: return Priority::next(board, before_ns);
    default: return Lru::next(board, before_ns);
  }
}

std::string_view policy_name(PolicyKind kind) noexcept {
  switch (kind) {
    case PolicyKind::s3_fifo: return "s3-fifo";
    case PolicyKind::priority: return "priority";
    default: return "lru";
  }
}

}  // namespace gd2fs
