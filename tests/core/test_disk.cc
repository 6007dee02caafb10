// The disk as its callers see it: what is written is read, also after a restart; what is struck
// never is.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "disk_world.h"

#include <fcntl.h>
#include <time.h>

using namespace gd2fs;

namespace {

std::vector<DiskIoKind> kinds() {
  std::string why_not;
  if (disk::make_uring_io(4, why_not)) return {DiskIoKind::threads, DiskIoKind::uring};
  MESSAGE("io_uring is not tried: ", why_not);
  return {DiskIoKind::threads};
}

std::int64_t wall_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1'000 + now.tv_nsec / 1'000'000;
}

}  // namespace

TEST_CASE("what is written is read back, of any length") {
  for (const DiskIoKind kind : kinds()) {
    const Folder folder;
    DiskOptions options = disk_options(folder, 64 * MiB);
    options.io = kind;
    const auto disk = open_disk(options);
    std::uint64_t mark = 0;

    for (const std::uint64_t length :
         {1ul, 4095ul, 4096ul, 4097ul, 65'537ul, 1'000'000ul, 4'194'304ul}) {
      const Wrote wrote = write_now(*disk, ++mark, length);
      REQUIRE(wrote.status == Status::ok);
      CHECK(wrote.copy->length() == length);
      CHECK(read_now(*disk, wrote.copy, mark) == Status::ok);
    }
    CHECK(disk->counts().is_uring == (kind == DiskIoKind::uring));
    CHECK(disk->counts().records == 7);
  }
}

TEST_CASE("runs of memory go out and come in one behind the other, from any grain") {
  for (const DiskIoKind kind : kinds()) {
    const Folder folder;
    DiskOptions options = disk_options(folder, 64 * MiB);
    options.io = kind;
    const auto disk = open_disk(options);
    constexpr std::size_t grains = 1'500;  // more runs than the kernel takes at once
    const auto bytes = content(1, grains * GRAIN_BYTES);
    Disk::ConstRuns runs;
    for (std::size_t i = 0; i < grains; ++i)
      runs.push_back(std::as_const(*bytes).span().subspan(i * GRAIN_BYTES, GRAIN_BYTES));
    Answered<Status, DiskCopyRef> wrote;
    disk->write(disk_piece(1, bytes->size()), runs, bytes, wrote.call());
    const auto [status, copy] = wrote.wait();
    REQUIRE(status == Status::ok);
    auto into = std::make_shared<GrainBuffer>(bytes->size());
    Disk::Runs back;
    for (std::size_t i = 7; i < grains; ++i)
      back.push_back(into->span().subspan(i * GRAIN_BYTES, GRAIN_BYTES));

    Answered<Status> read;
    disk->read(copy, 7 * GRAIN_BYTES, back, into, read.call());

    REQUIRE(std::get<0>(read.wait()) == Status::ok);
    CHECK(std::memcmp(into->span().data() + 7 * GRAIN_BYTES, bytes->span().data() + 7 * GRAIN_BYTES,
                      (grains - 7) * GRAIN_BYTES) == 0);
  }
}

TEST_CASE("a restart finds all that was written, in that order, with all that was said of it") {
  for (const DiskIoKind kind : kinds()) {
    const Folder folder;
    DiskOptions options = disk_options(folder);
    options.io = kind;
    {
      const auto disk = open_disk(options);
      for (std::uint64_t mark = 1; mark <= 40; ++mark)
        REQUIRE(write_now(*disk, mark, mark * 3'000).status == Status::ok);
    }
    Visited visited;

    const auto disk = open_disk(options, visited);

    REQUIRE(visited.order.size() == 40);
    CHECK(std::is_sorted(visited.order.begin(), visited.order.end()));
    const auto& [piece, copy] = visited.pieces.at(9);
    const DiskPiece wanted = disk_piece(9, 27'000);
    CHECK(std::tie(piece.name, piece.chunk, piece.seq, piece.offset, piece.length, piece.replicas,
                   piece.hashes) == std::tie(wanted.name, wanted.chunk, wanted.seq, wanted.offset,
                                             wanted.length, wanted.replicas, wanted.hashes));
    for (const auto& [tag, found] : visited.pieces)
      CHECK(read_now(*disk, found.second, tag) == Status::ok);
    const DiskCounts counts = disk->counts();
    CHECK(counts.scanned_records == 40);
    CHECK(counts.torn_records + counts.corrupt_headers == 0);
    CHECK(counts.records == 40);
  }
}

TEST_CASE("what is struck is not read again, not after a restart either") {
  const Folder folder;
  {
    const auto disk = open_disk(disk_options(folder));
    std::vector<DiskCopyRef> copies;
    for (std::uint64_t mark = 1; mark <= 20; ++mark)
      copies.push_back(write_now(*disk, mark, 10'000).copy);
    for (std::size_t i = 0; i < 20; i += 2) CHECK(strike_now(*disk, copies[i]) == Status::ok);
    CHECK(strike_now(*disk, copies[0]) == Status::ok);  // once more changes nothing

    CHECK_FALSE(copies[0]->is_here());
    CHECK(read_now(*disk, copies[0], 1) == Status::miss);
    CHECK(read_now(*disk, copies[1], 2) == Status::ok);
    CHECK(disk->counts().struck_records == 10);
  }
  Visited visited;

  const auto disk = open_disk(disk_options(folder), visited);

  CHECK(visited.order == std::vector<std::uint64_t>{2, 4, 6, 8, 10, 12, 14, 16, 18, 20});
}

TEST_CASE("of two records with one name the later one comes later, over several places too") {
  const Folder first, second;
  DiskOptions options = disk_options(first);
  options.places.push_back({second.path(), 16 * MiB});
  {
    const auto disk = open_disk(options);
    for (std::uint64_t tag = 1; tag <= 60; ++tag) {
      DiskPiece piece = disk_piece(tag, 50'000);
      piece.name = "one";
      REQUIRE(write_now(*disk, std::move(piece)).status == Status::ok);
    }
    for (const DiskPlaceCounts& place : disk->counts().places) CHECK(place.live_bytes > 500'000);
  }
  Visited visited;

  open_disk(options, visited);

  REQUIRE(visited.order.size() == 60);
  CHECK(std::is_sorted(visited.order.begin(), visited.order.end()));
}

TEST_CASE("what has expired is counted and not found again") {
  const Folder folder;
  {
    const auto disk = open_disk(disk_options(folder));
    for (std::uint64_t tag = 1; tag <= 3; ++tag) {
      DiskPiece piece = disk_piece(tag, 5'000);
      piece.expires_ms = tag == 1 ? 0 : wall_ms() + (tag == 2 ? -1'000 : 600'000);
      REQUIRE(write_now(*disk, std::move(piece)).status == Status::ok);
    }
  }
  Visited visited;

  const auto disk = open_disk(disk_options(folder), visited);

  CHECK(visited.order == std::vector<std::uint64_t>{1, 3});
  CHECK(disk->counts().expired_records == 1);
}

TEST_CASE("flush returns once all before it is on the device") {
  for (const DiskIoKind kind : kinds()) {
    const Folder folder;
    DiskOptions options = disk_options(folder);
    options.io = kind;
    const auto disk = open_disk(options);
    CHECK(flush_now(*disk) == Status::ok);
    std::vector<Answered<Status, DiskCopyRef>> wrote(30);
    std::atomic<int> done = 0;
    for (std::uint64_t tag = 1; tag <= wrote.size(); ++tag) {
      const auto bytes = content(tag, 30'000);
      disk->write(disk_piece(tag, 30'000), {std::as_const(*bytes).span().first(30'000)}, bytes,
                  [&done, call = wrote[tag - 1].call()](Status status, DiskCopyRef copy) {
                    ++done;
                    call(status, std::move(copy));
                  });
    }

    const Status flushed = flush_now(*disk);

    CHECK(flushed == Status::ok);
    for (auto& each : wrote) CHECK(std::get<0>(each.wait()) == Status::ok);
  }
}

TEST_CASE("a piece larger than a segment has one of its own, one larger than that is refused") {
  const Folder folder;
  DiskOptions options = disk_options(folder, 64 * MiB);  // segments of 8 MiB
  {
    const auto disk = open_disk(options);
    REQUIRE(write_now(*disk, 1, 12 * MiB).status == Status::ok);
    REQUIRE(write_now(*disk, 2, 1'000).status == Status::ok);
    REQUIRE(write_now(*disk, 3, 14 * MiB).status == Status::ok);
    CHECK(write_now(*disk, 4, 17 * MiB).status == Status::full);
  }
  Visited visited;

  const auto disk = open_disk(options, visited);

  REQUIRE(visited.order == std::vector<std::uint64_t>{1, 2, 3});
  for (const auto& [tag, found] : visited.pieces)
    CHECK(read_now(*disk, found.second, tag) == Status::ok);
}

TEST_CASE("a folder belongs to one process and to one node") {
  const Folder folder;
  auto disk = open_disk(disk_options(folder));
  REQUIRE(write_now(*disk, 1, 1'000).status == Status::ok);
  Visited visited;

  const auto second = Disk::open(disk_options(folder), visited.visit());
  REQUIRE_FALSE(second);
  CHECK(second.error().message.find("in use") != std::string::npos);
  disk.reset();
  DiskOptions other = disk_options(folder);
  other.node_name = "n2";
  const auto third = Disk::open(other, visited.visit());
  REQUIRE_FALSE(third);
  CHECK(third.error().message.find("`n1`") != std::string::npos);
  CHECK(third.error().status == Status::invalid);
}

TEST_CASE("what cannot be a disk is refused with a reason") {
  const Folder folder;
  Visited visited;
  DiskOptions small = disk_options(folder, DISK_BYTES_MIN - 1);
  CHECK_FALSE(Disk::open(small, visited.visit()));
  DiskOptions none = disk_options(folder);
  none.places.clear();
  CHECK_FALSE(Disk::open(none, visited.visit()));
  DiskOptions nowhere = disk_options(folder);
  nowhere.places[0].folder = "/proc/no/such/folder";
  const auto opened = Disk::open(nowhere, visited.visit());
  REQUIRE_FALSE(opened);
  CHECK(opened.error().message.find("/proc/no/such/folder") != std::string::npos);
}

TEST_CASE("a rate limit holds writes back and refuses what is too much") {
  const Folder folder;
  DiskOptions options = disk_options(folder, 512 * MiB);
  options.write_bytes_per_s = 1;  // the first one goes, the others for ever wait
  auto disk = open_disk(options);
  REQUIRE(write_now(*disk, 1, 4 * MiB).status == Status::ok);
  std::vector<Answered<Status, DiskCopyRef>> wrote(20);
  for (std::uint64_t tag = 2; tag < 22; ++tag) {
    const auto bytes = content(tag, 4 * MiB);
    disk->write(disk_piece(tag, 4 * MiB), {std::as_const(*bytes).span()}, bytes,
                wrote[tag - 2].call());
  }

  CHECK(std::get<0>(wrote[19].wait()) == Status::retry);
  const DiskCounts counts = disk->counts();
  CHECK(counts.queued_bytes <= DISK_QUEUE_BYTES);
  CHECK(counts.queued_bytes > DISK_QUEUE_BYTES / 2);
  CHECK(counts.refused_writes > 0);
  SUBCASE("the rate can be changed") {
    disk->set_write_rate(0);
    CHECK(std::get<0>(wrote[0].wait()) == Status::ok);
    CHECK(std::get<0>(wrote[14].wait()) == Status::ok);
  }
  SUBCASE("the end of the disk calls those back that waited") {
    disk.reset();
    CHECK(std::get<0>(wrote[0].wait()) == Status::cancelled);
  }
}
