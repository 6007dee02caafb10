#include "registrations.h"

#include <limits>

namespace gd2fs {
namespace {

constexpr int LOOKS_MAX = 8;  // of ranges that begin before: they seldom lie in each other

bool covers(const Registration& registration, Buffer range) {
  return registration.memory().covers({range.at, range.bytes});
}

}  // namespace

Registration::~Registration() {
  memory_ = nullptr;  // before anyone is told
  const std::lock_guard lock(owner_->mutex_);
  owner_->held_.erase(number_);
  owner_->ended_.notify_all();
}

bool Registration::is_direct() const noexcept {
  const bool is_by_cards = memory_->is_device() && owner_->context()->has_cards();
  return is_by_cards || owner_->is_direct_by_any_;
}

RegistrationRef Registrations::hold(ucx::MemoryRef memory) {
  const std::lock_guard lock(mutex_);
  do {
    ++last_number_;
  } while (held_.contains(last_number_));
  const std::uint32_t number = last_number_;
  held_.insert(number);
  return RegistrationRef(new Registration(shared_from_this(), number, std::move(memory)));
}

RegistrationRef Registrations::make(Buffer range) {
  auto memory = context_->register_memory({range.at, range.bytes});
  return memory ? hold(std::move(*memory)) : nullptr;
}

Error Registrations::add(Buffer range) {
  const Range key{range.at, range.bytes};
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = added_.find(key); found != added_.end()) {
      ++found->second.count;
      return {};
    }
  }
  auto memory = context_->register_memory({range.at, range.bytes});
  if (!memory) return memory.error();
  RegistrationRef registration = hold(std::move(*memory));
  const std::lock_guard lock(mutex_);
  Added& added = added_[key];
  ++added.count;
  // Another thread's of this very moment may be in use: then it stays, and this one goes, unlocked.
  if (added.registration == nullptr) added.registration.swap(registration);
  return {};
}

void Registrations::clear() {
  std::map<Range, Added> added;
  const std::lock_guard lock(mutex_);
  added.swap(added_);
}

bool Registrations::drop(Buffer range) {
  RegistrationRef registration;
  {
    const std::lock_guard lock(mutex_);
    const auto found = added_.find({range.at, range.bytes});
    if (found == added_.end()) return false;
    if (--found->second.count > 0) return true;
    registration = std::move(found->second.registration);
    added_.erase(found);
  }
  const std::uint32_t number = registration->number();
  registration = nullptr;
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return !held_.contains(number); });
  return true;
}

RegistrationRef Registrations::find(Buffer range) const {
  const std::lock_guard lock(mutex_);
  auto after = added_.upper_bound({range.at, std::numeric_limits<std::size_t>::max()});
  for (int looks = 0; looks < LOOKS_MAX && after != added_.begin(); ++looks) {
    --after;
    if (covers(*after->second.registration, range)) return after->second.registration;
  }
  return nullptr;
}

}  // namespace gd2fs
