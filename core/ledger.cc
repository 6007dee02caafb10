#include "ledger.h"

#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "assertion.h"
#include "wire.h"

namespace gd2fs {

namespace {

constexpr std::uint32_t SUPERBLOCK_MAGIC = 0x53324447;  // "GD2S"
constexpr std::uint32_t SLAB_MAGIC = 0x4C324447;        // "GD2L"
constexpr std::uint32_t RECORD_MAGIC = 0x52324447;      // "GD2R"
constexpr std::uint32_t LAYOUT_VERSION = 1;
constexpr std::size_t HASHES_MAX = PART_BYTES_MAX / BLOCK_BYTES;

struct Superblock {
  std::uint32_t magic, version;
  std::uint64_t check;
  std::uint64_t arena_bytes, boot, bitmap_offset, bitmap_bytes;
  std::uint32_t name_bytes, reserved;
  char name[NODE_NAME_BYTES_MAX];
};
static_assert(sizeof(Superblock) <= GRAIN_BYTES);

struct SlabHead {
  std::uint32_t magic, slot_bytes;
  std::uint64_t check;
  std::uint64_t unit;
};
static_assert(sizeof(SlabHead) <= Ledger::SLOT_BYTES_MIN);

struct SlotHead {
  std::uint32_t magic;
  std::uint16_t name_bytes;
  std::uint8_t is_page, hashes;
  std::uint64_t check;
  std::uint64_t chunk, tag, seq, offset, length;
  std::int64_t expires_ms;
  std::uint64_t extent_offset;
  std::uint32_t extent_bytes, extent_place;
};
static_assert(sizeof(SlotHead) == 80 && offsetof(SlotHead, check) == 8);
static_assert(sizeof(SlotHead) + 8 * HASHES_MAX + NAME_BYTES_MAX <= Ledger::SLOT_BYTES_MAX);

// The sum over a structure whose check is zero, bound to where it lies: a copy elsewhere is not
// valid.
std::uint64_t sum_at(const void* from, std::size_t bytes, std::uint64_t place) {
  return XXH3_64bits_withSeed(from, bytes, place + 1);
}

template <class Head>
bool is_intact(Head head, std::uint64_t place) {
  const std::uint64_t check = std::exchange(head.check, 0);
  return check == sum_at(&head, sizeof head, place);
}

template <class T>
T load(std::span<const std::byte> arena, std::uint64_t offset) {
  T value;
  // Invariant: the caller has checked that [offset, offset + sizeof value) lies in the arena.
  std::memcpy(&value, arena.data() + offset, sizeof value);
  return value;
}

std::uint64_t bitmap_bytes_for(std::uint64_t arena_bytes) {
  return whole_grains((arena_bytes / Ledger::SLAB_BYTES + 7) / 8);
}

// Records are numbered by 32 bits: larger arenas count in larger steps.
std::uint64_t slot_unit_for(std::uint64_t arena_bytes) {
  return std::max<std::uint64_t>(Ledger::SLOT_BYTES_MIN, std::bit_ceil(arena_bytes) >> 32);
}

std::size_t record_bytes(const ExtentRecord& record) {
  return sizeof(SlotHead) + 8 * record.hashes.size() + record.name.size();
}

bool is_plausible(const ExtentRecord& record, std::uint64_t arena_bytes) {
  const Extent& extent = record.extent;
  const std::uint64_t end = std::uint64_t{extent.place} + extent.bytes;
  return extent.bytes > 0 && extent.bytes <= PART_BYTES_MAX && extent.offset % GRAIN_BYTES == 0 &&
         extent.offset < arena_bytes && whole_grains(extent.bytes) <= arena_bytes - extent.offset &&
         record.length <= std::max(PAGE_BYTES_MAX, CHUNK_BYTES_MAX) && end <= record.length &&
         record.hashes.size() == wire::blocks_of(end) - wire::blocks_of(extent.place);
}

void scan_slot(std::span<const std::byte> arena, std::uint64_t at, std::size_t slot_bytes,
               const std::function<void(const ExtentRecord&)>& visit) {
  alignas(8) std::array<std::byte, Ledger::SLOT_BYTES_MAX> copy;
  // Invariant: the slab lies in the arena, and a slot in its slab.
  std::memcpy(copy.data(), arena.data() + at, slot_bytes);
  SlotHead head = load<SlotHead>(copy, 0);
  if (head.magic != RECORD_MAGIC || head.name_bytes > NAME_BYTES_MAX || head.hashes > HASHES_MAX)
    return;
  const std::size_t bytes = sizeof head + 8u * head.hashes + head.name_bytes;
  if (bytes > slot_bytes) return;
  const std::uint64_t check = std::exchange(head.check, 0);
  std::memcpy(copy.data(), &head, sizeof head);
  if (check == 0 || check != sum_at(copy.data(), bytes, at)) return;
  std::array<std::uint64_t, HASHES_MAX> hashes;
  std::memcpy(hashes.data(), copy.data() + sizeof head, 8u * head.hashes);
  ExtentRecord record;
  record.name = {reinterpret_cast<const char*>(copy.data()) + sizeof head + 8u * head.hashes,
                 head.name_bytes};
  record.is_page = head.is_page != 0;
  record.chunk = head.chunk, record.tag = head.tag, record.seq = head.seq;
  record.offset = head.offset, record.length = head.length, record.expires_ms = head.expires_ms;
  record.extent.offset = head.extent_offset;
  record.extent.bytes = head.extent_bytes;
  record.extent.place = head.extent_place;
  record.hashes = std::span(hashes).first(head.hashes);
  if (is_plausible(record, arena.size())) visit(record);
}

void scan_slab(std::span<const std::byte> arena, std::uint64_t unit,
               const std::function<void(const ExtentRecord&)>& visit) {
  const std::uint64_t base = unit * Ledger::SLAB_BYTES;
  const auto head = load<SlabHead>(arena, base);
  if (head.magic != SLAB_MAGIC || head.unit != unit || !is_intact(head, base)) return;
  if (!std::has_single_bit(head.slot_bytes) || head.slot_bytes < Ledger::SLOT_BYTES_MIN ||
      head.slot_bytes > Ledger::SLOT_BYTES_MAX) {
    return;
  }
  for (std::uint64_t at = head.slot_bytes; at < Ledger::SLAB_BYTES; at += head.slot_bytes) {
    scan_slot(arena, base + at, head.slot_bytes, visit);
  }
}

}  // namespace

std::uint64_t Ledger::front_bytes(std::uint64_t arena_bytes) {
  return GRAIN_BYTES + bitmap_bytes_for(arena_bytes);
}

Ledger::Ledger(std::span<std::byte> arena, std::string_view node_name, std::uint64_t boot,
               Allocator& allocator, Account& account)
    : arena_(arena),
      allocator_(allocator),
      account_(account),
      slot_unit_(slot_unit_for(arena.size())) {
  GD2FS_ASSERT(front_bytes(arena.size()) <= arena.size() && slot_unit_ <= SLOT_BYTES_MAX);
  GD2FS_ASSERT(account_.try_records(front_bytes(arena.size())));
  Superblock block{};
  block.magic = SUPERBLOCK_MAGIC;
  block.version = LAYOUT_VERSION;
  block.arena_bytes = arena.size();
  block.boot = boot;
  block.bitmap_offset = GRAIN_BYTES;
  block.bitmap_bytes = bitmap_bytes_for(arena.size());
  block.name_bytes = static_cast<std::uint32_t>(std::min(node_name.size(), sizeof block.name));
  std::memcpy(block.name, node_name.data(), block.name_bytes);
  block.check = sum_at(&block, sizeof block, 0);
  // Invariant: the front was never given to the allocator; nobody else writes there. The bitmap
  // goes first: a new superblock must not vouch for slabs of before.
  std::memset(arena_.data() + block.bitmap_offset, 0, block.bitmap_bytes);
  std::memcpy(arena_.data(), &block, sizeof block);
}

std::uint32_t Ledger::write(const ExtentRecord& record) {
  GD2FS_ASSERT(record.hashes.size() <= HASHES_MAX && record.name.size() <= NAME_BYTES_MAX);
  const std::size_t bytes = record_bytes(record);
  const std::size_t slot_bytes = std::max<std::size_t>(std::bit_ceil(bytes), slot_unit_);
  const auto size_class = static_cast<std::uint32_t>(
      std::countr_zero(std::max(slot_bytes, SLOT_BYTES_MIN)) - std::countr_zero(SLOT_BYTES_MIN));
  const auto slot = take_slot(size_class);
  if (!slot) return 0;
  SlotHead head{};
  head.magic = RECORD_MAGIC;
  head.name_bytes = static_cast<std::uint16_t>(record.name.size());
  head.is_page = record.is_page ? 1 : 0;
  head.hashes = static_cast<std::uint8_t>(record.hashes.size());
  head.chunk = record.chunk, head.tag = record.tag, head.seq = record.seq;
  head.offset = record.offset, head.length = record.length, head.expires_ms = record.expires_ms;
  head.extent_offset = record.extent.offset;
  head.extent_bytes = record.extent.bytes;
  head.extent_place = record.extent.place;
  alignas(8) std::array<std::byte, SLOT_BYTES_MAX> image;
  std::memcpy(image.data(), &head, sizeof head);
  std::memcpy(image.data() + sizeof head, record.hashes.data(), record.hashes.size_bytes());
  std::memcpy(image.data() + sizeof head + record.hashes.size_bytes(), record.name.data(),
              record.name.size());
  const std::uint64_t check = sum_at(image.data(), bytes, *slot);
  // Invariant: the slot is this call's alone. Its check is zero until all of it is there, so a torn
  // one is skipped.
  std::byte* const at = arena_.data() + *slot;
  std::memcpy(at, image.data(), bytes);
  std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at + offsetof(SlotHead, check))).store(check);
  return static_cast<std::uint32_t>(*slot / slot_unit_);
}

