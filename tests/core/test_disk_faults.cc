// Devices that fail: the disk goes on with what is left, says so, and comes back.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <sched.h>
#include <sys/mount.h>

#include <cerrno>

#include "disk_faults.h"

using namespace gd2fs;
using disk::IoKind;

namespace {

using Rules = FaultyIo::Rules;

std::vector<DiskIoKind> kinds() {
  std::string why_not;
  if (disk::make_uring_io(4, why_not)) return {DiskIoKind::threads, DiskIoKind::uring};
  MESSAGE("io_uring is not tried: ", why_not);
  return {DiskIoKind::threads};
}

/// A disk over a seam whose rules the test can change.
struct World {
  explicit World(DiskIoKind kind = DiskIoKind::threads, std::size_t places = 1)
      : rules(std::make_shared<Rules>()), kind(kind), folders(places) {
    options = disk_options(folders[0]);
    options.places.clear();
    for (const Folder& folder : folders) options.places.push_back({folder.path(), 16 * MiB});
    open();
  }
  void open() {
    visited = {};
    disk = open_disk(options, visited, std::make_unique<FaultyIo>(kind, rules));
  }
  void reopen() {
    disk.reset();
    rules->set([](Rules& each) { each.on_call = {}, each.on_open = {}, each.on_allocate = {}; });
    open();
  }
  void on_call(std::function<FaultyIo::Fault(const disk::IoRequest&)> rule) {
    rules->set([&](Rules& each) { each.on_call = std::move(rule); });
  }
  void fail_all(IoKind failing, int error) {
    on_call([=](const disk::IoRequest& request) {
      return FaultyIo::Fault{request.kind == failing ? error : 0, false};
    });
  }

  std::shared_ptr<Rules> rules;
  DiskIoKind kind;
  std::vector<Folder> folders;
  DiskOptions options;
  Visited visited;
  std::unique_ptr<Disk> disk;
};

}  // namespace

