// Hedge: one read that is asked of a second node when the first one takes longer than it does
// nearly always.
//
// The second answer goes into memory of the hedge's own. When it is whole before the first one, the
// first request is let go: only once no byte of it can arrive any more is the caller's memory
// filled from the hedge's, and the request ends as if its own node had answered. In every other
// case the hedge is let go, and the caller's memory never knew of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "rpc.h"

namespace gd2fs {

class Network;

/// What hedging may cost: few requests more, and few bytes at a time. Of one client.
class HedgeBudget {
 public:
  static constexpr std::uint64_t BYTES_MAX = 64 * MiB;  // of second answers under way
  static constexpr std::uint64_t ONE_IN = 20;           // reads that could be hedged: 5 %
  static constexpr std::uint64_t SAVED_MAX = 16;        // hedges, for when many are late at once

  /// A read that could be hedged was asked.
  void note_read() noexcept { reads_.fetch_add(1); }
  /// False: it is spent. Else `give_back` follows.
  bool take(std::uint64_t bytes, std::uint64_t requests) noexcept;
  void give_back(std::uint64_t bytes) noexcept { bytes_.fetch_sub(bytes); }
  void note_win() noexcept { won_.fetch_add(1); }

  std::uint64_t hedged() const noexcept { return hedged_.load(); }
  std::uint64_t won() const noexcept { return won_.load(); }

 private:
  std::atomic<std::uint64_t> reads_{0}, spent_{0}, bytes_{0}, hedged_{0}, won_{0};
};

class Hedge : public std::enable_shared_from_this<Hedge> {
 public:
  static constexpr std::uint32_t NOBODY = UINT32_MAX;

  /// Watches `first`, which is about to be submitted to the link `slot`. `others`: by item, the
  /// slot of a node that may have it too, or NOBODY. `done` is called once, as `Rpc::done` is.
  static void watch(Network& network, RpcRef first, std::size_t slot,
                    std::vector<std::uint32_t> others, std::function<void()> done);

  Hedge(Network& network, RpcRef first, std::size_t slot, std::vector<std::uint32_t> others,
        std::function<void()> done);
  ~Hedge();

 private:
  // waiting -> asked -> winning, and from each to over
  //                  -> alone (the first one failed; the second may still come)
  enum class State { waiting, asked, winning, alone, over };

  /// Where the answer to one item of the first request is.
  struct Place {
    std::size_t request = 0;
    std::size_t item = 0;
  };

  void first_is_late();
  bool build();
  void first_ended();
  void second_ended();
  bool is_whole() const;
  void copy_over();
  void drop_seconds();

  Network& network_;
  const RpcRef first_;
  const std::size_t slot_;
  const std::vector<std::uint32_t> others_;
  const std::function<void()> done_;
  std::mutex mutex_;  // Guards: all below. Not held while a link is asked or `done_` runs.
  State state_ = State::waiting;
  std::vector<std::pair<std::size_t, RpcRef>> seconds_;  // with the slot that each goes to
  std::vector<Place> places_;                            // by item of the first
  std::unique_ptr<std::byte[]> memory_;
  std::uint64_t bytes_ = 0;  // of the budget
  std::size_t left_ = 0;     // of seconds_
};

}  // namespace gd2fs
