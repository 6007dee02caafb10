// Files that were damaged: what is left is found, what is damaged is counted, and no wrong word is
// ever taken for a right one.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <fstream>
#include <random>

#include "disk/layout.h"
#include "disk_world.h"

using namespace gd2fs;

namespace {

using Bytes = std::vector<char>;

std::vector<std::filesystem::path> files_of(const Folder& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& each : std::filesystem::directory_iterator(folder.path()))
    files.push_back(each.path());
  std::sort(files.begin(), files.end());
  return files;
}

Bytes load(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void store(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::in | std::ios::out)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

constexpr std::uint64_t PIECES = 60;

void fill(const Folder& folder) {
  const auto disk = open_disk(disk_options(folder, 8 * MiB));
  for (std::uint64_t mark = 1; mark <= PIECES; ++mark)
    REQUIRE(write_now(*disk, mark, 20'000 + mark * 100).status == Status::ok);
}

/// Where a segment begins to say something: the offset of its nth record.
std::size_t record_at(const Bytes& bytes, std::size_t nth) {
  const auto* from = reinterpret_cast<const std::byte*>(bytes.data());
  const auto id = disk::decode_head({from, GRAIN_BYTES})->id;
  std::size_t at = disk::FRONT_BYTES;
  for (;; --nth) {
    const auto head = disk::decode_record({from + at, bytes.size() - at}, id, at);
    REQUIRE(head);
    if (nth == 0) return at;
    at += head->bytes();
  }
}

}  // namespace

TEST_CASE("a header with a flipped bit costs its record alone") {
  const Folder folder;
  fill(folder);
  const auto path = files_of(folder)[0];
  Bytes bytes = load(path);
  bytes[record_at(bytes, 3) + 40] ^= 1;
  store(path, bytes);
  Visited visited;

  const auto disk = open_disk(disk_options(folder, 8 * MiB), visited);

  CHECK(visited.order.size() == PIECES - 1);
  CHECK(visited.pieces.count(4) == 0);
  CHECK(disk->counts().corrupt_headers == 1);
  for (const auto& [tag, found] : visited.pieces)
    CHECK(read_now(*disk, found.second, tag) == Status::ok);
}

TEST_CASE("among large records of many lengths, too, each is found but the damaged one") {
  const Folder folder;
  const DiskOptions options = disk_options(folder, 64 * MiB);
  std::mt19937 random(8);
  {
    const auto disk = open_disk(options);
    for (std::uint64_t mark = 1; mark <= 80; ++mark) {
      const std::uint64_t length = mark % 20 < 12 ? 200'000 : 130'000 + random() % 500'000;
      REQUIRE(write_now(*disk, mark, length).status == Status::ok);
    }
  }
  const auto path = files_of(folder)[0];
  Bytes bytes = load(path);
  bytes[record_at(bytes, 6) + 40] ^= 1;
  store(path, bytes);
  Visited visited;

  const auto disk = open_disk(options, visited);

  CHECK(visited.order.size() == 79);
  CHECK(visited.pieces.count(7) == 0);
  CHECK(disk->counts().corrupt_headers == 1);
  for (const auto& [tag, found] : visited.pieces)
    CHECK(read_now(*disk, found.second, tag) == Status::ok);
}

TEST_CASE("a segment whose head is damaged is known by its seal") {
  const Folder folder;
  fill(folder);
  const auto path = files_of(folder)[0];
  Bytes bytes = load(path);
  bytes[20] ^= 1;
  store(path, bytes);
  Visited visited;

  const auto disk = open_disk(disk_options(folder, 8 * MiB), visited);

  CHECK(visited.order.size() == PIECES);
  CHECK(disk->counts().corrupt_headers == 1);
}

TEST_CASE("a payload with a flipped bit is not what its hashes say") {
  const Folder folder;
  fill(folder);
  const auto path = files_of(folder)[0];
  Bytes bytes = load(path);
  bytes[record_at(bytes, 3) + GRAIN_BYTES + 5'000] ^= 4;
  store(path, bytes);
  Visited visited;

  const auto disk = open_disk(disk_options(folder, 8 * MiB), visited);

  REQUIRE(visited.order.size() == PIECES);
  CHECK(read_now(*disk, visited.pieces.at(4).second, 4) ==
        Status::corrupt);  // for the caller to see
}

TEST_CASE(
    "without its seal a segment is verified whole, and what is wrong in it is struck for good") {
  const Folder folder;
  fill(folder);
  const auto path = files_of(folder)[0];
  Bytes bytes = load(path);
  bytes[record_at(bytes, 3) + GRAIN_BYTES + 5'000] ^= 4;
  bytes[GRAIN_BYTES + 12] ^= 1;
  store(path, bytes);
  for (int start = 0; start < 2; ++start) {
    Visited visited;
    const auto disk = open_disk(disk_options(folder, 8 * MiB), visited);
    CHECK(visited.order.size() == PIECES - 1);
    CHECK(visited.pieces.count(4) == 0);
    CHECK(disk->counts().torn_records == (start == 0 ? 1 : 0));
  }
}

TEST_CASE("files that are cut short, empty or none of ours stop nothing") {
  const Folder folder;
  fill(folder);
  const auto files = files_of(folder);
  REQUIRE(files.size() >= 3);
  std::filesystem::resize_file(files[0], 500'001);
  std::ofstream(folder.path() + "/00009999.gd2fs").close();
  std::ofstream(folder.path() + "/00009998.gd2fs") << std::string(100'000, 'x');
  std::ofstream(folder.path() + "/notes.txt") << "mine";
  Visited visited;

  {
    const auto disk = open_disk(disk_options(folder, 8 * MiB), visited);
    CHECK(visited.order.size() > PIECES / 3);
    for (std::uint64_t mark = 1'000; mark < 1'400; ++mark)
      REQUIRE(becomes([&] { return write_now(*disk, mark, 60'000).status == Status::ok; }));
    CHECK(disk->counts().file_bytes <= 8 * MiB);
  }
  CHECK(std::filesystem::exists(folder.path() + "/notes.txt"));
}

TEST_CASE("a payload that looks like a record is none, however the search comes by it") {
  const Folder folder;
  std::vector<char> image;
  {
    const auto disk = open_disk(disk_options(folder, 8 * MiB));
    REQUIRE(write_now(*disk, 1, 3'000).status == Status::ok);
  }
  {  // a user who has read the disk puts a whole record of it into a value
    const Bytes bytes = load(files_of(folder)[0]);
    const std::size_t at = record_at(bytes, 0);
    image.assign(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at + 2 * GRAIN_BYTES));
    auto value = std::make_shared<GrainBuffer>(4 * GRAIN_BYTES);
    std::memcpy(value->span().data(), image.data(), image.size());
    std::memcpy(value->span().data() + image.size(), image.data(), image.size());
    DiskPiece piece = disk_piece(2, value->size());
    piece.hashes = hashes_of(std::as_const(*value).span());
    Visited visited;
    const auto disk = open_disk(disk_options(folder, 8 * MiB), visited);
    Answered<Status, DiskCopyRef> wrote;
    disk->write(piece, {std::as_const(*value).span()}, value, wrote.call());
    REQUIRE(std::get<0>(wrote.wait()) == Status::ok);
  }
  for (const auto& path : files_of(folder)) {  // now its own header breaks
    Bytes bytes = load(path);
    const auto* from = reinterpret_cast<const std::byte*>(bytes.data());
    const auto head = disk::decode_head({from, GRAIN_BYTES});
    if (!head || head->id == 0) continue;
    if (std::memcmp(bytes.data() + disk::FRONT_BYTES + GRAIN_BYTES, image.data(), 24) != 0)
      continue;
    bytes[disk::FRONT_BYTES + 90] ^= 1;
    store(path, bytes);
  }
  Visited visited;

  open_disk(disk_options(folder, 8 * MiB), visited);

  CHECK(visited.order == std::vector<std::uint64_t>{1});
}

TEST_CASE("random damage: every piece that is found was written, just so") {
  const Folder folder("/dev/shm");
  fill(folder);
  std::map<std::filesystem::path, Bytes> whole;
  for (const auto& path : files_of(folder)) whole[path] = load(path);
  std::mt19937 random(5);

  for (int i = 0; i < 150; ++i) {
    for (auto [path, bytes] : whole) {
      for (auto flips = random() % 30; flips > 0; --flips) {
        const std::size_t grain = random() % 3 == 0 ? 0 : random() % (bytes.size() / GRAIN_BYTES);
        bytes[grain * GRAIN_BYTES + random() % (random() % 2 ? 200 : GRAIN_BYTES)] ^=
            static_cast<char>(1 + random() % 255);
      }
      store(path, bytes);
    }
    Visited visited;
    const auto disk = open_disk(disk_options(folder, 8 * MiB), visited);
    for (const auto& [tag, found] : visited.pieces) {
      const DiskPiece wanted = disk_piece(tag, 20'000 + tag * 100);
      CHECK(found.first.name == wanted.name);
      CHECK(found.first.length == wanted.length);
      CHECK(found.first.hashes == wanted.hashes);
    }
  }
}
