// A seam that does what a test says about each call, and else what the kernel says.
#pragma once

#include "disk_world.h"

namespace gd2fs {

class FaultyIo final : public disk::DiskIo {
 public:
  /// 0: as ever; an errno: fails with it, nothing is moved; `cut`: moves fewer bytes than asked
  /// for.
  struct Fault {
    int error = 0;
    bool is_cut = false;
  };
  struct Rules {
    std::mutex mutex;
    std::function<Fault(const disk::IoRequest&)> on_call;
    std::function<int(const std::string&)> on_open;
    std::function<int(std::uint64_t)> on_allocate;
    template <class Change>
    void set(Change change) {
      const std::lock_guard lock(mutex);
      change(*this);
    }
  };

  FaultyIo(DiskIoKind kind, std::shared_ptr<Rules> rules) : rules_(std::move(rules)) {
    auto made = disk::make_io(kind, 8);
    REQUIRE(made);
    inner_ = std::move(*made);
  }

  int open(const std::string& path, int flags) override {
    const std::lock_guard lock(rules_->mutex);
    const int error = rules_->on_open ? rules_->on_open(path) : 0;
    return error != 0 ? -error : inner_->open(path, flags);
  }
  int allocate(int file, std::uint64_t bytes) override {
    const std::lock_guard lock(rules_->mutex);
    const int error = rules_->on_allocate ? rules_->on_allocate(bytes) : 0;
    return error != 0 ? -error : inner_->allocate(file, bytes);
  }
  void submit(disk::IoRequest request) override {
    Fault fault;
    {
      const std::lock_guard lock(rules_->mutex);
      if (rules_->on_call) fault = rules_->on_call(request);
    }
    if (fault.error != 0) return fail(std::move(request), fault.error);
    if (fault.is_cut) cut(request);
    inner_->submit(std::move(request));
  }

 private:
  void fail(disk::IoRequest request, int error) {
    disk::IoRequest nothing;  // fails by itself, on a thread of the seam
    nothing.kind = disk::IoKind::sync;
    nothing.done = [done = std::move(request.done), error](std::int64_t) { done(-error); };
    inner_->submit(std::move(nothing));
  }
  /// The first run alone, and a little that does not make a grain.
  static void cut(disk::IoRequest& request) {
    if (request.runs.empty()) return;
    const bool is_more = request.runs.size() > 1 || request.runs[0].iov_len > GRAIN_BYTES;
    request.runs.resize(1);
    request.runs[0].iov_len = std::min<std::size_t>(request.runs[0].iov_len, 2 * GRAIN_BYTES);
    if (!is_more) return;
    if (request.runs[0].iov_len > GRAIN_BYTES) request.runs[0].iov_len -= GRAIN_BYTES;
    request.done = [done = std::move(request.done)](std::int64_t moved) {
      done(moved > 0 ? moved + 100 : moved);
    };
  }

  std::shared_ptr<Rules> rules_;
  std::unique_ptr<disk::DiskIo> inner_;
};

}  // namespace gd2fs
