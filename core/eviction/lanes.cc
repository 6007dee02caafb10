#include "lanes.h"

#include <algorithm>

namespace gd2fs {

Lanes::Lanes(Spaces& spaces, std::size_t shard)
    : spaces_(spaces),
      shard_(shard),
      lanes_(1),
      rest_(static_cast<Lru*>(&order_for(spaces.rest(), PolicyKind::lru))) {}

void Lanes::add(Piece& piece, std::uint64_t now_ns, std::uint64_t used_ns) {
  settle(piece);
  if (piece.is_pinned()) return;
  Space& space = piece.space();
  EvictionPolicy& order = order_for(space, space.policy());
  EvictionHook& hook = piece.use_;
  hook.policy = &order;
  hook.piece = &piece;
  hook.grains = static_cast<std::uint32_t>(piece.taken_bytes() / GRAIN_BYTES);
  hook.eviction_class = class_of(piece);
  order.add(hook, now_ns, used_ns);
}

void Lanes::add_cold(Piece& piece) {
  settle(piece);
  HookList& cold = cold_for(piece.space());
  piece.use_.piece = &piece;
  cold.link_newest(piece.use_, piece.use_.used_ns);
  piece.space().note_coldest(shard_, cold.oldest());
}

EvictionHook* Lanes::coldest(const Space& space) noexcept {
  const bool is_known = space.lane() < cold_.size() && cold_[space.lane()] != nullptr;
  return is_known ? cold_[space.lane()]->oldest() : nullptr;
}

void Lanes::pass_over_coldest(Space& space, std::uint64_t now_ns) noexcept {
  EvictionHook* const hook = coldest(space);
  if (hook == nullptr) return;
  HookList::unlink(*hook);
  cold_[space.lane()]->link_newest(*hook, now_ns);
  space.note_coldest(shard_, coldest(space));
}

void Lanes::remove_cold(Piece& piece) noexcept {
  EvictionHook& hook = piece.use_;
  if (hook.piece == nullptr) return;
  HookList::unlink(hook);
  hook.piece = nullptr;
  piece.space().note_coldest(shard_, coldest(piece.space()));
}

HookList& Lanes::cold_for(const Space& space) {
  if (space.lane() >= cold_.size()) cold_.resize(space.lane() + 1);
  std::unique_ptr<HookList>& cold = cold_[space.lane()];
  if (cold == nullptr) cold = std::make_unique<HookList>();
  return *cold;
}

void Lanes::remove(Piece& piece) {
  if (piece.is_pinned_.exchange(false)) {
    piece.space().unpin(piece.taken_bytes());
    spaces_.unpin(piece.taken_bytes());
  }
  EvictionHook& hook = piece.use_;
  if (hook.policy == nullptr) return remove_cold(piece);
  leave_order(hook);
}

void Lanes::evict(Piece& piece) {
  if (piece.use_.policy != nullptr) piece.use_.policy->evicted(piece.use_);
  remove(piece);
}

bool Lanes::pin(Piece& piece) {
  const std::uint64_t bytes = piece.taken_bytes();
  if (piece.is_pinned()) return true;
  if (!spaces_.try_pin(bytes)) return false;
  if (!piece.space().try_pin(bytes)) {
    spaces_.unpin(bytes);
    return false;
  }
  EvictionHook& hook = piece.use_;
  if (hook.policy != nullptr) leave_order(hook);
  piece.is_pinned_ = true;
  return true;
}

void Lanes::unpin(Piece& piece, std::uint64_t now_ns) {
  if (!piece.is_pinned()) return;
  remove(piece);
  add(piece, now_ns, now_ns);
}

EvictionPolicy* Lanes::order_of(const Space& space, PolicyKind kind) noexcept {
  if (space.lane() >= lanes_.size()) return nullptr;
  return lanes_[space.lane()][static_cast<std::size_t>(kind)].get();
}

// Oldest first, as if each came at the time at which it was used: so they come in the same order
// into the one where they belong.
void Lanes::settle(Space& space) {
  settle_cold(space);
  if (space.lane() >= lanes_.size()) return;
  std::vector<Piece*> strangers;
  for (const auto& order : lanes_[space.lane()]) {
    if (order == nullptr) continue;
    for (std::size_t queue = 0; queue < EVICTION_CLASSES; ++queue) {
      for (EvictionHook* hook = order->head(queue); hook != nullptr; hook = order->next(*hook))
        if (!is_settled(*hook->piece)) strangers.push_back(hook->piece);
    }
  }
  std::stable_sort(strangers.begin(), strangers.end(), [](const Piece* a, const Piece* b) {
    return a->use_.used_ns < b->use_.used_ns;
  });
  for (Piece* const piece : strangers) {
    const std::uint64_t used_ns = piece->use_.used_ns;
    leave_order(piece->use_);
    add(*piece, used_ns, used_ns);
  }
}

// They come behind what is there: a namespace that has just got rules has nothing there yet.
void Lanes::settle_cold(Space& space) {
  EvictionHook* hook = coldest(space);
  while (hook != nullptr) {
    EvictionHook* const next = cold_[space.lane()]->next(*hook);
    Piece& piece = *hook->piece;
    if (&spaces_.of(piece.name(), piece.is_page()) != &space) {
      HookList::unlink(*hook);
      add_cold(piece);
    }
    hook = next;
  }
  space.note_coldest(shard_, coldest(space));
}

void Lanes::settle(Piece& piece) {
  Space& now = spaces_.of(piece.name(), piece.is_page());
  Space* const before = piece.space_.exchange(&now);
  if (before == &now) return;
  const std::uint64_t bytes = piece.taken_bytes();
  now.take(bytes);
  before->give_back(bytes);
  now.add_disk(piece.disk_bytes());
  before->add_disk(-piece.disk_bytes());
  if (!piece.is_pinned()) return;
  before->unpin(bytes);
  now.force_pin(bytes);
}

void Lanes::leave_order(EvictionHook& hook) {
  hook.policy->remove(hook);
  hook.policy = nullptr;
  hook.piece = nullptr;
}

EvictionPolicy& Lanes::order_for(Space& space, PolicyKind kind) {
  if (space.lane() >= lanes_.size()) lanes_.resize(space.lane() + 1);
  std::unique_ptr<EvictionPolicy>& order = lanes_[space.lane()][static_cast<std::size_t>(kind)];
  if (order == nullptr) order = make_policy(kind, space.board(kind), shard_);
  return *order;
}

std::uint8_t Lanes::class_of(const Piece& piece) const noexcept {
  return piece.eviction_class_ < EVICTION_CLASSES ? piece.eviction_class_
                                                  : piece.space().eviction_class();
}

bool Lanes::is_settled(const Piece& piece) noexcept {
  Space& space = spaces_.of(piece.name(), piece.is_page());
  const EvictionPolicy* const order = order_of(space, space.policy());
  return piece.use_.policy == order && piece.use_.eviction_class == class_of(piece);
}

}  // namespace gd2fs
