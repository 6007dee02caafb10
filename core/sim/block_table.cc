#include "block_table.h"

#include <utility>

namespace gd2fs::sim {

namespace {

constexpr std::size_t PLACES_MIN = 64;

}  // namespace

void BlockTable::insert(Block block, std::uint32_t slot) {
  if ((size_ + 1) * 4 > places_.size() * 3) grow();
  std::size_t at = home(block);
  while (places_[at].slot != NO_SLOT) at = next(at);
  places_[at] = {block, slot};
  ++size_;
}

void BlockTable::erase(Block block) {
  std::size_t hole = home(block);
  while (places_[hole].block != block || places_[hole].slot == NO_SLOT) hole = next(hole);
  const std::size_t mask = places_.size() - 1;
  for (std::size_t at = next(hole); places_[at].slot != NO_SLOT; at = next(at)) {
    // It may fill the hole unless its home lies behind the hole.
    if (((at - home(places_[at].block)) & mask) < ((at - hole) & mask)) continue;
    places_[hole] = places_[at];
    hole = at;
  }
  places_[hole] = {};
  --size_;
}

void BlockTable::clear() noexcept {
  places_.clear();
  size_ = 0;
}

void BlockTable::grow() {
  const std::vector<Place> old = std::exchange(places_, {});
  places_.resize(old.empty() ? PLACES_MIN : old.size() * 2);
  shift_ = 64;
  for (std::size_t rows = places_.size() / ROW; rows > 1; rows /= 2) --shift_;
  size_ = 0;
  for (const Place& each : old)
    if (each.slot != NO_SLOT) insert(each.block, each.slot);
}

}  // namespace gd2fs::sim
