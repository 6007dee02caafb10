// Room is made without a byte too many, and those of use stay.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <fstream>
#include <random>
#include <set>

#include "disk_world.h"

using namespace gd2fs;

namespace {

struct Losses {
  std::mutex mutex;
  std::vector<std::uint64_t> marks;

  void listen(Disk& disk) {
    disk.set_lost([this](DiskCopyRef copy, std::shared_ptr<void> owner) {
      CHECK_FALSE(copy->is_here());
      const std::lock_guard lock(mutex);
      marks.push_back(owner ? *std::static_pointer_cast<std::uint64_t>(owner) : 0);
    });
  }
  std::size_t count() {
    const std::lock_guard lock(mutex);
    return marks.size();
  }
};

Wrote write_until_taken(Disk& disk, std::uint64_t mark, std::uint64_t length) {
  Wrote wrote{Status::retry, nullptr};
  REQUIRE(becomes([&] {
    wrote = write_now(disk, mark, length);
    return wrote.status != Status::retry;
  }));
  return wrote;
}

}  // namespace

TEST_CASE("while little of it is live nothing is lost, and a byte written costs at most one more") {
  const Folder folder("/dev/shm");
  Losses losses;  // outlives the disk, whose threads tell it
  const auto disk = open_disk(disk_options(folder, 32 * MiB));
  losses.listen(*disk);
  std::mt19937 random(3);
  std::vector<std::pair<std::uint64_t, DiskCopyRef>> live;

  for (std::uint64_t mark = 1; mark <= 2'500; ++mark) {
    if (live.size() > 200) {  // 200 x 60 KiB: less than half
      std::swap(live[random() % live.size()], live.back());
      disk->strike(live.back().second);
      live.pop_back();
    }
    const Wrote wrote = write_until_taken(*disk, mark, 30'000 + random() % 30'000);
    REQUIRE(wrote.status == Status::ok);
    live.emplace_back(mark, wrote.copy);
  }

  const DiskCounts counts = disk->counts();
  CHECK(losses.count() == 0);
  CHECK(counts.moved_records > 0);
  CHECK(counts.moved_bytes <= counts.written_bytes);
  CHECK(counts.records == live.size());
  for (const auto& [mark, copy] : live) CHECK(read_now(*disk, copy, mark) == Status::ok);
}

