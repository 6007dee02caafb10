// Policies: which orders there are.
#pragma once

#include <memory>
#include <string_view>

#include "board.h"
#include "namespace_rules.h"
#include "policy.h"

namespace gd2fs {

inline constexpr std::size_t POLICIES = 3;

/// `key_of`: by which a policy knows again what comes back.
std::unique_ptr<EvictionPolicy> make_policy(PolicyKind kind, Board& board, std::size_t shard,
                                            KeyOf key_of = key_of_piece);
/// Which piece of one namespace goes next, of those put at their places before `before_ns`.
std::optional<Pick> next_of(PolicyKind kind, const Board& board, std::uint64_t before_ns) noexcept;
std::string_view policy_name(PolicyKind kind) noexcept;

}  // namespace gd2fs
