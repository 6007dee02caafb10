// Namespace book: which namespaces have counts of their own. A bounded number of them: names come
// from clients, and whoever reads the counts pays for each.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "limits.h"

namespace gd2fs::serve {

/// The first ones seen; and those with rules beside.
inline constexpr std::size_t COUNTED_NAMESPACES_MAX = 1'000;

class NamespaceBook {
 public:
  static constexpr std::size_t OTHER = 0;  // the number of all that have none of their own
  static constexpr std::size_t NUMBERS = 1 + COUNTED_NAMESPACES_MAX + RULED_NAMESPACES_MAX;

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };
  using Numbers = std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>>;

  /// What a thread knows of the book: it asks only for what it does not find there.
  struct Copy {
    Numbers numbers;
    std::uint64_t version = 0;
    bool is_full = false;  // a name that is not there has no number
  };

  /// Takes the name in where there is room, and brings the copy up to date with it.
  void learn(std::string_view name, Copy& copy);
  /// It has rules: it gets a number even when the book is full.
  void reserve(std::string_view name);
  /// Grows with each name.
  std::uint64_t version() const noexcept { return version_.load(std::memory_order_relaxed); }
  /// By number; OTHER has an empty one.
  std::vector<std::string> names() const;

 private:
  void enter(std::string_view name);
  bool has_room() const noexcept { return numbers_.size() + 1 < NUMBERS; }

  mutable std::mutex mutex_;  // Guards: all below. Held for one look-up, or a copy of all names.
  Numbers numbers_;
  std::size_t seen_ = 0;  // of them, those that were not reserved
  std::atomic<std::uint64_t> version_{0};
};

}  // namespace gd2fs::serve
