// Strikes: copies on disk that shall never be found again, and are not struck out yet. Who has
// dropped something answers once nothing can bring it back.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace gd2fs {

class Strikes {
 public:
  std::uint64_t begin() {
    const std::lock_guard lock(mutex_);
    open_.insert(next_);
    return next_++;
  }

  void end(std::uint64_t number) {
    std::vector<std::function<void()>> due;
    {
      const std::lock_guard lock(mutex_);
      open_.erase(number);
      const std::uint64_t first = open_.empty() ? next_ : *open_.begin();
      const auto last = waiting_.upper_bound(first);
      for (auto each = waiting_.begin(); each != last; ++each)
        due.push_back(std::move(each->second));
      waiting_.erase(waiting_.begin(), last);
    }
    for (const auto& done : due) done();
  }

  /// Once all that have begun have ended; at once when none is open. Under no lock.
  void after_all(std::function<void()> done) {
    {
      const std::lock_guard lock(mutex_);
      if (!open_.empty()) {
        waiting_.emplace(next_, std::move(done));
        return;
      }
    }
    done();
  }

 private:
  std::mutex mutex_;  // Guards: all below. An innermost lock.
  std::uint64_t next_ = 0;
  std::set<std::uint64_t> open_;
  std::multimap<std::uint64_t, std::function<void()>> waiting_;  // until all below the number ended
};

}  // namespace gd2fs
