// Page names: those of a whole batch, back to back in memory that its requests share.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gd2fs {

class PageNames {
 public:
  /// One for each key; see `page_name`.
  PageNames(std::string_view name_space, std::span<const std::string> keys);
  /// The one that `page_name` has made.
  explicit PageNames(std::string_view name);

  std::size_t size() const noexcept { return ends_.size() - 1; }
  std::string_view operator[](std::size_t page) const noexcept {
    return {memory_.get() + ends_[page], ends_[page + 1] - ends_[page]};
  }
  /// What the names lie in: whoever borrows one keeps this.
  const std::shared_ptr<const char[]>& memory() const noexcept { return memory_; }

 private:
  std::vector<std::uint32_t> ends_;  // and the beginning: at most BATCH_ITEMS_MAX names fit
  std::shared_ptr<const char[]> memory_;
};

}  // namespace gd2fs
