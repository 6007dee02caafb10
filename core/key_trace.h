// Key trace: what is asked of a node, batch by batch, as numbers in place of names, for whoever
// records it. While nobody does, it costs each request one load.
//
// Threads write into lanes, each with a lock that hardly anybody else wants. What a lane has no
// room for is counted and left out. A recording that nobody takes from ends by itself.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "limits.h"
#include "siphash.h"
#include "wire.h"

namespace gd2fs::serve {

class KeyTrace {
 public:
  enum class Outcome : std::uint8_t { miss = 0, hit = 1, stored = 2 };

  /// One key; or the head of a batch, in front of its keys: when it was answered, and how many they
  /// are.
  struct Entry {
    std::uint64_t number = 0;  // of the key; or microseconds on this node's steady clock
    std::uint32_t size = 0;    // bytes, 0: not known; or how many keys
    Outcome outcome = Outcome::miss;
    wire::Op op{};  // none: a key
    std::uint16_t unused = 0;
  };
  static_assert(sizeof(Entry) == 16);

  /// Of one recording.
  struct Naming {
    SipKey key{};
    std::string name_space;  // only this one; empty: all
  };

  class Batch {
   public:
    explicit Batch(const Naming& naming) : naming_(naming) {}
    /// A page has neither chunk nor tag.
    void add(std::string_view name, bool is_page, std::uint64_t chunk, std::uint64_t tag,
             std::uint64_t bytes, Outcome outcome);

   private:
    friend class KeyTrace;
    const Naming& naming_;
    std::vector<Entry> entries_{1};  // the head first
  };
  using Fill = std::function<void(Batch& batch)>;

  bool is_on() const noexcept { return is_on_.load(std::memory_order_relaxed); }
  /// While somebody records: asks for what a batch consists of. `fill` runs before this returns.
  void note(wire::Op op, const Fill& fill);

  /// From now on, in place of any recording before. It ends by itself when nobody has taken for so
  /// long.
  void begin(Naming naming, std::int64_t silence_ms = KEY_TRACE_SILENCE_MS);
  struct Taken {
    std::vector<Entry> entries;  // whole batches, of each thread in its order
    bool is_more = false;
    std::uint64_t dropped = 0;  // keys since it began
  };
  Taken take(std::size_t entries_max);
  void end();

 private:
  struct Lane {
    std::mutex mutex;  // Guards: all below. Held to append one batch, or to copy some.
    std::vector<Entry> entries;
    std::size_t taken = 0;  // of them
    std::uint64_t dropped = 0;
  };
  static constexpr std::size_t LANES = 16;
  static constexpr std::size_t LANE_ENTRIES_MAX = KEY_TRACE_BYTES_MAX / LANES / sizeof(Entry);

  Lane& own_lane() noexcept;
  void append(Lane& lane, const std::vector<Entry>& batch);
  static void move_batches(Lane& lane, std::size_t entries_max, Taken& taken);
  std::shared_ptr<const Naming> naming_at(std::int64_t now_ms);
  void stop();

  std::atomic<bool> is_on_{false};
  std::atomic<std::int64_t> ends_ms_{0};
  std::array<Lane, LANES> lanes_;
  mutable std::mutex mutex_;  // Guards: naming_, and who begins and ends. Lanes' locks come after.
  std::shared_ptr<const Naming> naming_;  // nothing: it has ended
};

}  // namespace gd2fs::serve