void Ledger::strike(std::uint32_t record) noexcept {
  if (record == 0) return;
  std::byte* const at = arena_.data() + record * slot_unit_;
  // Invariant: a record's slot is 128 B aligned in a slab of the arena, so its check word may be
  // stored atomically.
  std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at + offsetof(SlotHead, check))).store(0);
}

void Ledger::release(std::uint32_t record) {
  if (record == 0) return;
  strike(record);
  const std::uint64_t at = record * slot_unit_;
  const std::lock_guard lock(mutex_);
  const auto found = slabs_.find(at / SLAB_BYTES);
  GD2FS_ASSERT(found != slabs_.end());
  Slab& slab = found->second;
  const std::size_t slot_bytes = SLOT_BYTES_MIN << slab.size_class;
  const std::size_t slot = at % SLAB_BYTES / slot_bytes;
  GD2FS_ASSERT((slab.taken[slot / 64] >> slot % 64 & 1) != 0);
  slab.taken[slot / 64] &= ~(std::uint64_t{1} << slot % 64);
  auto& open = open_[slab.size_class];
  if (slab.free_slots++ == 0) {
    slab.place = static_cast<std::uint32_t>(open.size());
    open.push_back(&slab);
  }
  // The last one of its class stays: the next record would only take it again.
  if (slab.free_slots == SLAB_BYTES / slot_bytes - 1) drop_slab(slab);
}

