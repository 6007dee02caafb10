#include "namespace_book.h"

namespace gd2fs::serve {

void NamespaceBook::learn(std::string_view name, Copy& copy) {
  const std::lock_guard lock(mutex_);
  if (has_room() && seen_ < COUNTED_NAMESPACES_MAX && !numbers_.contains(name)) {
    ++seen_;
    enter(name);
  }
  copy.version = version_.load(std::memory_order_relaxed);
  copy.is_full = !has_room() || seen_ == COUNTED_NAMESPACES_MAX;
  if (copy.is_full) {
    copy.numbers = numbers_;
  } else if (const auto found = numbers_.find(name); found != numbers_.end()) {
    copy.numbers.insert(*found);
  }
}

void NamespaceBook::reserve(std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (name.empty() || numbers_.contains(name) || !has_room()) return;
  enter(name);
}

void NamespaceBook::enter(std::string_view name) {
  const std::size_t number = numbers_.size() + 1;
  numbers_.emplace(name, number);
  version_.fetch_add(1, std::memory_order_relaxed);
}

std::vector<std::string> NamespaceBook::names() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names(numbers_.size() + 1);
  for (const auto& [name, number] : numbers_) names[number] = name;
  return names;
}

}  // namespace gd2fs::serve
