// Map history: the maps that a node has seen, in order, and what follows from them for the records
// of files: who owns a path, and whether this node has owned it all the while (R3).
//
// Immutable: each map makes a new history. Epochs grow with gaps in their numbers; the sequence of
// maps is what counts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "limits.h"
#include "member.h"
#include "wire.h"

namespace gd2fs {

class MapHistory {
 public:
  MapHistory(Member self, const wire::Map& first, std::int64_t now_ms);

  /// This history and one map more. `is_gap`: maps between them were missed, so nothing of before
  /// counts.
  std::shared_ptr<const MapHistory> with(const wire::Map& map, bool is_gap,
                                         std::int64_t now_ms) const;

  const Member& self() const noexcept { return self_; }
  std::uint64_t epoch() const noexcept { return now().map.epoch; }
  const wire::Map& map() const noexcept { return now().map; }
  bool is_static() const noexcept { return map().provider == wire::Provider::fixed; }
  /// When this node learned of the map in force.
  std::int64_t learned_ms() const noexcept { return now().learned_ms; }
  std::int64_t lease_ms() const noexcept { return map().lease_ms; }
  bool has_before() const noexcept { return maps_.size() > 1; }
  /// 0: there is none before.
  std::uint64_t epoch_before() const noexcept {
    return has_before() ? maps_[maps_.size() - 2]->map.epoch : 0;
  }
  /// Of a path's record, under the map before, home first.
  std::vector<Member> owners_before(std::string_view path) const;

  /// Of a path's record, home first.
  std::vector<Member> owners(std::string_view path) const { return owners(now(), path); }
  /// Who may know of a record that this node does not know: the owners under the map before.
  /// Without one, the present owners of a static list, or else everybody.
  std::vector<Member> whom_to_ask(std::string_view path) const;
  bool is_home(std::string_view path) const;
  std::size_t replicas(std::string_view path) const { return replicas(now(), path); }

  /// R3: was this very member among the owners in every map from that epoch to now?
  bool is_owner_since(std::string_view path, std::uint64_t epoch) const;
  /// The same up to the map before; where there is none, to now.
  bool was_owner_since(std::string_view path, std::uint64_t epoch) const;

  /// Whom the map before names.
  std::vector<Member> members_before() const;
  bool has_now(const Member& member) const;
  /// Did it leave, by this map, because its lease is over?
  bool has_expired(const Member& member) const;
  /// Members that this map names as gone, without word that their lease is over.
  std::vector<Member> unsure_gone() const;
  /// All that this map names, but those that are gone.
  std::vector<Member> members() const;

 private:
  struct Seen {
    wire::Map map;
    Placement placement;
    std::int64_t learned_ms = 0;
  };
  using SeenRef = std::shared_ptr<const Seen>;

  MapHistory(Member self, std::vector<SeenRef> maps);
  const Seen& now() const noexcept { return *maps_.back(); }
  Member member(const wire::MapNode& node) const;
  static std::size_t replicas(const Seen& seen, std::string_view path);
  std::vector<Member> owners(const Seen& seen, std::string_view path) const;
  bool owns(const Seen& seen, std::string_view path) const;
  bool owns_from(std::string_view path, std::uint64_t epoch, std::size_t last) const;

  const Member self_;
  const std::vector<SeenRef> maps_;  // oldest first, never empty
};

using MapHistoryRef = std::shared_ptr<const MapHistory>;

}  // namespace gd2fs
