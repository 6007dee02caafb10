// A store with a disk in memory below it, and what tests of the tier do with both.
#pragma once

#include <future>
#include <memory>
#include <string_view>
#include <utility>

#include "fake_disk.h"
#include "store_setup.h"

namespace gd2fs {

inline constexpr std::size_t ARENA = 8 * MiB;
inline constexpr std::uint64_t PAGE =
    96 * KiB + 100;  // ends in the middle of a block and of a grain

struct Setup {
  std::shared_ptr<FakePlatter> platter = std::make_shared<FakePlatter>();
  FakeDisk* disk = nullptr;  // of the store that was opened last
  Demote demote = Demote::back;
  DiskKeep keep = DiskKeep::inclusive;
  double dirty_share = 0.25;

  std::unique_ptr<Store> open() {
    StoreOptions options;
    options.arena = {ARENA, Rung::plain, ""};
    options.evict_above = options.evict_below = 1;
    options.node_name = "n1";
    options.boot = 7;
    options.tier.disk.places = {{"nowhere", 1 * GiB}};
    options.tier.demote = demote;
    options.tier.keep = keep;
    options.tier.dirty_share = dirty_share;
    options.tier.open_disk = [this](const DiskOptions&, const Disk::Visit& visit) {
      auto opened = std::make_unique<FakeDisk>(platter);
      opened->visit_all(visit);
      disk = opened.get();
      return Result<std::unique_ptr<Disk>>(std::move(opened));
    };
    auto store = Store::open(options);
    REQUIRE(store);
    return std::move(*store);
  }
};

/// As clients do: a node that is busy is asked again.
inline Status put_until(Store& store, std::string_view name, std::uint64_t length,
                        std::uint64_t mark) {
  Status status = Status::retry;
  CHECK(wait_until([&] {
    status = put_page(store, name, length, mark);
    return status != Status::retry;
  }));
  return status;
}

inline PieceRef load(Store& store, const PieceRef& piece, Status& status) {
  std::promise<std::pair<Status, PieceRef>> ended;
  store.load(piece, LoadRank::demand, nullptr, [&](Status told, PieceRef loaded) {
    ended.set_value({told, std::move(loaded)});
  });
  auto answer = ended.get_future().get();
  status = answer.first;
  return std::move(answer.second);
}

/// Loaded if it must be; nothing: a miss.
inline PieceRef get(Store& store, std::string_view name) {
  const PieceRef found = store.find_page(name, true);
  if (found == nullptr) return nullptr;
  Status status = Status::ok;
  return load(store, found, status);
}

inline Status flush(Store& store, const PieceRef& piece) {
  std::promise<Status> ended;
  store.flush(piece, [&](Status status) { ended.set_value(status); });
  return ended.get_future().get();
}

inline bool is_all_clean(const Store& store) {
  return wait_until([&] { return store.counts().dirty_bytes == 0; });
}

/// Pages `[0, count)`, more than memory holds, so that the first ones are cold.
inline void fill_over(Store& store, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) REQUIRE(put_until(store, key(i), PAGE, i) == Status::ok);
}

inline constexpr std::size_t THREE_ARENAS = 3 * ARENA / PAGE;

}  // namespace gd2fs
