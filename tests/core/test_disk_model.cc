// The disk against a model: random calls, ended at a random write by a kill or a power cut, and
// what the next start must find, may find and must not.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "disk_sim.h"

using namespace gd2fs;

namespace {

constexpr std::uint64_t LENGTH_MAX = 90'000;
constexpr int OPERATIONS = 400;
constexpr std::size_t UNDER_WAY_MAX = 24;

/// What is known of one piece, by what the disk has said of it.
struct Known {
  std::uint64_t length = 0;
  DiskCopyRef copy;
  bool is_written = false;      // ok was said
  bool is_refused = false;      // it never went out
  bool is_struck = false;       // was asked for
  bool is_strike_done = false;  // ok was said
  bool is_write_flushed = false, is_strike_flushed = false;
  bool is_lost = false, is_lost_for_sure = false;
  bool is_gone = false;  // a start has not found it

  bool must_be_there(bool is_power_cut) const {
    return (is_power_cut ? is_write_flushed : is_written) && !is_struck && !is_lost && !is_gone;
  }
  bool must_be_gone(bool is_power_cut) const {
    return is_gone || is_refused || is_lost_for_sure ||
           (is_power_cut ? is_strike_flushed : is_strike_done);
  }
};

class Model {
 public:
  Model(std::uint64_t seed, SimulatedIo::End end) : random_(seed), end_(end) {}

  void round(const Folder& folder) {
    const bool ends_well = random_() % 5 == 0;
    const std::uint64_t writes = ends_well ? ~std::uint64_t{0} : 1 + random_() % 700;
    auto io = std::make_unique<SimulatedIo>(random_(), end_, writes);
    is_dead_ = io->is_dead();
    Visited visited;
    DiskOptions options = disk_options(folder, DISK_BYTES_MIN);
    auto disk = open_disk(options, visited, std::move(io));
    if (!*is_dead_) {
      compare(visited);
      disk->set_lost([this](DiskCopyRef copy, std::shared_ptr<void>) { lose(copy); });
      for (int i = 0; i < OPERATIONS && !*is_dead_; ++i) operate(*disk);
      if (ends_well) settle(*disk);
    }
    is_ending_ = true;
    disk.reset();
    is_ending_ = false;
    CHECK(under_way_ == 0);  // all were called back
    for (auto& [tag, known] : pieces_) known.copy = nullptr;
  }

 private:
  void compare(Visited& visited) {
    const bool is_power_cut = end_ == SimulatedIo::End::power_cut;
    for (auto& [tag, known] : pieces_) {
      const bool is_there = visited.pieces.count(tag) > 0;
      const std::uint64_t piece = tag;  // no lambda of clang 14 takes a structured binding
      INFO("piece ", piece);
      if (known.must_be_there(is_power_cut)) CHECK(is_there);
      if (known.must_be_gone(is_power_cut)) CHECK_FALSE(is_there);
    }
    for (auto& [tag, known] : pieces_) {
      const std::uint64_t length = known.length;
      const bool is_gone = visited.pieces.count(tag) == 0;
      known = {};
      known.length = length;
      known.is_gone = is_gone;
      known.is_written = known.is_write_flushed = !is_gone;
      if (!is_gone) known.copy = visited.pieces.at(tag).second;
    }
    for (auto& [tag, found] : visited.pieces) {
      CHECK(pieces_.count(tag) == 1);
      CHECK(found.first.hashes == disk_piece(tag, found.first.length).hashes);
    }
  }

  void operate(Disk& disk) {
    {
      std::unique_lock lock(mutex_);
      REQUIRE(called_.wait_for(lock, std::chrono::seconds(30),
                               [this] { return under_way_ < UNDER_WAY_MAX; }));
    }
    const auto what = random_() % 100;
    if (what < 60) return write(disk);
    if (what < 65) return flush(disk);
    const auto [tag, copy] = any_copy();
    if (!copy) return;
    if (what < 90) return strike(disk, tag, copy);
    disk.used(copy);
    CHECK(read_now(disk, copy, tag) != Status::corrupt);
  }

  std::pair<std::uint64_t, DiskCopyRef> any_copy() {
    const std::lock_guard lock(mutex_);
    if (pieces_.empty()) return {};
    auto at = pieces_.lower_bound(random_() % (pieces_.rbegin()->first + 1));
    for (int i = 0; i < 64 && at != pieces_.end(); ++i, ++at)
      if (at->second.copy) return {at->first, at->second.copy};
    return {};
  }

