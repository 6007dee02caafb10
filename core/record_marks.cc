#include "record_marks.h"

#include <algorithm>

namespace gd2fs {

void RecordMarks::set(std::string_view path, std::uint64_t epoch, Mark mark,
                      const RecordVersion& version) {
  auto found = marks_.find(path);
  if (found == marks_.end()) {
    make_room(epoch);
    if (marks_.size() >= marks_max_) {
      full_epoch_ = epoch;
      return forget_version(version, epoch);
    }
    found = marks_.emplace(std::string(path), Entry{}).first;
  }
  found->second = {epoch, mark, std::max(found->second.version, version)};
}

/// What was learned in older epochs says nothing any more.
void RecordMarks::make_room(std::uint64_t epoch) {
  if (marks_.size() < marks_max_ || full_epoch_ == epoch) return;
  std::erase_if(marks_, [&](const auto& each) { return each.second.epoch != epoch; });
}

void RecordMarks::forget_version(const RecordVersion& version, std::uint64_t epoch) {
  if (attempts_epoch_ != epoch) last_attempts_.clear();
  attempts_epoch_ = epoch;
  if (version.epoch != epoch) return;
  std::uint64_t& last = last_attempts_[version.boot];
  last = std::max(last, version.attempt);
}

void RecordMarks::erase(std::string_view path) {
  const auto found = marks_.find(path);
  if (found != marks_.end()) marks_.erase(found);
}

Mark RecordMarks::find(std::string_view path, std::uint64_t epoch) const {
  const auto found = marks_.find(path);
  if (found != marks_.end() && found->second.epoch == epoch) return found->second.mark;
  return full_epoch_ == epoch ? Mark::forgotten : Mark::none;
}

RecordVersion RecordMarks::version(std::string_view path, std::uint64_t epoch,
                                   std::uint64_t boot) const {
  RecordVersion version;
  const auto found = marks_.find(path);
  if (found != marks_.end()) version = found->second.version;
  if (attempts_epoch_ != epoch) return version;
  const auto last = last_attempts_.find(boot);
  if (last == last_attempts_.end()) return version;
  return std::max(version, RecordVersion{epoch, boot, last->second});
}

}  // namespace gd2fs
