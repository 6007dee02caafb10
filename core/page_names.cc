#include "page_names.h"

#include <algorithm>

#include "limits.h"

namespace gd2fs {

static_assert(BATCH_ITEMS_MAX * NAME_BYTES_MAX <= UINT32_MAX);

PageNames::PageNames(std::string_view name_space, std::span<const std::string> keys) {
  std::size_t bytes = 0;
  for (const std::string& key : keys) bytes += name_space.size() + 1 + key.size();
  auto memory = std::make_unique<char[]>(bytes);
  char* at = memory.get();
  ends_.reserve(keys.size() + 1);
  ends_.push_back(0);
  for (const std::string& key : keys) {
    at = std::copy(name_space.begin(), name_space.end(), at);
    *at++ = '\0';
    at = std::copy(key.begin(), key.end(), at);
    ends_.push_back(static_cast<std::uint32_t>(at - memory.get()));
  }
  memory_ = std::move(memory);
}

PageNames::PageNames(std::string_view name) : ends_{0, static_cast<std::uint32_t>(name.size())} {
  auto memory = std::make_unique<char[]>(name.size());
  std::copy(name.begin(), name.end(), memory.get());
  memory_ = std::move(memory);
}

}  // namespace gd2fs
