// Registrations: memory of a client's caller that nodes may be told of, to put bytes into and to
// take bytes out of. Known to nodes by numbers.
//
// For good (`add` to `drop`), or for one request.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "client.h"
#include "transport/ucx_context.h"

namespace gd2fs {

class Registrations;

/// Whoever holds one may have bytes of it moved.
class Registration {
 public:
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  std::uint32_t number() const noexcept { return number_; }
  const ucx::Memory& memory() const noexcept { return *memory_; }
  /// Of a GPU's memory: may nodes reach it straight? That takes cards, and a UCX that knows CUDA;
  /// else processors would move the bytes, which cannot touch it.
  bool is_direct() const noexcept;

 private:
  friend class Registrations;
  Registration(std::shared_ptr<Registrations> owner, std::uint32_t number, ucx::MemoryRef memory)
      : owner_(std::move(owner)), number_(number), memory_(std::move(memory)) {}

  const std::shared_ptr<Registrations> owner_;
  const std::uint32_t number_;
  ucx::MemoryRef memory_;
};
using RegistrationRef = std::shared_ptr<const Registration>;

/// Any thread.
class Registrations : public std::enable_shared_from_this<Registrations> {
 public:
  explicit Registrations(ucx::ContextRef context, bool is_direct_by_any = false)
      : context_(std::move(context)), is_direct_by_any_(is_direct_by_any) {}

  const ucx::ContextRef& context() const noexcept { return context_; }
  /// Until it has been dropped as often as it was added.
  Error add(Buffer range);
  /// No new request uses it from here on; returns when no old one does, and nobody reaches the
  /// memory any more. Not on an I/O thread. False: it was never added.
  bool drop(Buffer range);
  /// One that was added and covers the range, or nothing.
  RegistrationRef find(Buffer range) const;
  /// Drops all, however often they were added. Nothing uses them any more.
  void clear();
  /// A new one for as long as it is held; nothing when the memory cannot be registered.
  RegistrationRef make(Buffer range);

 private:
  friend class Registration;
  using Range = std::pair<const std::byte*, std::size_t>;  // where it begins, and its bytes
  struct Added {
    std::uint32_t count = 0;
    RegistrationRef registration;
  };
  RegistrationRef hold(ucx::MemoryRef memory);

  const ucx::ContextRef context_;
  const bool is_direct_by_any_;
  mutable std::mutex mutex_;  // Guards: all below.
  std::map<Range, Added> added_;
  std::uint32_t last_number_ = 0;
  std::set<std::uint32_t> held_;  // numbers of registrations that someone holds
  std::condition_variable ended_;
};

}  // namespace gd2fs
