// Tally: what one worker thread has counted, by op, transport and namespace. Nobody else writes it,
// so counting takes no lock and shares no cache line; whoever asks sums over all threads.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "client.h"
#include "departures.h"
#include "histogram.h"
#include "namespace_book.h"
#include "wire.h"

namespace gd2fs::serve {

/// Why a look-up came to nothing: what became of the name lately (as Cause; absent: nothing is
/// known of it), or what stood in the way.
enum class Miss : std::uint8_t { absent = 0, no_room = CAUSES, timeout, refused, invalid };
inline constexpr std::size_t MISSES = CAUSES + 4;
static_assert(static_cast<std::size_t>(Miss::invalid) + 1 == MISSES);

inline constexpr Miss miss_of(Cause cause) noexcept { return static_cast<Miss>(cause); }
/// Of one word.
std::string miss_name(Miss miss);

enum class FoundIn : std::uint8_t { memory = 0, disk = 1 };
inline constexpr std::size_t TIERS = 2;

enum class Direction : std::uint8_t { in = 0, out = 1 };
inline constexpr std::size_t TRANSPORTS = 5;  // as Transport numbers them
using TransportBytes = std::array<std::array<std::uint64_t, 2>, TRANSPORTS>;

/// Ops by which requests are told apart; what is none of them is the last one.
inline constexpr std::size_t OPS = 25;
std::size_t op_index(wire::Op op) noexcept;
std::string_view op_name(std::size_t index) noexcept;

struct NamespaceTally {
  std::array<Count, TIERS> hits;
  std::array<Count, MISSES> misses;
  Count found, lacking;                // by EXISTS
  Count wholes_found, wholes_lacking;  // hits and misses; of ranges of one page the first alone
  Count read_bytes, written_bytes;
  std::size_t number = 0;  // in the book
};

struct NamespaceCounts {
  std::string name;  // empty: all that have no counts of their own
  std::array<std::uint64_t, TIERS> hits{};
  std::array<std::uint64_t, MISSES> misses{};
  std::uint64_t found = 0, lacking = 0, wholes_found = 0, wholes_lacking = 0, read_bytes = 0,
                written_bytes = 0;
};

struct TookCounts {
  std::string_view op;
  Transport transport = Transport::tcp;
  Histogram::Sum took;
};

class Tally {
 public:
  explicit Tally(NamespaceBook& book) : book_(book) {}

  // All of these: its own thread.
  Count requests, hits, misses, leases, bytes_spliced;
  void moved(Transport by, Direction direction, std::uint64_t bytes) noexcept {
    bytes_[static_cast<std::size_t>(by)][static_cast<std::size_t>(direction)].add(bytes);
  }
  void took(wire::Op op, Transport by, std::uint64_t took_ns) noexcept {
    took_[op_index(op)][static_cast<std::size_t>(by)].add(took_ns);
  }
  void hit(NamespaceTally& of, FoundIn tier) noexcept {
    hits.add();
    of.hits[static_cast<std::size_t>(tier)].add();
  }
  void miss(NamespaceTally& of, Miss why) noexcept {
    misses.add();
    of.misses[static_cast<std::size_t>(why)].add();
  }
  /// Of the namespace of a valid name.
  NamespaceTally& of(std::string_view name, bool is_page) {
    const bool is_known = last_ != nullptr && version_ == book_.version();
    return is_known && is_of_last(name, is_page) ? *last_ : look_up(name, is_page);
  }
  /// Of what belongs to no namespace that has counts of its own.
  NamespaceTally& other() { return lane(NamespaceBook::OTHER); }

 private:
  friend class Tallies;
  bool is_of_last(std::string_view name, bool is_page) const noexcept {
    const std::size_t begin = is_page ? 0 : 1, end = begin + last_name_.size();
    return name.size() > end && name[end] == (is_page ? '\0' : '/') &&
           name.substr(begin, last_name_.size()) == last_name_;
  }
  NamespaceTally& look_up(std::string_view name, bool is_page);
  NamespaceTally& lane(std::size_t number);

  NamespaceBook& book_;
  std::array<std::array<Count, 2>, TRANSPORTS> bytes_;
  NamespaceTally* last_ = nullptr;  // that was counted in, and its name
  std::string last_name_;
  std::uint64_t version_ = 0;  // of the book, then
  NamespaceBook::Copy known_;
  std::array<std::array<Histogram, TRANSPORTS>, OPS> took_;
  // Made by its thread, read by any; they go with the tally.
  std::array<std::atomic<NamespaceTally*>, NamespaceBook::NUMBERS> lanes_{};
  std::vector<std::unique_ptr<NamespaceTally>> own_;
};

/// The tallies of all threads of a node.
class Tallies {
 public:
  NamespaceBook book;

  /// One for a thread that begins; it stays until the node ends.
  Tally& open();

  struct Totals {
    std::uint64_t requests = 0, hits = 0, misses = 0, leases = 0, bytes_spliced = 0;
    TransportBytes bytes{};
    std::uint64_t bytes_of(Direction direction) const noexcept;
  };
  Totals totals() const;
  /// What nobody has asked for is left out.
  std::vector<TookCounts> took() const;
  std::vector<NamespaceCounts> namespaces() const;

 private:
  mutable std::mutex mutex_;  // Guards: all_. Held to add one, or to sum.
  std::vector<std::unique_ptr<Tally>> all_;
};

}  // namespace gd2fs::serve