TEST_CASE("when all is live the segment of least use goes, and its owners are told") {
  const Folder folder("/dev/shm");
  Losses losses;  // outlives the disk, whose threads tell it
  const auto disk = open_disk(disk_options(folder, 16 * MiB));
  losses.listen(*disk);
  std::vector<std::shared_ptr<std::uint64_t>> owners;
  std::vector<DiskCopyRef> copies;

  for (std::uint64_t mark = 1; mark <= 400; ++mark) {
    const Wrote wrote = write_until_taken(*disk, mark, 100'000);
    REQUIRE(wrote.status == Status::ok);
    owners.push_back(std::make_shared<std::uint64_t>(mark));
    disk->set_owner(wrote.copy, owners.back());
    copies.push_back(wrote.copy);
  }

  REQUIRE(losses.count() > 200);
  CHECK(becomes([&] {  // an owner is told a little later than its copy is gone
    const std::lock_guard lock(losses.mutex);
    const std::set<std::uint64_t> told(losses.marks.begin(), losses.marks.end());
    std::size_t agreeing = 0;
    for (std::size_t i = 0; i < copies.size(); ++i)
      agreeing += copies[i]->is_here() != told.contains(i + 1) ? 1 : 0;
    return agreeing == copies.size();
  }));
  const std::lock_guard lock(losses.mutex);
  CHECK(*std::max_element(losses.marks.begin(), losses.marks.end()) < 350);
  CHECK(disk->counts().moved_records == 0);
}

TEST_CASE("what a place says it can hold is what it holds in the long run") {
  for (const std::uint64_t bytes : {8 * MiB, 16 * MiB, 100 * MiB}) {
    CAPTURE(bytes);
    const Folder folder("/dev/shm");
    const auto disk = open_disk(disk_options(folder, bytes));
    const std::uint64_t usable = disk->counts().usable_bytes;
    REQUIRE(usable < bytes);
    std::vector<DiskCopyRef> copies;

    for (std::uint64_t mark = 1; mark * 100'000 < 4 * bytes; ++mark) {
      const Wrote wrote = write_until_taken(*disk, mark, 100'000);
      REQUIRE(wrote.status == Status::ok);
      copies.push_back(wrote.copy);
    }

    // The open segment is anything between empty and full, and so is the one being taken.
    const std::uint64_t segment = bytes / DISK_SEGMENTS_MIN;
    CHECK(disk->counts().live_bytes <= usable + segment);
    CHECK(disk->counts().live_bytes + 2 * segment >= usable);
  }
}

TEST_CASE("what is of use stays longer than what is not") {
  const Folder folder("/dev/shm");
  const DiskOptions options = disk_options(folder, 16 * MiB);
  {
    const auto disk = open_disk(options);
    for (std::uint64_t mark = 1; mark <= 60; ++mark)  // for which there is room
      REQUIRE(write_until_taken(*disk, mark, 100'000).status == Status::ok);
  }
  Visited visited;
  const auto disk = open_disk(options, visited);
  for (std::uint64_t mark = 1; mark <= 30; ++mark) disk->used(visited.pieces.at(mark).second);

  std::uint64_t mark = 1'000;
  REQUIRE(becomes([&] {
    write_now(*disk, mark++, 100'000);
    return disk->counts().lost_records > 20;
  }));

  for (std::uint64_t used = 1; used <= 18; ++used) CHECK(visited.pieces.at(used).second->is_here());
}

TEST_CASE("reads while the cleaner moves records get their bytes or a miss") {
  const Folder folder("/dev/shm");
  const auto disk = open_disk(disk_options(folder, 16 * MiB));
  std::mutex mutex;
  std::map<std::uint64_t, DiskCopyRef> live;
  std::atomic<bool> is_over = false;
  std::atomic<std::uint64_t> reads = 0, wrong = 0;
  std::thread reader([&] {
    std::mt19937 random(9);
    while (!is_over) {
      std::pair<std::uint64_t, DiskCopyRef> any;
      {
        const std::lock_guard lock(mutex);
        if (live.empty()) continue;
        any = *std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
      }
      ++reads;
      if (read_now(*disk, any.second, any.first) == Status::corrupt) ++wrong;
    }
  });
  std::mt19937 random(4);
  for (std::uint64_t mark = 1; mark <= 1'500; ++mark) {
    const Wrote wrote = write_until_taken(*disk, mark, 40'000);
    const std::lock_guard lock(mutex);
    live[mark] = wrote.copy;
    if (live.size() < 90) continue;
    const auto gone = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
    disk->strike(gone->second);
    live.erase(gone);
  }
  is_over = true;
  reader.join();

  CHECK(wrong == 0);
  CHECK(reads > 0);
  CHECK(disk->counts().moved_records > 0);
}

TEST_CASE("a record that was damaged is not carried on: it is lost, and counted") {
  const Folder folder("/dev/shm");
  Losses losses;  // outlives the disk, whose threads tell it
  const auto disk = open_disk(disk_options(folder, 16 * MiB));
  losses.listen(*disk);
  std::vector<DiskCopyRef> copies;
  for (std::uint64_t mark = 1; mark <= 200; ++mark)
    copies.push_back(write_until_taken(*disk, mark, 50'000).copy);
  for (std::size_t i = 0; i < 200; ++i)
    if (i % 4 != 0) CHECK(strike_now(*disk, copies[i]) == Status::ok);
  for (const auto& each : std::filesystem::directory_iterator(folder.path())) {
    std::fstream file(each.path(), std::ios::binary | std::ios::in | std::ios::out);
    for (std::streamoff at = 0; at < static_cast<std::streamoff>(1 * MiB); at += 16 * 4096) {
      file.seekp(at + 8'192 + 4'096 + 77);
      file.put('!');
    }
  }
  std::uint64_t mark = 1'000;

  REQUIRE(becomes([&] {
    write_now(*disk, mark++, 100'000);
    return disk->counts().torn_records > 0 && losses.count() > 0;
  }));

  CHECK(disk->counts().moved_records > 0);
}

TEST_CASE("a disk that was given less keeps within it") {
  const Folder folder("/dev/shm");
  {
    const auto disk = open_disk(disk_options(folder, 32 * MiB));
    for (std::uint64_t mark = 1; mark <= 250; ++mark)
      REQUIRE(write_until_taken(*disk, mark, 100'000).status == Status::ok);
    CHECK(disk->counts().file_bytes > 16 * MiB);
  }
  const auto disk = open_disk(disk_options(folder, 16 * MiB));
  for (std::uint64_t mark = 1'000; mark < 1'050; ++mark)
    REQUIRE(write_until_taken(*disk, mark, 100'000).status == Status::ok);

  CHECK(becomes([&] { return disk->counts().file_bytes <= 16 * MiB; }));
}
