#include "lease_keeper.h"

#include "bootstrap.h"
#include "link.h"
#include "transport/unix.h"

namespace gd2fs {
namespace {

constexpr std::uint32_t TELL_MS = 500;

}  // namespace

void LeaseKeeper::release(std::uint64_t lease) {
  {
    const std::lock_guard lock(mutex_);
    if (link_ != nullptr) {
      released_.push_back(lease);
      is_waiting_ = true;
      if (released_.size() == 1) link_->wake_for_releases();
      return;
    }
  }
  tell_alone({lease});
}

std::vector<std::uint64_t> LeaseKeeper::take() {
  const std::lock_guard lock(mutex_);
  is_waiting_ = false;
  return std::exchange(released_, {});
}

void LeaseKeeper::take_back(std::span<const std::uint64_t> leases) {
  const std::lock_guard lock(mutex_);
  released_.insert(released_.end(), leases.begin(), leases.end());
  is_waiting_ = !released_.empty();
}

void LeaseKeeper::detach() {
  std::vector<std::uint64_t> left;
  {
    const std::lock_guard lock(mutex_);
    link_ = nullptr;
    left.swap(released_);
  }
  if (!left.empty()) tell_alone(left);
}

/// Best effort: a node that does not listen has lost them, or finds out when this process ends.
void LeaseKeeper::tell_alone(const std::vector<std::uint64_t>& leases) const {
  tcp::Descriptor socket = local::connect_to(socket_name_);
  if (!socket) return;
  wire::Hello hello = hello_;
  hello.capabilities |= wire::SHM | wire::VIEW;
  wire::Bytes frame;
  wire::encode_release(frame, leases, 0);
  say_after_greeting(Channel(std::move(socket)), hello, token_, frame, TELL_MS);
}

}  // namespace gd2fs
