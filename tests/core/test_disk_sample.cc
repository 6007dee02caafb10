// A log that layout version 1 has written, as it is stored in tests/data/disk-1: every later
// version has to read it. A new layout gets a sample of its own, and this one stays.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "disk/layout.h"
#include "disk_world.h"

using namespace gd2fs;

namespace {

DiskPiece page() {
  DiskPiece piece = disk_piece(3, 70'000);
  piece.name = std::string("ns\0key", 6);
  piece.is_page = true;
  piece.expires_ms = 9'999'999'999'999;
  return piece;
}

/// What the sample was made by.
void write_sample(const Folder& folder) {
  const auto disk = open_disk(disk_options(folder, DISK_BYTES_MIN));
  REQUIRE(write_now(*disk, 1, 5'000).status == Status::ok);
  REQUIRE(strike_now(*disk, write_now(*disk, 2, 3'000).copy) == Status::ok);
  REQUIRE(write_now(*disk, page()).status == Status::ok);
}

void read_sample(const Folder& folder) {
  Visited visited;
  const auto disk = open_disk(disk_options(folder, DISK_BYTES_MIN), visited);
  REQUIRE(visited.order == std::vector<std::uint64_t>{1, 3});
  const DiskPiece &a = visited.pieces.at(3).first, b = page();
  CHECK(std::tie(a.name, a.is_page, a.chunk, a.tag, a.seq, a.offset, a.length) ==
        std::tie(b.name, b.is_page, b.chunk, b.tag, b.seq, b.offset, b.length));
  CHECK(std::tie(a.expires_ms, a.replicas, a.hashes) ==
        std::tie(b.expires_ms, b.replicas, b.hashes));
  CHECK(visited.pieces.at(1).first.name == "ns/piece1");
  CHECK(read_now(*disk, visited.pieces.at(1).second, 1) == Status::ok);
  CHECK(read_now(*disk, visited.pieces.at(3).second, 3) == Status::ok);
  CHECK(disk->counts().corrupt_headers + disk->counts().torn_records == 0);
}

}  // namespace

TEST_CASE("the stored sample of layout 1 is read, all of it") {
  const Folder folder;
  for (const auto& each : std::filesystem::directory_iterator(GD2FS_TEST_DATA "/disk-1"))
    std::filesystem::copy(each.path(), folder.path());

  read_sample(folder);
}

TEST_CASE("what is written now is what the sample is") {
  const Folder folder;
  write_sample(folder);

  read_sample(folder);
}

TEST_CASE("the bytes of layout 1 are what they were") {
  GrainBuffer grain(GRAIN_BYTES);
  disk::encode(disk::SegmentHead{5, "node-7"}, grain.span());
  CHECK(checksum(grain.span()) == 1723488521211956565u);
  disk::encode(disk::SegmentSeal{5, 40'960}, grain.span());
  CHECK(checksum(grain.span()) == 17377581476279784638u);
  disk::RecordHead head;
  head.segment_id = 5, head.offset = 8'192, head.serial = 9;
  head.piece = page();
  head.header_bytes = disk::header_bytes_of(head.piece);
  disk::encode(head, grain.span());
  CHECK(checksum(grain.span()) == 4199029809002561511u);
  head.is_struck = true;
  disk::encode(head, grain.span());
  CHECK(checksum(grain.span()) == 18391997294641822218u);
}