  void write(Disk& disk) {
    const std::uint64_t tag = ++last_tag_;
    const std::uint64_t length = 1 + random_() % LENGTH_MAX;
    {
      const std::lock_guard lock(mutex_);
      pieces_[tag].length = length;
      ++under_way_;
    }
    const auto bytes = content(tag, length);
    disk.write(disk_piece(tag, length), {std::as_const(*bytes).span().first(length)}, bytes,
               [this, tag](Status status, DiskCopyRef copy) {
                 change([&] {
                   Known& known = pieces_[tag];
                   known.is_written = status == Status::ok;
                   known.is_refused = status == Status::retry || status == Status::cancelled;
                   known.is_lost = copy && !copy->is_here() && !known.is_struck;  // at once
                   if (copy && !is_ending_) known.copy = copy;
                 });
               });
  }

  void strike(Disk& disk, std::uint64_t tag, const DiskCopyRef& copy) {
    {
      const std::lock_guard lock(mutex_);
      pieces_[tag].is_struck = true;
      ++under_way_;
    }
    disk.strike(copy, [this, tag](Status status) {
      change([&] { pieces_[tag].is_strike_done = status == Status::ok; });
    });
  }

  void flush(Disk& disk) {
    std::vector<std::uint64_t> written, struck;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [tag, known] : pieces_) {
        if (known.is_written) written.push_back(tag);
        if (known.is_strike_done) struck.push_back(tag);
      }
      ++under_way_;
    }
    disk.flush([this, written, struck](Status status) {
      change([&] {
        if (status != Status::ok) return;
        for (const std::uint64_t tag : written) pieces_[tag].is_write_flushed = true;
        for (const std::uint64_t tag : struck) pieces_[tag].is_strike_flushed = true;
      });
    });
  }

  template <class Change>
  void change(Change made) {
    const std::lock_guard lock(mutex_);
    made();
    --under_way_;
    called_.notify_one();
  }

  void lose(const DiskCopyRef& copy) {
    CHECK_FALSE(copy->is_here());
    const std::lock_guard lock(mutex_);
    for (auto& [tag, known] : pieces_) {
      if (known.copy != copy) continue;
      known.is_lost = true;
      known.is_lost_for_sure = !*is_dead_;
      known.copy = nullptr;
    }
  }

  /// A good end: all is quiet, and the sums are right.
  void settle(Disk& disk) {
    CHECK(flush_now(disk) == Status::ok);
    REQUIRE(becomes([this] {
      const std::lock_guard lock(mutex_);
      return under_way_ == 0;
    }));
    const DiskCounts counts = disk.counts();
    CHECK(counts.moved_bytes <= counts.written_bytes + 1 * MiB);
    CHECK(counts.file_bytes <= DISK_BYTES_MIN);
    CHECK(counts.live_bytes <= counts.file_bytes);
    moved_ += counts.moved_records;
    lost_ += counts.lost_records;
  }

 public:
  std::uint64_t moved_ = 0, lost_ = 0;

 private:
  std::mt19937_64 random_;
  const SimulatedIo::End end_;
  std::shared_ptr<std::atomic<bool>> is_dead_;
  std::atomic<bool> is_ending_{false};
  std::uint64_t last_tag_ = 0;
  std::mutex mutex_;
  std::condition_variable called_;
  std::size_t under_way_ = 0;
  std::map<std::uint64_t, Known> pieces_;
};

void play(SimulatedIo::End end, std::uint64_t seeds, int rounds) {
  std::uint64_t moved = 0, lost = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    const Folder folder("/dev/shm");
    Model model(seed, end);
    for (int i = 0; i < rounds; ++i) model.round(folder);
    moved += model.moved_;
    lost += model.lost_;
  }
  CHECK(moved > 0);  // else the cleaner was not part of it
  CHECK(lost > 0);
}

}  // namespace

TEST_CASE("killed at any write, the next start finds what was acknowledged and nothing struck") {
  play(SimulatedIo::End::kill, 12, 8);
}

TEST_CASE("after a power cut at any write the next start finds what was flushed") {
  play(SimulatedIo::End::power_cut, 12, 8);
}
