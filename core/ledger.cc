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
constexpr std::uint32_t LAYOUT_VERSION = 2;             // the first one was never read back
constexpr std::size_t HASHES_MAX = PART_BYTES_MAX / BLOCK_BYTES;

// A record's kind in one byte: is it a page, the class and the copies that were asked for.
constexpr std::uint8_t CLASS_STEP = 2, REPLICAS_STEP = CLASS_STEP * (EVICTION_CLASSES + 1);
static_assert(REPLICAS_STEP * (REPLICAS_MAX + 1) <= 256);

constexpr std::uint64_t COPY_BYTES = GRAIN_BYTES / 2;  // each of the two superblocks

struct Superblock {
  std::uint32_t magic, version;
  std::uint64_t check;
  std::uint64_t serial;  // the larger one of two counts
  std::uint64_t arena_bytes, boot, bitmap_offset, bitmap_bytes;
  std::int64_t machine_began_ms;
  std::uint8_t machine[16];
  std::uint32_t node_bytes, cluster_bytes;
  char node[NODE_NAME_BYTES_MAX];
  char cluster[CLUSTER_BYTES_MAX];
};
static_assert(sizeof(Superblock) <= COPY_BYTES);
static_assert(offsetof(Superblock, version) == 4 && offsetof(Superblock, check) == 8);

struct SlabHead {
  std::uint32_t magic, slot_bytes;
  std::uint64_t check;
  std::uint64_t unit;
};
static_assert(sizeof(SlabHead) <= Ledger::SLOT_BYTES_MIN);

struct SlotHead {
  std::uint32_t magic;
  std::uint16_t name_bytes;
  std::uint8_t kind, hashes;
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

using SlotVisitor = std::function<void(std::uint64_t at, const ExtentRecord&)>;

void scan_slot(std::span<const std::byte> arena, std::uint64_t at, std::size_t slot_bytes,
               const SlotVisitor& visit) {
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
  record.is_page = head.kind % CLASS_STEP != 0;
  record.eviction_class = static_cast<std::uint8_t>(head.kind % REPLICAS_STEP / CLASS_STEP);
  record.replicas = head.kind / REPLICAS_STEP;
  record.chunk = head.chunk, record.tag = head.tag, record.seq = head.seq;
  record.offset = head.offset, record.length = head.length, record.expires_ms = head.expires_ms;
  record.extent.offset = head.extent_offset;
  record.extent.bytes = head.extent_bytes;
  record.extent.place = head.extent_place;
  record.hashes = std::span(hashes).first(head.hashes);
  if (is_plausible(record, arena.size())) visit(at, record);
}

/// How long its slots are; 0: it is no slab.
std::uint32_t slot_bytes_of(std::span<const std::byte> arena, std::uint64_t unit) {
  const std::uint64_t base = unit * Ledger::SLAB_BYTES;
  const auto head = load<SlabHead>(arena, base);
  if (head.magic != SLAB_MAGIC || head.unit != unit || !is_intact(head, base)) return 0;
  const bool is_length = std::has_single_bit(head.slot_bytes) &&
                         head.slot_bytes >= Ledger::SLOT_BYTES_MIN &&
                         head.slot_bytes <= Ledger::SLOT_BYTES_MAX;
  return is_length ? head.slot_bytes : 0;
}

void scan_slab(std::span<const std::byte> arena, std::uint64_t unit, const SlotVisitor& visit) {
  const std::uint32_t slot_bytes = slot_bytes_of(arena, unit);
  if (slot_bytes == 0) return;
  for (std::uint64_t at = slot_bytes; at < Ledger::SLAB_BYTES; at += slot_bytes) {
    scan_slot(arena, unit * Ledger::SLAB_BYTES + at, slot_bytes, visit);
  }
}

/// Calls for every unit of an arena that its bitmap calls a slab.
template <class Visit>
void visit_units(std::span<const std::byte> arena, Visit&& visit) {
  const std::uint64_t units = arena.size() / Ledger::SLAB_BYTES;
  for (std::uint64_t word = 0; word * 64 < units; ++word) {
    auto bits = load<std::uint64_t>(arena, GRAIN_BYTES + word * 8);
    for (; bits != 0; bits &= bits - 1) {
      const std::uint64_t unit = word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
      if (unit < units) visit(unit);
    }
  }
}

/// The superblock that counts; magic 0 without any that is whole.
Superblock superblock_of(std::span<const std::byte> arena) {
  Superblock newest{};
  for (const std::uint64_t at : {std::uint64_t{0}, COPY_BYTES}) {
    const auto block = load<Superblock>(arena, at);
    if (block.magic != SUPERBLOCK_MAGIC || !is_intact(block, at)) continue;
    if (newest.magic == 0 || block.serial > newest.serial) newest = block;
  }
  return newest;
}

/// Is the layout the one that is written here?
bool is_readable(const Superblock& block, std::uint64_t arena_bytes) {
  return block.magic == SUPERBLOCK_MAGIC && block.version == LAYOUT_VERSION &&
         block.arena_bytes == arena_bytes && block.bitmap_offset == GRAIN_BYTES &&
         block.bitmap_bytes == bitmap_bytes_for(arena_bytes) &&
         Ledger::front_bytes(arena_bytes) <= arena_bytes &&
         block.node_bytes <= NODE_NAME_BYTES_MAX && block.cluster_bytes <= CLUSTER_BYTES_MAX;
}

}  // namespace