TEST_CASE("calls that move less than they were asked for are gone on with") {
  for (const DiskIoKind kind : kinds()) {
    World world(kind);
    world.on_call([](const disk::IoRequest&) { return FaultyIo::Fault{0, true}; });

    for (std::uint64_t mark = 1; mark <= 5; ++mark) {
      const Wrote wrote = write_now(*world.disk, mark, mark * 50'000);
      REQUIRE(wrote.status == Status::ok);
      CHECK(read_now(*world.disk, wrote.copy, mark) == Status::ok);
    }
    world.reopen();
    CHECK(world.visited.order.size() == 5);
    CHECK(world.disk->counts().torn_records == 0);
  }
}

TEST_CASE("a write that fails is said so, the rest is served on, and the place comes back") {
  for (const int error : {EIO, EROFS, ENOSPC}) {
    World world;
    const Wrote before = write_now(*world.disk, 1, 10'000);
    REQUIRE(before.status == Status::ok);
    world.fail_all(IoKind::write, error);

    CHECK(write_now(*world.disk, 2, 10'000).status == Status::unavailable);
    const DiskCounts counts = world.disk->counts();
    CHECK(counts.failed_places == 1);
    CHECK(counts.places[0].error == error);
    CHECK(counts.write_errors >= 1);
    CHECK(write_now(*world.disk, 3, 10'000).status == Status::unavailable);
    CHECK(read_now(*world.disk, before.copy, 1) == Status::ok);

    world.on_call({});
    REQUIRE(becomes([&] { return write_now(*world.disk, 4, 10'000).status == Status::ok; }));
    CHECK(world.disk->counts().failed_places == 0);
    world.reopen();
    CHECK(world.visited.order == std::vector<std::uint64_t>{1, 4});
  }
}

TEST_CASE("a record that was written whole though its write failed does not come back") {
  World world;
  REQUIRE(write_now(*world.disk, 1, 10'000).status == Status::ok);
  std::atomic<bool> is_on = true;
  world.on_call([&](const disk::IoRequest& request) {
    if (request.kind != IoKind::write || !is_on) return FaultyIo::Fault{};
    disk::carry_out(request);
    return FaultyIo::Fault{EIO, false};
  });
  CHECK(write_now(*world.disk, 2, 10'000).status == Status::unavailable);
  is_on = false;
  REQUIRE(becomes([&] { return write_now(*world.disk, 3, 10'000).status == Status::ok; }));

  world.reopen();

  CHECK(world.visited.order == std::vector<std::uint64_t>{1, 3});
}

TEST_CASE("with two places the one that works takes it all") {
  World world(DiskIoKind::threads, 2);
  const std::string bad = world.folders[0].path();
  std::atomic<int> files = 0;
  world.rules->set([&](Rules& each) {
    each.on_open = [&, bad](const std::string& path) {
      return path.rfind(bad, 0) == 0 ? (++files, EIO) : 0;
    };
  });
  // What was made ready before the rule may still be there.
  REQUIRE(becomes([&] {
    return write_now(*world.disk, 1'000'000 + static_cast<std::uint64_t>(files), 900'000).status !=
               Status::full &&
           world.disk->counts().failed_places == 1;
  }));

  for (std::uint64_t mark = 1; mark <= 20; ++mark)
    REQUIRE(becomes([&] { return write_now(*world.disk, mark, 10'000).status == Status::ok; }));

  const DiskCounts counts = world.disk->counts();
  CHECK(counts.places[0].error == EIO);
  CHECK_FALSE(counts.places[1].is_failed);
}

TEST_CASE("a read that fails is a miss and is counted") {
  World world;
  const Wrote wrote = write_now(*world.disk, 1, 10'000);
  world.fail_all(IoKind::read, EIO);

  CHECK(read_now(*world.disk, wrote.copy, 1) == Status::miss);
  CHECK(world.disk->counts().read_errors == 1);
  CHECK(world.disk->counts().failed_places == 0);
  world.on_call({});
  CHECK(read_now(*world.disk, wrote.copy, 1) == Status::ok);
}

TEST_CASE("what could not be read at one start is found at the next") {
  World world;
  for (std::uint64_t mark = 1; mark <= 8; ++mark)
    REQUIRE(write_now(*world.disk, mark, 200'000).status == Status::ok);
  world.fail_all(IoKind::write, EIO);  // so that it ends without a seal
  CHECK(write_now(*world.disk, 9, 1'000).status == Status::unavailable);
  world.disk.reset();
  world.on_call([](const disk::IoRequest& request) {
    const bool is_bad = request.kind == IoKind::read && request.offset > 500 * KiB;
    return FaultyIo::Fault{is_bad ? EIO : 0, false};
  });
  world.open();
  CHECK(world.visited.order.size() < 8);
  CHECK(world.disk->counts().read_errors > 0);

  world.reopen();

  CHECK(world.visited.order.size() == 8);
}

TEST_CASE("a strike that the device refuses is said so, and made up for later") {
  World world;
  const Wrote wrote = write_now(*world.disk, 1, 10'000);
  world.fail_all(IoKind::write, EIO);

  CHECK(strike_now(*world.disk, wrote.copy) == Status::unavailable);
  CHECK(read_now(*world.disk, wrote.copy, 1) == Status::miss);

  world.on_call({});
  REQUIRE(becomes([&] { return write_now(*world.disk, 2, 10'000).status == Status::ok; }));
  CHECK(flush_now(*world.disk) == Status::ok);
  world.reopen();
  CHECK(world.visited.order == std::vector<std::uint64_t>{2});
}

TEST_CASE("a sync that fails is said so to those who asked for it") {
  World world;
  REQUIRE(write_now(*world.disk, 1, 10'000).status == Status::ok);
  world.fail_all(IoKind::sync, EIO);

  CHECK(flush_now(*world.disk) == Status::unavailable);
  CHECK(world.disk->counts().sync_errors >= 1);
  world.on_call({});
  CHECK(becomes([&] { return flush_now(*world.disk) == Status::ok; }));
}

TEST_CASE("a file system that is full: the log goes round in what it has") {
  World world;
  int files = 0;
  world.rules->set([&](Rules& each) {
    each.on_allocate = [&](std::uint64_t) { return ++files > 5 ? ENOSPC : 0; };
  });
  int refused = 0;
  for (std::uint64_t mark = 1; mark <= 60; ++mark)
    refused += write_now(*world.disk, mark, 400'000).status == Status::ok ? 0 : 1;

  const DiskCounts counts = world.disk->counts();
  CHECK(refused == 0);
  CHECK(counts.full_errors > 0);
  CHECK(counts.failed_places == 0);
  CHECK(counts.lost_records > 0);
  CHECK(counts.file_bytes < 16 * MiB);
}

TEST_CASE("a real file system, full and then read-only") {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    MESSAGE("skipped: mounting takes root");
    return;
  }
  const Folder folder;
  const char* const at = folder.path().c_str();
  REQUIRE(::mount("tmpfs", at, "tmpfs", 0, "size=13m") == 0);
  DiskOptions options = disk_options(folder, 64 * MiB);  // segments of 8 MiB: the second is refused
  {
    const auto disk = open_disk(options);
    int written = 0;
    for (std::uint64_t mark = 1; mark <= 12; ++mark)
      written += write_now(*disk, mark, 1'000'000).status == Status::ok ? 1 : 0;
    CHECK(written > 0);
    CHECK(written < 12);
    CHECK(disk->counts().failed_places == 1);
    CHECK(disk->counts().places[0].error == ENOSPC);
    CHECK(disk->counts().full_errors > 0);
  }
  REQUIRE(::mount("", at, nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0);
  {
    Visited visited;
    const auto disk = open_disk(options, visited);
    CHECK(visited.order.size() > 0);
    for (const auto& [tag, found] : visited.pieces)
      CHECK(read_now(*disk, found.second, tag) == Status::ok);
    CHECK(write_now(*disk, 100, 1'000).status == Status::unavailable);
    CHECK(disk->counts().places[0].error == EROFS);
  }
  CHECK(::umount2(at, MNT_DETACH) == 0);
}
