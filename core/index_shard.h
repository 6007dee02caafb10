// Index shard: one lock's worth of the index.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

#include "eviction/hook_list.h"
#include "eviction/lanes.h"
#include "file_table.h"
#include "index.h"
#include "page_table.h"

namespace gd2fs {

inline constexpr std::uint64_t NEVER = ~std::uint64_t{0};

struct Index::Shard {
  using ByTime = std::set<std::pair<std::int64_t, Piece*>>;

  Shard(Spaces& spaces, std::size_t number) : lanes(spaces, number) {}

  // Guards: everything below but `dirty_since_ns`. Held for arithmetic only; under it at most the
  // account's lock, those of the spaces, that of the departures or the disk's is taken.
  mutable std::mutex mutex;
  PageTable pages;
  FileTable files;
  Lanes lanes;
  HookList dirty;                                    // to be written, by when they became so
  ByTime staged;                                     // by when they were staged
  ByTime expiring;                                   // by when their time to live ends
  std::atomic<std::uint64_t> dirty_since_ns{NEVER};  // of the first of `dirty`: a hint

  void add_dirty(Piece& piece, EvictionHook& hook, std::uint64_t now_ns) {
    hook.piece = &piece;
    dirty.link_newest(hook, now_ns);
    note_dirty();
  }

  void remove_dirty(EvictionHook& hook) {
    HookList::unlink(hook);
    hook.piece = nullptr;
    note_dirty();
  }

 private:
  void note_dirty() noexcept {
    const EvictionHook* const first = dirty.oldest();
    dirty_since_ns.store(first == nullptr ? NEVER : first->used_ns, std::memory_order_relaxed);
  }
};

}  // namespace gd2fs
