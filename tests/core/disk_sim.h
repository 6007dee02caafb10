// A kernel and a device that can be made to stop at any write: what is on its way is then done in
// part, in any order. After a power cut what was not synced may be as it was before, grain by
// grain.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <set>

#include "disk_world.h"

namespace gd2fs {

class SimulatedIo final : public disk::DiskIo {
 public:
  enum class End { kill, power_cut };

  SimulatedIo(std::uint64_t seed, End end, std::uint64_t writes_until_end)
      : random_(seed), end_(end), writes_left_(writes_until_end) {
    thread_ = std::thread([this] { loop(); });
  }
  ~SimulatedIo() override {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
      called_.notify_one();
    }
    thread_.join();
  }
  const std::shared_ptr<std::atomic<bool>>& is_dead() const { return is_dead_; }

  int open(const std::string& path, int flags) override {
    if (*is_dead_) return -EIO;
    return DiskIo::open(path, flags);
  }
  int allocate(int file, std::uint64_t bytes) override {
    return *is_dead_ ? -EIO : DiskIo::allocate(file, bytes);
  }
  int remove(const std::string& path) override { return *is_dead_ ? -EIO : DiskIo::remove(path); }
  void submit(disk::IoRequest request) override {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(request));
    called_.notify_one();
  }

 private:
  using Grain = std::vector<std::byte>;

  void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      called_.wait(lock, [this] { return is_ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      std::swap(waiting_[random_() % waiting_.size()], waiting_.back());
      disk::IoRequest request = std::move(waiting_.back());
      waiting_.pop_back();
      const bool is_last = request.kind == disk::IoKind::write && !*is_dead_ && --writes_left_ == 0;
      if (is_last) die(request);
      lock.unlock();
      request.done(*is_dead_ ? -EIO : perform(request));
      request = {};
      lock.lock();
    }
  }

  std::int64_t perform(const disk::IoRequest& request) {
    if (request.kind == disk::IoKind::write && end_ == End::power_cut) remember(request);
    const std::int64_t got = disk::carry_out(request);
    if (request.kind == disk::IoKind::sync && got == 0) before_.erase(request.file);
    return got;
  }

  static std::size_t grains_of(const disk::IoRequest& request) {
    std::size_t bytes = 0;
    for (const iovec& run : request.runs) bytes += run.iov_len;
    return bytes / GRAIN_BYTES;
  }

  Grain load(int file, std::uint64_t at) {
    GrainBuffer grain(GRAIN_BYTES);
    REQUIRE(::pread(file, grain.span().data(), GRAIN_BYTES, static_cast<off_t>(at)) ==
            static_cast<ssize_t>(GRAIN_BYTES));
    return {grain.span().begin(), grain.span().end()};
  }
  void store(int file, std::uint64_t at, const Grain& bytes) {
    GrainBuffer grain(GRAIN_BYTES);
    std::memcpy(grain.span().data(), bytes.data(), GRAIN_BYTES);
    REQUIRE(::pwrite(file, grain.span().data(), GRAIN_BYTES, static_cast<off_t>(at)) ==
            static_cast<ssize_t>(GRAIN_BYTES));
  }

  void remember(const disk::IoRequest& request) {
    for (std::size_t i = 0; i < grains_of(request); ++i) {
      const std::uint64_t at = request.offset + i * GRAIN_BYTES;
      if (before_[request.file].count(at) == 0)
        before_[request.file].emplace(at, load(request.file, at));
    }
  }

  /// This write and all others that wait are done in part, or not at all.
  void die(const disk::IoRequest& last) {
    perform_some(last);
    for (const disk::IoRequest& each : waiting_)
      if (each.kind == disk::IoKind::write) perform_some(each);
    for (const auto& [file, grains] : before_)
      for (const auto& [at, bytes] : grains)
        if (random_() % 2 == 0) store(file, at, bytes);
    *is_dead_ = true;
  }

  void perform_some(const disk::IoRequest& request) {
    if (end_ == End::power_cut) remember(request);
    const std::size_t grains = grains_of(request);
    const auto manner = random_() % 4;  // nothing, a prefix, any of them, or all
    const std::size_t prefix = random_() % (grains + 1);
    std::vector<std::byte> bytes;
    for (const iovec& run : request.runs) {
      const auto* at = static_cast<const std::byte*>(run.iov_base);
      bytes.insert(bytes.end(), at, at + run.iov_len);
    }
    for (std::size_t i = 0; i < grains; ++i) {
      if (manner == 0 || (manner == 1 && i > prefix) || (manner == 2 && random_() % 2 == 0))
        continue;
      const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(i * GRAIN_BYTES);
      Grain grain = load(request.file, request.offset + i * GRAIN_BYTES);
      const bool is_torn = manner == 1 && i == prefix;
      const std::size_t sectors = is_torn ? random_() % 8 : 8;
      std::copy(from, from + static_cast<std::ptrdiff_t>(sectors * 512), grain.begin());
      store(request.file, request.offset + i * GRAIN_BYTES, grain);
    }
  }

  std::mt19937_64 random_;
  const End end_;
  std::uint64_t writes_left_;
  std::shared_ptr<std::atomic<bool>> is_dead_ = std::make_shared<std::atomic<bool>>(false);
  std::map<int, std::map<std::uint64_t, Grain>> before_;  // what was there at the last sync
  std::mutex mutex_;
  std::condition_variable called_;
  bool is_ending_ = false;
  std::vector<disk::IoRequest> waiting_;
  std::thread thread_;
};

}  // namespace gd2fs
