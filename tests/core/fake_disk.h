// A disk in memory: what is written is there, reads and writes end on a thread of its own. A test
// may hold them up, let them fail, flip bits and lose copies.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "disk/disk.h"

namespace gd2fs {

/// What is on it. Outlives the disk, as platters do.
struct FakePlatter {
  struct Record {
    DiskPiece piece;
    std::vector<std::byte> bytes;
  };
  std::mutex mutex;
  std::map<std::uint64_t, Record> records;  // in the order of writing
  std::uint64_t next = 1;
  std::atomic<bool> is_held{false};  // nothing ends
  std::atomic<bool> reads_fail{false}, writes_fail{false};
  std::atomic<std::uint64_t> reads{0}, writes{0}, strikes{0};

  void flip_all() {
    const std::lock_guard lock(mutex);
    for (auto& [number, record] : records) record.bytes[record.bytes.size() / 2] ^= std::byte{1};
  }
  std::size_t count() {
    const std::lock_guard lock(mutex);
    return records.size();
  }
};

class FakeDisk final : public Disk {
 public:
  explicit FakeDisk(std::shared_ptr<FakePlatter> platter) : platter_(std::move(platter)) {
    thread_ = std::thread([this] { loop(); });
  }

  ~FakeDisk() override {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    called_.notify_all();
    thread_.join();
  }

  void visit_all(const Visit& visit) {
    for (auto& [number, record] : platter_->records) {
      DiskPiece piece = record.piece;
      visit(std::move(piece), copy_of(number, record.piece.length));
    }
  }

  void write(DiskPiece piece, ConstRuns runs, std::shared_ptr<const void> keep,
             Written done) override {
    post([this, piece = std::move(piece), runs = std::move(runs), keep, done] {
      ++platter_->writes;
      if (platter_->writes_fail) return done(Status::unavailable, nullptr);
      std::vector<std::byte> bytes;
      for (const auto run : runs) bytes.insert(bytes.end(), run.begin(), run.end());
      DiskCopyRef copy;
      {
        const std::lock_guard lock(platter_->mutex);
        copy = copy_of(platter_->next, piece.length);
        platter_->records[platter_->next++] = {piece, std::move(bytes)};
      }
      done(Status::ok, copy);
    });
  }

  void read(const DiskCopyRef& copy, std::uint64_t offset, Runs runs, std::shared_ptr<void> keep,
            Done done) override {
    post([this, copy, offset, runs = std::move(runs), keep, done] {
      ++platter_->reads;
      const Status status = fill(copy, offset, runs);
      done(status);
    });
  }

  using Disk::strike;
  void strike(const DiskCopyRef& copy, Done done) override {
    ++platter_->strikes;
    erase(copy);
    if (done) post([done] { done(Status::ok); });
  }

  void flush(Done done) override {
    post([done] { done(Status::ok); });
  }

  void used(const DiskCopyRef&) noexcept override {}

  void set_owner(const DiskCopyRef& copy, std::weak_ptr<void> owner) override {
    const std::lock_guard lock(mutex_);
    owners_[number_of(copy)] = {copy, std::move(owner)};
  }

  void set_lost(std::function<void(DiskCopyRef, std::shared_ptr<void>)> lost) override {
    lost_ = std::move(lost);
  }

  void set_write_rate(std::uint64_t) override {}
  DiskCounts counts() const override { return {}; }

  /// As when the cleaner needs the room.
  void lose_all() {
    std::map<std::uint64_t, std::pair<std::weak_ptr<DiskCopy>, std::weak_ptr<void>>> owners;
    {
      const std::lock_guard lock(mutex_);
      owners.swap(owners_);
    }
    for (auto& [number, owner] : owners) {
      const DiskCopyRef copy = owner.first.lock();
      if (copy == nullptr) continue;
      erase(copy);
      lost_(copy, owner.second.lock());
    }
  }

 private:
  struct Copy final : DiskCopy {
    Copy(std::uint64_t number, std::uint64_t length) : DiskCopy(length, length), number(number) {}
    void end() { is_here_ = false; }
    const std::uint64_t number;
  };

  static DiskCopyRef copy_of(std::uint64_t number, std::uint64_t length) {
    return std::make_shared<Copy>(number, length);
  }
  static std::uint64_t number_of(const DiskCopyRef& copy) {
    return static_cast<Copy&>(*copy).number;
  }

  void erase(const DiskCopyRef& copy) {
    static_cast<Copy&>(*copy).end();
    const std::lock_guard lock(platter_->mutex);
    platter_->records.erase(number_of(copy));
  }

  Status fill(const DiskCopyRef& copy, std::uint64_t offset, const Runs& runs) {
    if (platter_->reads_fail) return Status::miss;
    const std::lock_guard lock(platter_->mutex);
    const auto found = platter_->records.find(number_of(copy));
    if (found == platter_->records.end()) return Status::miss;
    for (const auto run : runs) {
      const std::size_t bytes = std::min(run.size(), found->second.bytes.size() - offset);
      std::memcpy(run.data(), found->second.bytes.data() + offset, bytes);
      offset += bytes;
    }
    return Status::ok;
  }

  void post(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    called_.notify_all();
  }

  void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      called_.wait_for(lock, std::chrono::milliseconds(1),
                       [this] { return is_stopping_ || (!tasks_.empty() && !platter_->is_held); });
      if (platter_->is_held && !is_stopping_) continue;
      if (tasks_.empty()) {
        if (is_stopping_) return;
        continue;
      }
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      task = nullptr;
      lock.lock();
    }
  }

  const std::shared_ptr<FakePlatter> platter_;
  std::function<void(DiskCopyRef, std::shared_ptr<void>)> lost_;
  std::mutex mutex_;  // Guards: all below.
  std::condition_variable called_;
  std::deque<std::function<void()>> tasks_;
  std::map<std::uint64_t, std::pair<std::weak_ptr<DiskCopy>, std::weak_ptr<void>>> owners_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace gd2fs
