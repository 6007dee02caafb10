// Record marks: what is known of paths that have no record here, for the epoch in which it was
// learned: unlinked, found to be nowhere, or forgotten.
//
// Bounded. When the table is full everything that is not known counts as forgotten, for the rest of
// the epoch: a miss, never a wrong answer. Not thread-safe; a shard of the records owns one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "record_version.h"

namespace gd2fs {

enum class Mark : std::uint8_t {
  none,       // nothing is known
  unlinked,   // a tombstone
  absent,     // everyone who could know says that there is none
  forgotten,  // there may be one elsewhere; it is not to be asked for
};

class RecordMarks {
 public:
  explicit RecordMarks(std::size_t marks_max) : marks_max_(marks_max) {}

  void set(std::string_view path, std::uint64_t epoch, Mark mark, const RecordVersion& version);
  void erase(std::string_view path);
  Mark find(std::string_view path, std::uint64_t epoch) const;
  /// The last attempt that is known of a path without a record.
  RecordVersion version(std::string_view path, std::uint64_t epoch, std::uint64_t boot) const;
  std::size_t count() const noexcept { return marks_.size(); }
  /// Calls for each tombstone of an epoch.
  template <class Visitor>
  void visit_unlinked(std::uint64_t epoch, Visitor&& visit) const {
    for (const auto& [path, entry] : marks_) {
      if (entry.epoch == epoch && entry.mark == Mark::unlinked) visit(path, entry.version);
    }
  }

 private:
  struct Entry {
    std::uint64_t epoch = 0;
    Mark mark = Mark::none;
    RecordVersion version;
  };
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
    using std::hash<std::string_view>::operator();
  };

  void make_room(std::uint64_t epoch);
  void forget_version(const RecordVersion& version, std::uint64_t epoch);

  const std::size_t marks_max_;
  std::unordered_map<std::string, Entry, Hash, std::equal_to<>> marks_;
  std::uint64_t full_epoch_ = ~std::uint64_t{0};  // none yet
  // Attempts of homes whose path was forgotten here: by boot, the last one. Of one epoch.
  std::map<std::uint64_t, std::uint64_t> last_attempts_;
  std::uint64_t attempts_epoch_ = 0;
};

}  // namespace gd2fs