std::uint64_t Ledger::front_bytes(std::uint64_t arena_bytes) {
  return GRAIN_BYTES + bitmap_bytes_for(arena_bytes);
}

Ledger::Ledger(std::span<std::byte> arena, Allocator& allocator, Account& account)
    : arena_(arena),
      allocator_(allocator),
      account_(account),
      slot_unit_(slot_unit_for(arena.size())) {
  GD2FS_ASSERT(front_bytes(arena.size()) <= arena.size() && slot_unit_ <= SLOT_BYTES_MAX);
  GD2FS_ASSERT(account_.try_records(front_bytes(arena.size())));
}

void Ledger::format(const ArenaOwner& owner) {
  // Invariant: the front was never given to the allocator; nobody else writes there. The old
  // superblocks go first, then the bitmap: nothing vouches for slabs of before.
  std::memset(arena_.data(), 0, front_bytes(arena_.size()));
  own(owner);
}

/// Into the copy that does not count, so that one of them is whole at any moment.
void Ledger::own(const ArenaOwner& owner) {
  const Superblock before = superblock_of(arena_);
  Superblock block{};
  block.magic = SUPERBLOCK_MAGIC;
  block.version = LAYOUT_VERSION;
  block.serial = before.serial + 1;
  block.arena_bytes = arena_.size();
  block.boot = owner.boot;
  block.bitmap_offset = GRAIN_BYTES;
  block.bitmap_bytes = bitmap_bytes_for(arena_.size());
  block.machine_began_ms = owner.machine.began_ms;
  std::copy(owner.machine.id.begin(), owner.machine.id.end(), block.machine);
  block.node_bytes = static_cast<std::uint32_t>(std::min(owner.node.size(), sizeof block.node));
  std::memcpy(block.node, owner.node.data(), block.node_bytes);
  block.cluster_bytes =
      static_cast<std::uint32_t>(std::min(owner.cluster.size(), sizeof block.cluster));
  std::memcpy(block.cluster, owner.cluster.data(), block.cluster_bytes);
  const std::uint64_t at = block.serial % 2 == 1 ? 0 : COPY_BYTES;
  block.check = sum_at(&block, sizeof block, at);
  std::memcpy(arena_.data() + at, &block, sizeof block);
}

