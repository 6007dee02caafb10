// What the files of the log say: everything comes back as it was, and nothing that was touched
// does.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <random>

#include "disk/layout.h"
#include "disk/rate_bucket.h"
#include "disk_world.h"

using namespace gd2fs;
using namespace gd2fs::disk;

namespace {

RecordHead head_for(std::uint64_t length) {
  RecordHead head;
  head.segment_id = 77, head.offset = 9 * GRAIN_BYTES, head.serial = 5;
  head.piece = disk_piece(3, length);
  head.header_bytes = header_bytes_of(head.piece);
  return head;
}

GrainBuffer encoded(const RecordHead& head) {
  GrainBuffer out(head.header_bytes);
  encode(head, out.span());
  return out;
}

}  // namespace

TEST_CASE("a header comes back as it was written") {
  for (const std::uint64_t length : {1ul, 4096ul, 65'536ul, 65'537ul, 4ul << 20, 1ul << 30}) {
    RecordHead head = head_for(4096);
    head.piece.length = length;
    head.piece.hashes.assign((length + BLOCK_BYTES - 1) / BLOCK_BYTES, 42);
    head.piece.name = std::string(NAME_BYTES_MAX, 'n');
    head.piece.is_page = true;
    head.piece.expires_ms = 12'345;
    head.header_bytes = header_bytes_of(head.piece);
    const GrainBuffer image = encoded(head);

    const auto back = decode_record(image.span(), 77, head.offset);

    REQUIRE(back);
    CHECK(back->serial == head.serial);
    CHECK(back->bytes() == head.header_bytes + whole_grains(length));
    const DiskPiece &a = back->piece, &b = head.piece;
    CHECK(std::tie(a.name, a.is_page, a.chunk, a.tag, a.seq, a.offset, a.length) ==
          std::tie(b.name, b.is_page, b.chunk, b.tag, b.seq, b.offset, b.length));
    CHECK(std::tie(a.expires_ms, a.replicas, a.hashes) ==
          std::tie(b.expires_ms, b.replicas, b.hashes));
  }
}

TEST_CASE("a header of another segment, or at another place, is none") {
  const RecordHead head = head_for(100);
  const GrainBuffer image = encoded(head);

  CHECK_FALSE(decode_record(image.span(), 78, head.offset));
  CHECK_FALSE(decode_record(image.span(), 77, head.offset + GRAIN_BYTES));
  CHECK_FALSE(decode_record(image.span().first(100), 77, head.offset));
}

TEST_CASE("no flipped bit of a header goes unseen") {
  const RecordHead head = head_for(100);
  const GrainBuffer image = encoded(head);
  std::mt19937 random(1);

  for (int i = 0; i < 2'000; ++i) {
    GrainBuffer flipped = encoded(head);
    const std::size_t bit = random() % (image.size() * 8);
    flipped.span()[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    CHECK_FALSE(decode_record(flipped.span(), 77, head.offset));
  }
}

TEST_CASE("random bytes behind a right beginning end no reader") {
  const RecordHead head = head_for(300'000);
  std::mt19937 random(2);

  for (int i = 0; i < 5'000; ++i) {
    GrainBuffer wild = encoded(head);
    for (std::size_t at = 24; at < wild.size(); ++at)
      if (at < 104 || random() % 16 == 0) wild.span()[at] = static_cast<std::byte>(random());
    CHECK_FALSE(decode_record(wild.span(), 77, head.offset));
  }
}

TEST_CASE("a struck header says how long its record was and nothing else") {
  RecordHead head = head_for(9'999);
  const GrainBuffer whole = encoded(head);
  head.is_struck = true;
  GrainBuffer out(head.header_bytes);
  std::copy(whole.span().begin(), whole.span().end(), out.span().begin());
  encode(head, out.span());

  const auto back = decode_record(out.span(), 77, head.offset);

  REQUIRE(back);
  CHECK(back->is_struck);
  CHECK(back->bytes() == head.bytes());
  CHECK(back->piece.name.empty());
}

TEST_CASE("head and seal of a segment come back, and are not taken for each other") {
  GrainBuffer head(GRAIN_BYTES), seal(GRAIN_BYTES);
  encode(SegmentHead{5, "node-7"}, head.span());
  encode(SegmentSeal{5, 123 * GRAIN_BYTES}, seal.span());

  CHECK(decode_head(head.span())->node_name == "node-7");
  CHECK(decode_seal(seal.span())->end == 123 * GRAIN_BYTES);
  CHECK_FALSE(decode_head(seal.span()));
  CHECK_FALSE(decode_seal(head.span()));
  head.span()[300] = std::byte{1};
  CHECK_FALSE(decode_head(head.span()));
}

TEST_CASE("a bucket lets through what its rate says, and a large one is paid off") {
  constexpr std::int64_t second = 1'000'000'000;
  RateBucket bucket(1'000'000);
  std::int64_t now = 50 * second;
  CHECK(bucket.is_open(now));
  bucket.take(1'100'000);  // a tenth of a second was saved up

  CHECK_FALSE(bucket.is_open(now));
  CHECK_FALSE(bucket.is_open(now + second / 2));
  CHECK(bucket.opens_in_ms() > 400);
  CHECK(bucket.is_open(now + second));
  bucket.set_rate(0);
  bucket.take(1 << 30);
  CHECK(bucket.is_open(now + second));
}
