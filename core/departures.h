// Departures: what went lately, when and why. A ring of a fixed size: what asks `gd2fs why` finds,
// until newer ones take its place.
//
// A departure has the hash of its name, not the name: whoever asks has that.
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

#include "namespace_rules.h"

namespace gd2fs {

class Piece;

enum class Cause : std::uint8_t {
  ending = 0,   // the node ends; not noted
  evicted = 1,  // for lack of room
  over_quota = 2,
  expired = 3,
  dropped = 4,     // by a call: drop, unlink, clear
  superseded = 5,  // newer bytes cover it
  advice = 6,      // DONTNEED
  corrupt = 7,
  moved = 8,        // handed over: it belongs to other nodes
  not_demoted = 9,  // evicted before it could be written to disk
  not_admitted = 10,
  unlisted = 11,   // its writer ended before its commit
  disk_lost = 12,  // it was on disk only, and the disk let it go
};
inline constexpr std::size_t CAUSES = 13;
static_assert(static_cast<std::size_t>(Cause::disk_lost) + 1 == CAUSES);

std::string_view cause_name(Cause cause) noexcept;

/// Why something goes; `for_whom`: the namespace whose write needs the room, where one does.
struct Reason {
  Cause cause = Cause::ending;
  std::string_view for_whom{};
};

/// How much went for one cause since the node began.
struct DepartureCounts {
  std::uint64_t pieces = 0, bytes = 0;
};
using DeparturesByCause = std::array<DepartureCounts, CAUSES>;

struct Departure {
  std::int64_t when_ms = 0;  // CLOCK_REALTIME
  Cause cause = Cause::ending;
  PolicyKind policy = PolicyKind::lru;
  std::uint64_t chunk = 0, tag = 0, bytes = 0;
  std::string for_whom;
};

/// Departures of one kind that followed each other within GROUP_MS.
struct DepartureGroup {
  std::int64_t first_ms = 0, last_ms = 0;  // CLOCK_REALTIME
  Cause cause = Cause::ending;
  PolicyKind policy = PolicyKind::lru;
  std::string name_space, for_whom;
  std::uint64_t pieces = 0, bytes = 0;
};

class Departures {
 public:
  explicit Departures(std::size_t count_max);

  void note(const Piece& piece, const Reason& reason);
  void note(std::string_view name, std::uint64_t chunk, std::uint64_t tag, std::uint64_t bytes,
            PolicyKind policy, const Reason& reason);
  /// Of this name, the newest first, at most `count_max`.
  std::vector<Departure> find(std::string_view name, std::size_t count_max) const;
  /// What the node itself let go, nobody having asked for it: the newest groups first.
  std::vector<DepartureGroup> recent(std::size_t groups_max) const;
  /// Since when all are there, CLOCK_REALTIME in ms: earlier ones may have been overwritten.
  std::int64_t since_ms() const;
  bool has_forgotten() const;
  /// Why the last thing of this name and chunk went; `ending`: not known, or not any more. No lock,
  /// one look: quick enough for every miss.
  Cause last_cause_of(std::string_view name, std::uint64_t chunk) const noexcept;
  DeparturesByCause counts() const;

 private:
  struct Entry {
    std::array<std::uint64_t, 2> hash{};
    std::int64_t when_ms = 0;
    std::uint64_t chunk = 0, tag = 0, bytes = 0;
    Cause cause = Cause::ending;
    PolicyKind policy = PolicyKind::lru;
    std::uint16_t name_space = 0, for_whom = 0;
  };
  using Visit = std::function<bool(const Entry&)>;  // false: no more

  /// The newest first.
  void walk(const Visit& visit) const;
  std::uint16_t number_of(std::string_view name_space);

  const std::int64_t started_ms_;
  // By hash: what there is for `last_cause_of`. Of two with one place the later one stays.
  const std::size_t recent_places_;
  const std::unique_ptr<std::atomic<std::uint32_t>[]> recent_;
  mutable std::mutex mutex_;  // Guards: all below. An innermost lock, held to copy one entry in.
  std::vector<Entry> ring_;
  std::size_t next_ = 0;
  bool is_full_ = false;
  DeparturesByCause counts_{};
  std::vector<std::string> names_{""};  // of namespaces, by number
};

}  // namespace gd2fs