std::string Ledger::fault_of(std::span<const std::byte> arena, const ArenaOwner& owner,
                             ArenaOwner& before) {
  const auto first = load<Superblock>(arena, 0);
  const Superblock block = superblock_of(arena);
  const bool is_other = first.magic == SUPERBLOCK_MAGIC && first.version != LAYOUT_VERSION;
  if (block.magic == 0 && !is_other)
    return first.magic == 0 ? "it is new" : "its first page is damaged";
  if (is_other || block.version != LAYOUT_VERSION)
    return "another version of gd2fs wrote it, in layout " + std::to_string(first.version);
  if (!is_readable(block, arena.size())) return "its first page does not fit it";
  before.node.assign(block.node, block.node_bytes);
  before.cluster.assign(block.cluster, block.cluster_bytes);
  before.boot = block.boot;
  before.machine.began_ms = block.machine_began_ms;
  std::copy(std::begin(block.machine), std::end(block.machine), before.machine.id.begin());
  if (before.cluster != owner.cluster) return "it belongs to cluster `" + before.cluster + "`";
  if (before.node != owner.node) return "it belongs to node `" + before.node + "`";
  return "";
}

void Ledger::attach(const Visitor& visit) {
  visit_units(arena_, [&](std::uint64_t unit) {
    if (!attach_slab(unit, visit)) mark_unit(unit, false);
  });
}

/// False: it is none, or it has no record: then its memory is free.
bool Ledger::attach_slab(std::uint64_t unit, const Visitor& visit) {
  const std::uint32_t slot_bytes = slot_bytes_of(arena_, unit);
  if (slot_bytes < slot_unit_) return false;
  Slab slab;
  slab.size_class =
      static_cast<std::uint32_t>(std::countr_zero(slot_bytes) - std::countr_zero(SLOT_BYTES_MIN));
  const auto slots = static_cast<std::uint32_t>(SLAB_BYTES / slot_bytes);
  slab.taken.fill(~std::uint64_t{0});
  for (std::uint32_t slot = 1; slot < slots; ++slot)
    slab.taken[slot / 64] &= ~(std::uint64_t{1} << slot % 64);
  slab.free_slots = slots - 1;
  const std::uint64_t base = unit * SLAB_BYTES;
  const auto take = [&](std::uint64_t at) {
    const std::uint64_t slot = (at - base) / slot_bytes;
    slab.taken[slot / 64] |= std::uint64_t{1} << slot % 64;
    --slab.free_slots;
  };
  scan_slab(arena_, unit, [&](std::uint64_t at, const ExtentRecord&) { take(at); });
  if (slab.free_slots == slots - 1) return false;
  slab.extent.offset = base;
  slab.extent.bytes = SLAB_BYTES;
  if (!account_.try_records(SLAB_BYTES)) return false;
  if (!allocator_.claim(slab.extent)) {
    account_.move(Use::records, Use::free, SLAB_BYTES);
    return false;
  }
  {
    const std::lock_guard lock(mutex_);
    Slab& kept = slabs_[unit] = slab;
    kept.place = static_cast<std::uint32_t>(open_[kept.size_class].size());
    if (kept.free_slots > 0) open_[kept.size_class].push_back(&kept);
  }
  scan_slab(arena_, unit, [&](std::uint64_t at, const ExtentRecord& record) {
    ExtentRecord numbered = record;
    numbered.extent.record = static_cast<std::uint32_t>(at / slot_unit_);
    visit(numbered);
  });
  return true;
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
  GD2FS_ASSERT(record.eviction_class <= EVICTION_CLASSES && record.replicas <= REPLICAS_MAX);
  head.kind =
      static_cast<std::uint8_t>((record.is_page ? 1 : 0) + CLASS_STEP * record.eviction_class +
                                REPLICAS_STEP * record.replicas);
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
  if (record == 0 || is_frozen_.load(std::memory_order_relaxed)) return;
  std::byte* const at = arena_.data() + record * slot_unit_;
  // Invariant: a record's slot is 128 B aligned in a slab of the arena, so its check word may be
  // stored atomically.
  std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at + offsetof(SlotHead, check))).store(0);
}

void Ledger::release(std::uint32_t record) {
  if (record == 0 || is_frozen_.load(std::memory_order_relaxed)) return;
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

void Ledger::scan(std::span<const std::byte> arena, const Visitor& visit) {
  if (arena.size() < GRAIN_BYTES || !is_readable(superblock_of(arena), arena.size())) return;
  visit_units(arena, [&](std::uint64_t unit) {
    scan_slab(arena, unit, [&](std::uint64_t, const ExtentRecord& record) { visit(record); });
  });
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
