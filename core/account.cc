#include "account.h"

#include "assertion.h"

namespace gd2fs {

Account::Account(std::uint64_t arena_bytes, std::uint64_t filling_max)
    : arena_bytes_(arena_bytes), filling_max_(filling_max) {
  of(Use::free) = arena_bytes;
}

void Account::move(Use from, Use to, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  GD2FS_ASSERT(of(from) >= bytes);
  of(from) -= bytes;
  of(to) += bytes;
}

bool Account::try_records(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (of(Use::free) < bytes) return false;
  of(Use::free) -= bytes;
  of(Use::records) += bytes;
  return true;
}

Account::Admission Account::admit(std::uint64_t bytes, Use use) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t free = of(Use::free);
  if (bytes > arena_bytes_ - of(Use::records)) return {Verdict::too_large, free};
  if (of(use) > 0 && of(use) + bytes > filling_max_) return {Verdict::busy, free};
  if (free < bytes) return {Verdict::short_of_bytes, free};
  of(Use::free) -= bytes;
  of(use) += bytes;
  return {Verdict::admitted, free - bytes};
}

Account::Sums Account::sums() const {
  const std::lock_guard lock(mutex_);
  return sums_;
}

std::uint64_t Account::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return arena_bytes_ - sums_[static_cast<std::size_t>(Use::free)];
}

}  // namespace gd2fs
