#include "space.h"

#include <algorithm>

#include "name.h"

namespace gd2fs {

namespace {

/// Adds unless the sum would be over `sum_max`.
bool try_add(std::atomic<std::uint64_t>& sum, std::uint64_t bytes, std::uint64_t sum_max) noexcept {
  std::uint64_t now = sum.load(std::memory_order_relaxed);
  do {
    if (bytes > sum_max || now > sum_max - bytes) return false;
  } while (!sum.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed));
  return true;
}

}  // namespace

RulesRef Space::rules() const {
  const std::lock_guard lock(mutex_);
  return rules_;
}

void Space::set(const NamespaceRules& rules) {
  const std::lock_guard lock(mutex_);
  rules_ = std::make_shared<const NamespaceRules>(rules);
  policy_ = rules.policy;
  class_ = rules.eviction_class;
  ttl_ = rules.ttl_s;
  quota_ = rules.quota_bytes;
  disk_quota_ = rules.disk_quota_bytes;
  pin_max_ = rules.pin_bytes_max;
}

bool Space::try_take(std::uint64_t bytes) noexcept {
  const std::uint64_t quota = quota_bytes();
  if (quota != 0) return try_add(bytes_, bytes, quota);
  take(bytes);
  return true;
}

bool Space::try_pin(std::uint64_t bytes) noexcept {
  return try_add(pinned_bytes_, bytes, pin_max_.load(std::memory_order_relaxed));
}

std::uint64_t Space::disk_bytes() const noexcept {
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(disk_bytes_.load(std::memory_order_relaxed), 0));
}

std::optional<std::size_t> Space::shard_of_coldest() const noexcept {
  std::optional<std::size_t> coldest;
  std::uint64_t used_ns = NEVER_NS;
  for (std::size_t shard = 0; shard < INDEX_SHARDS; ++shard) {
    const std::uint64_t each = coldest_ns_[shard].load(std::memory_order_relaxed);
    if (each >= used_ns) continue;
    used_ns = each;
    coldest = shard;
  }
  return coldest;
}

Spaces::Spaces(std::uint64_t pin_bytes_max) : pin_bytes_max_(pin_bytes_max) {
  spaces_[0] = std::make_unique<Space>("", 0);
}

bool Spaces::try_pin(std::uint64_t bytes) noexcept {
  return try_add(pinned_bytes_, bytes, pin_bytes_max_);
}

Space& Spaces::of(std::string_view name, bool is_page) noexcept {
  if (count() == 1) return rest();
  const std::shared_lock lock(mutex_);
  const auto found = by_name_.find(namespace_of(name, is_page));
  return found == by_name_.end() ? rest() : *found->second;
}

Space* Spaces::set(std::string_view name_space, const NamespaceRules& rules) {
  if (name_space.empty()) {
    rest().set(rules);
    return &rest();
  }
  const std::lock_guard lock(mutex_);
  auto found = by_name_.find(name_space);
  if (found == by_name_.end()) {
    const std::size_t lane = count();
    if (lane == spaces_.size()) return nullptr;
    spaces_[lane] = std::make_unique<Space>(std::string(name_space), lane);
    spaces_[lane]->set(rules);
    found = by_name_.emplace(name_space, spaces_[lane].get()).first;
    count_.store(lane + 1, std::memory_order_release);
  }
  found->second->set(rules);
  return found->second;
}

std::optional<Spaces::Choice> Spaces::choose(Space* only, std::uint64_t before_ns) noexcept {
  std::optional<Choice> best;
  if (only != nullptr) {
    choose_of(*only, before_ns, best);
    return best;
  }
  const std::size_t lanes = count();
  for (std::size_t lane = 0; lane < lanes; ++lane) choose_of(*spaces_[lane], before_ns, best);
  return best;
}

void Spaces::choose_of(Space& space, std::uint64_t before_ns,
                       std::optional<Choice>& best) noexcept {
  for (std::size_t at = 0; at < POLICIES; ++at) {
    const auto kind = static_cast<PolicyKind>(at);
    const auto pick = next_of(kind, space.board(kind), before_ns);
    if (!pick) continue;
    const Choice choice{&space, kind,
                        kind == PolicyKind::priority ? static_cast<std::uint8_t>(pick->queue)
                                                     : space.eviction_class(),
                        *pick};
    const bool is_first =
        !best || choice.eviction_class < best->eviction_class ||
        (choice.eviction_class == best->eviction_class && choice.pick.used_ns < best->pick.used_ns);
    if (is_first) best = choice;
  }
}

}  // namespace gd2fs
