// Store state: what a store is made of. For its own sources alone.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "account.h"
#include "evictor.h"
#include "extent.h"
#include "index.h"
#include "ledger.h"
#include "store.h"
#include "tier.h"

namespace gd2fs {

struct Store::State {
  State(Arena opened, const StoreOptions& options)
      : arena(std::move(opened)),
        account(arena.bytes(), arena.bytes() / FILLING_SHARE),
        allocator(Ledger::front_bytes(arena.bytes()), arena.bytes(), {arena.nodes(), &numa::here}),
        ledger(arena.memory(), allocator, account),
        spaces(arena.bytes() / PINNED_SHARE),
        departures(options.departures),
        index(account, ledger, spaces, departures) {}

  /// Once everything else is there.
  void start_evictor(const StoreOptions& options) {
    evictor.emplace(index, account, spaces, share(options.evict_above), share(options.evict_below),
                    [this](PieceRef dirty) {
                      if (tier != nullptr) tier->flusher().write_soon(std::move(dirty));
                    });
  }

  std::uint64_t share(double of_arena) const {
    return static_cast<std::uint64_t>(static_cast<double>(arena.bytes()) * of_arena);
  }

  Arena arena;
  Account account;
  Allocator allocator;
  Ledger ledger;
  Spaces spaces;
  Departures departures;
  Index index;
  std::unique_ptr<Tier> tier;      // or none
  std::optional<Evictor> evictor;  // until the end begins
  ArenaRecovery recovery;
  std::atomic<std::uint64_t> corrupt_pieces{0};
};

}  // namespace gd2fs