void Ledger::scan(std::span<const std::byte> arena,
                  const std::function<void(const ExtentRecord&)>& visit) {
  if (arena.size() < GRAIN_BYTES) return;
  const auto block = load<Superblock>(arena, 0);
  if (block.magic != SUPERBLOCK_MAGIC || block.version != LAYOUT_VERSION || !is_intact(block, 0))
    return;
  if (block.arena_bytes != arena.size() || block.bitmap_offset != GRAIN_BYTES ||
      block.bitmap_bytes != bitmap_bytes_for(arena.size()) ||
      front_bytes(arena.size()) > arena.size()) {
    return;
  }
  const std::uint64_t units = arena.size() / SLAB_BYTES;
  for (std::uint64_t word = 0; word * 64 < units; ++word) {
    auto bits = load<std::uint64_t>(arena, block.bitmap_offset + word * 8);
    for (; bits != 0; bits &= bits - 1) {
      const std::uint64_t unit = word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
      if (unit < units) scan_slab(arena, unit, visit);
    }
  }
}

std::optional<std::uint64_t> Ledger::take_slot(std::uint32_t size_class) {
  const std::lock_guard lock(mutex_);
  auto& open = open_[size_class];
  Slab* const slab = open.empty() ? new_slab(size_class) : open.back();
  if (slab == nullptr) return std::nullopt;
  std::size_t word = 0;
  while (~slab->taken[word] == 0) ++word;
  const auto bit = static_cast<std::size_t>(std::countr_one(slab->taken[word]));
  slab->taken[word] |= std::uint64_t{1} << bit;
  if (--slab->free_slots == 0) open.pop_back();
  return slab->extent.offset + (word * 64 + bit) * (SLOT_BYTES_MIN << size_class);
}

