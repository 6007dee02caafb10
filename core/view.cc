#include "view.h"

namespace gd2fs {

View::View(const std::vector<Part>& parts, std::vector<LeaseHold> leases,
           std::vector<ArenaMapRef> maps)
    : maps_(std::move(maps)), leases_(std::move(leases)) {
  for (const Part& part : parts) {
    bytes_ += part.size();
    if (!parts_.empty() && parts_.back().data() + parts_.back().size() == part.data()) {
      parts_.back() = {parts_.back().data(), parts_.back().size() + part.size()};
    } else {
      parts_.push_back(part);
    }
  }
}

View::View(std::unique_ptr<std::byte[]> copy, std::uint64_t bytes)
    : copy_(std::move(copy)), bytes_(bytes) {
  parts_.push_back({copy_.get(), static_cast<std::size_t>(bytes)});
}

}  // namespace gd2fs
