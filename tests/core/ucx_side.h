// One side of UCX transfers in a test, and what a test needs of UCX on this machine.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "rdma.h"
#include "transport/ucx_worker.h"

namespace gd2fs {

inline ucx::Options ucx_options(const std::string& transports) {
  const char* const path = std::getenv("GD2FS_UCX");
  return {path != nullptr ? path : "", transports};
}

/// Of this machine, for tests; why not, when it has none.
inline const std::string& ucx_lack() {
  static const std::string lack = [] {
    const auto context = ucx::Context::open(ucx_options("tcp"));
    return context ? std::string() : const_cast<decltype(context)&>(context).error().message;
  }();
  return lack;
}

/// Transfers over the transports that the environment names, UCX's tcp else; where there is no UCX
/// the tests run without.
inline RdmaSettings test_rdma() {
  if (!ucx_lack().empty()) {
    MESSAGE("skipped, over TCP instead: ", ucx_lack());
    return {Rdma::off, {}};
  }
  const char* const transports = std::getenv("GD2FS_TEST_UCX_TLS");
  return {Rdma::on, ucx_options(transports != nullptr ? transports : "tcp")};
}

struct UcxSide {
  explicit UcxSide(const std::string& transports) {
    auto opened = ucx::Context::open(ucx_options(transports));
    REQUIRE_MESSAGE(opened, (opened ? "" : opened.error().message));
    context = *opened;
    auto made = context->make_worker();
    REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
    worker = std::move(*made);
  }
  ucx::MemoryRef take(std::vector<std::byte>& bytes) const {
    auto memory = context->register_memory(bytes);
    REQUIRE_MESSAGE(memory, (memory ? "" : memory.error().message));
    return *memory;
  }

  ucx::ContextRef context;
  std::unique_ptr<ucx::Worker> worker;
};

/// Progresses both, or one, until `is_true`; false after so long.
template <class Condition>
bool progress_until(ucx::Worker* one, ucx::Worker* other, Condition is_true, int ms = 10'000) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  while (!is_true()) {
    if (one != nullptr) one->progress();
    if (other != nullptr) other->progress();
    if (std::chrono::steady_clock::now() > until) return false;
  }
  return true;
}

}  // namespace gd2fs
