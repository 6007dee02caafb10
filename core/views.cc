#include "views.h"

#include <poll.h>

namespace gd2fs::serve {
namespace {

// Shares of the arena: past them a reader is given copies.
constexpr std::uint64_t SHARE = 4;
constexpr std::uint64_t SHARE_OF_VIEWER = 16;

bool has_ended(const tcp::Descriptor& process) {
  pollfd watched{process.get(), POLLIN, 0};
  return poll(&watched, 1, 0) == 1;
}

}  // namespace

Views::Views(std::uint64_t arena_bytes) noexcept
    : bytes_max_(arena_bytes / SHARE), bytes_of_viewer_max_(arena_bytes / SHARE_OF_VIEWER) {}

Views::~Views() {
  // A stream may hold a viewer longer; pieces must not outlive the store.
  Freed freed;
  for (auto& [pid, viewer] : viewers_) drop_all(*viewer, freed);
}

Views::ViewerRef Views::viewer(pid_t pid, tcp::Descriptor process) {
  if (!process) return nullptr;
  reap();  // a number may have been given to a new process since
  const std::lock_guard lock(mutex_);
  ViewerRef& viewer = viewers_[pid];
  if (viewer == nullptr) viewer = std::make_shared<Viewer>(std::move(process));
  return viewer;
}

bool Views::hold(Viewer& viewer, std::uint64_t lease, const PieceRef& piece) {
  // All of a piece stays in place, however little of it is looked at.
  const std::uint64_t bytes = piece->taken_bytes();
  const std::lock_guard lock(mutex_);
  if (viewer.has_ended_ || bytes_ + bytes > bytes_max_ ||
      viewer.bytes_ + bytes > bytes_of_viewer_max_)
    return false;
  std::vector<PieceRef>& pieces = viewer.pieces_[lease];
  if (pieces.empty()) ++count_;
  pieces.push_back(piece);
  viewer.bytes_ += bytes;
  bytes_ += bytes;
  return true;
}

bool Views::has(const Viewer& viewer, std::uint64_t lease) const {
  const std::lock_guard lock(mutex_);
  return viewer.pieces_.contains(lease);
}

void Views::release(Viewer& viewer, std::span<const std::uint64_t> leases) {
  Freed freed;
  const std::lock_guard lock(mutex_);
  for (const std::uint64_t lease : leases) {
    const auto found = viewer.pieces_.find(lease);
    if (found == viewer.pieces_.end()) continue;
    for (const PieceRef& piece : found->second) {
      viewer.bytes_ -= piece->taken_bytes();
      bytes_ -= piece->taken_bytes();
    }
    --count_;
    freed.push_back(std::move(found->second));
    viewer.pieces_.erase(found);
  }
}

void Views::drop_all(Viewer& viewer, Freed& freed) {
  for (auto& [lease, pieces] : viewer.pieces_) freed.push_back(std::move(pieces));
  count_ -= viewer.pieces_.size();
  bytes_ -= viewer.bytes_;
  viewer.pieces_.clear();
  viewer.bytes_ = 0;
}

void Views::reap() {
  Freed freed;
  const std::lock_guard lock(mutex_);
  for (auto each = viewers_.begin(); each != viewers_.end();) {
    Viewer& viewer = *each->second;
    if (has_ended(viewer.process_)) {
      drop_all(viewer, freed);
      viewer.has_ended_ = true;  // a child may have its streams still
      each = viewers_.erase(each);
    } else if (viewer.pieces_.empty() && each->second.use_count() == 1) {
      each = viewers_.erase(each);  // no stream of it is left
    } else {
      ++each;
    }
  }
}

bool Views::is_empty() const { return count() == 0; }

std::uint64_t Views::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

std::uint64_t Views::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace gd2fs::serve