Ledger::Slab* Ledger::new_slab(std::uint32_t size_class) {
  if (!account_.try_records(SLAB_BYTES)) return nullptr;
  const auto extent = allocator_.allocate_aligned(SLAB_BYTES);
  if (!extent) {
    account_.move(Use::records, Use::free, SLAB_BYTES);
    return nullptr;
  }
  const std::uint64_t unit = extent->offset / SLAB_BYTES;
  Slab& slab = slabs_[unit];
  slab.extent = *extent;
  slab.size_class = size_class;
  const auto slots = static_cast<std::uint32_t>((SLAB_BYTES / SLOT_BYTES_MIN) >> size_class);
  slab.free_slots = slots - 1;
  slab.taken.fill(~std::uint64_t{0});
  for (std::uint32_t slot = 1; slot < slots; ++slot)
    slab.taken[slot / 64] &= ~(std::uint64_t{1} << slot % 64);
  SlabHead head{SLAB_MAGIC, static_cast<std::uint32_t>(SLOT_BYTES_MIN << size_class), 0, unit};
  head.check = sum_at(&head, sizeof head, extent->offset);
  // Invariant: the unit is ours alone. Old bytes of pieces, which a user could have made look like
  // records, are wiped before the bitmap says that records lie here.
  std::memset(arena_.data() + extent->offset, 0, SLAB_BYTES);
  std::memcpy(arena_.data() + extent->offset, &head, sizeof head);
  mark_unit(unit, true);
  slab.place = static_cast<std::uint32_t>(open_[size_class].size());
  open_[size_class].push_back(&slab);
  return &slab;
}

void Ledger::drop_slab(Slab& slab) {
  auto& open = open_[slab.size_class];
  open.back()->place = slab.place;
  open[slab.place] = open.back();
  open.pop_back();
  const Extent extent = slab.extent;
  mark_unit(extent.offset / SLAB_BYTES, false);
  slabs_.erase(extent.offset / SLAB_BYTES);
  allocator_.free(std::span(&extent, 1));
  account_.move(Use::records, Use::free, SLAB_BYTES);
}

void Ledger::mark_unit(std::uint64_t unit, bool is_slab) noexcept {
  // Invariant: the bitmap lies in the front, 8 B aligned, and is written under the lock only.
  auto* const words = reinterpret_cast<std::uint64_t*>(arena_.data() + GRAIN_BYTES);
  const std::uint64_t bit = std::uint64_t{1} << unit % 64;
  std::atomic_ref word(words[unit / 64]);
  is_slab ? word.fetch_or(bit) : word.fetch_and(~bit);
}

}  // namespace gd2fs
