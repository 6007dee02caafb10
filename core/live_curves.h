// Live curves: what a node would find if its memory were larger or smaller, by namespace, told from
// what it is asked.
//
// Of keys whose place lies below a threshold every use is followed; of all others a look-up costs
// one comparison. What shares the node's memory is one order of uses, as its eviction sees it; a
// namespace with a quota has its own. What was asked in the present window and the one before is
// told. Many look-ups a second halve the threshold, so that following them costs next to nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "found_by_size.h"
#include "limits.h"
#include "reuse_stack.h"
#include "tally.h"

namespace gd2fs::serve {

/// Of one namespace.
struct NamespaceCurve {
  std::string name;               // empty: all that have no counts of their own
  std::uint64_t quota_bytes = 0;  // its memory; 0: it shares the node's
  double looks = 0, found = 0;    // counted: pages and pieces asked for, and found
  std::uint64_t followed = 0;     // of the looks
  double piece_bytes = 0;         // of what is used, the mean; 0: not known
  /// The share of looks that memory of GRAIN_BYTES * 2 ^ (at / STEPS_PER_OCTAVE) finds; larger ones
  /// find as much as the last.
  std::vector<double> shares;
  static constexpr double STEPS_PER_OCTAVE = 8;
};

class LiveCurves {
 public:
  /// What is asked for; `lane`: the number of its namespace (namespace_book.h).
  struct Key {
    std::size_t lane = 0;
    std::uint64_t place = 0;
    bool has_quota = false;  // the namespace's
  };

  /// `looks_per_s_max`: that are followed; of tests.
  explicit LiveCurves(std::int64_t now_ms, std::size_t looks_per_s_max = CURVE_LOOKS_PER_S_MAX)
      : looks_per_s_max_(static_cast<double>(looks_per_s_max)),
        turned_ms_(now_ms),
        turned_before_ms_(now_ms) {}

  /// The number of a key, spread evenly. `name_hash`: as the index has it.
  static std::uint64_t place_of(std::uint64_t name_hash) noexcept { return name_hash; }
  static std::uint64_t place_of(std::uint64_t name_hash, std::uint64_t chunk,
                                std::uint64_t tag) noexcept;

  /// Is it followed? Else nothing need be told of it.
  bool follows(std::uint64_t place) const noexcept {
    return place <= threshold_.load(std::memory_order_relaxed);
  }

  /// False: nothing is followed from now on.
  void set(bool is_on);

  // Of keys that are followed. Any thread.
  /// Somebody asks whether it is there: bytes may be asked for next.
  void probed(const Key& key);
  /// Its bytes are asked for. `bytes`: that it takes; nothing: it was not found. `is_use`: it is
  /// fresh from here on.
  void got(const Key& key, std::optional<std::uint64_t> bytes, bool is_use);
  /// It was put, or would have been.
  void stored(const Key& key, std::uint64_t bytes);

  bool is_turn_due(std::int64_t now_ms) const;
  /// Since when is told what was asked.
  std::int64_t since_ms() const;
  /// Begins the next window, if it is time. `counts`: of the namespaces, since the node's start.
  void turn(std::int64_t now_ms, std::span<const NamespaceCounts> counts);
  /// Of all namespaces that were asked for, those with most look-ups first.
  std::vector<NamespaceCurve> told(std::span<const NamespaceCounts> counts,
                                   std::size_t count_max) const;

 private:
  static constexpr double STEPS_PER_OCTAVE = 16;
  static constexpr std::size_t SHARED = 0;  // the stack of all that have no quota

  struct Window {
    FoundBySize found{STEPS_PER_OCTAVE};
    double weighed = 0;                      // looks, by their samples
    double gets = 0, gets_after_probes = 0;  // likewise
    std::uint64_t followed = 0;
    double uses = 0, used_bytes = 0;
  };
  struct Lane {
    Window now, before;
  };
  /// Look-ups that were counted.
  struct Counted {
    std::uint64_t probes_found = 0, probes = 0, gets_found = 0, gets = 0;
  };

  static Counted counted_of(const NamespaceCounts& counts) noexcept;
  static NamespaceCurve curve_of(const Lane& lane, const Counted& counted);
  static void add_shares(const Lane& lane, NamespaceCurve& curve);
  Counted counted_since(std::size_t lane, const NamespaceCounts& counts) const noexcept;
  ReuseStack* stack_of(const Key& key);
  void look(Window& window, const ReuseStack& stack, std::uint64_t place);
  void use(Window& window, ReuseStack& stack, std::uint64_t place, std::uint64_t bytes);
  void spend();
  void note_thresholds();

  const double looks_per_s_max_;
  std::atomic<std::uint64_t> threshold_{~std::uint64_t{0}};  // the highest of the stacks'

  mutable std::mutex mutex_;  // Guards: all below. Held for one key, or to work out all curves.
  bool is_on_ = true;
  std::map<std::size_t, std::unique_ptr<ReuseStack>> stacks_;  // SHARED, and by lane
  std::map<std::size_t, Lane> lanes_;
  std::unordered_set<std::uint64_t> probed_;   // and not asked for since
  std::vector<Counted> began_, began_before_;  // by lane, when the windows began
  std::int64_t turned_ms_, turned_before_ms_;
  std::uint64_t credited_ns_ = 0;
  double credit_ = CURVE_LOOKS_BURST;  // look-ups that may be followed now
};

}  // namespace gd2fs::serve
