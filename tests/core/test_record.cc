#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "record.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "../../core/limits.h"  // the system has a limits.h of its own
#include "store.h"

using namespace gd2fs;

namespace {

constexpr std::uint32_t CHUNK = 64 * KiB;
constexpr std::uint64_t ALL = ~std::uint64_t{0} >> 1;

struct CommitSpec {
  std::string_view path;
  std::uint64_t gen = 0;
  std::uint64_t seen_seq = 0;
  std::uint64_t tag = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t if_size = ~std::uint64_t{0};
};

struct ReplaceSpec {
  std::string_view path;
  std::uint64_t tag = 0;
  std::uint64_t length = 0;
  std::uint32_t chunk_bytes = 0;
  std::uint32_t ttl_s = 0;
};

/// Records of a node that is alone: each change is made at once.
struct Book : Records {
  using Records::Records;

  RecordAnswer create(std::string_view path, std::uint32_t chunk_bytes, std::uint32_t ttl_s,
                      bool is_if_absent) {
    RecordChange change;
    change.kind = ChangeKind::create;
    change.chunk_bytes = chunk_bytes;
    change.ttl_s = ttl_s;
    change.is_if_absent = is_if_absent;
    return change_at_once(path, change).value();
  }
  RecordAnswer commit(const CommitSpec& spec) {
    RecordChange change;
    change.gen = spec.gen;
    change.seen_seq = spec.seen_seq;
    change.tag = spec.tag;
    change.offset = spec.offset;
    change.length = spec.length;
    change.if_size = spec.if_size;
    return change_at_once(spec.path, change).value();
  }
  RecordAnswer replace(const ReplaceSpec& spec) {
    RecordChange change;
    change.kind = ChangeKind::replace;
    change.tag = spec.tag;
    change.length = spec.length;
    change.chunk_bytes = spec.chunk_bytes;
    change.ttl_s = spec.ttl_s;
    return change_at_once(spec.path, change).value();
  }
  RecordAnswer truncate(std::string_view path, std::uint64_t gen, std::uint64_t size) {
    RecordChange change;
    change.kind = ChangeKind::truncate;
    change.gen = gen;
    change.length = size;
    return change_at_once(path, change).value();
  }
  RecordAnswer unlink(std::string_view path, std::uint64_t& chunks) {
    RecordChange change;
    change.kind = ChangeKind::unlink;
    const RecordAnswer answer = change_at_once(path, change).value();
    chunks = answer.chunks;
    return answer;
  }
  bool has_listed(std::string_view path, std::uint64_t chunk, std::uint64_t tag,
                  std::uint64_t& seq) {
    return is_listed(path, chunk, tag, seq) == Status::ok;
  }
};

RecordAnswer commit(Book& records, std::string_view path, const RecordAnswer& seen,
                    std::uint64_t tag, std::uint64_t offset, std::uint64_t length) {
  CommitSpec spec;
  spec.path = path;
  spec.gen = seen.gen;
  spec.seen_seq = seen.seq;
  spec.tag = tag;
  spec.offset = offset;
  spec.length = length;
  return records.commit(spec);
}

RecordAnswer look(Book& records, std::string_view path) {
  wire::MetaBody body;
  bool is_cut = false;
  return records.meta(path, 0, 0, 0, body, is_cut);
}

std::vector<wire::Segment> segments(Book& records, std::string_view path, std::uint64_t offset,
                                    std::uint64_t length) {
  wire::MetaBody body;
  bool is_cut = false;
  CHECK(records.meta(path, offset, length, 1'000'000, body, is_cut).status == Status::ok);
  CHECK_FALSE(is_cut);
  return body.segments;
}

// What a file should show: each cell's tag, 0 where nothing was ever written. One cell stands for
// CELL bytes.
struct Model {
  static constexpr std::uint64_t CELL = 1000;
  std::vector<std::uint64_t> tags, seqs;
  std::uint64_t seq = 1, trunc_seq = 0;

  bool has_later(std::size_t begin, std::size_t end, std::uint64_t seen) const {
    for (std::size_t i = begin; i < std::min(end, tags.size()); ++i) {
      if (seqs[i] > seen) return true;
    }
    return trunc_seq > seen;
  }
  void write(std::size_t begin, std::size_t end, std::uint64_t tag) {
    if (end > tags.size()) tags.resize(end), seqs.resize(end);
    ++seq;
    std::fill(tags.begin() + static_cast<std::ptrdiff_t>(begin),
              tags.begin() + static_cast<std::ptrdiff_t>(end), tag);
    std::fill(seqs.begin() + static_cast<std::ptrdiff_t>(begin),
              seqs.begin() + static_cast<std::ptrdiff_t>(end), seq);
  }
};

// The tags that the record shows, cell by cell; fails where segments overlap, leave their chunk or
// are out of order.
std::vector<std::uint64_t> shown(Book& records, std::string_view path, std::uint64_t size) {
  std::vector<std::uint64_t> tags(size / Model::CELL);
  std::uint64_t end = 0;
  for (const wire::Segment& segment : segments(records, path, 0, ALL)) {
    const std::uint64_t at = segment.chunk * CHUNK + segment.offset;
    REQUIRE(at >= end);
    REQUIRE(segment.offset + segment.length <= CHUNK);
    end = at + segment.length;
    REQUIRE(end <= size);
    for (std::uint64_t i = at / Model::CELL; i < (end + Model::CELL - 1) / Model::CELL; ++i) {
      tags[i] = segment.tag;
    }
  }
  return tags;
}

}  // namespace

TEST_CASE("a new file is empty, and creating it again shows the same one") {
  Book records(100);
  const RecordAnswer made = records.create("/ns/f", CHUNK, 0, false);
  CHECK(made.status == Status::ok);
  CHECK(made.gen != 0);
  CHECK(made.size == 0);

  CHECK(records.create("/ns/f", CHUNK, 0, false).gen == made.gen);
  CHECK(records.create("/ns/f", CHUNK, 0, true).status == Status::conflict);
  CHECK(records.create("/ns/g", 1000, 0, false).status == Status::invalid);
  CHECK(records.create("/ns/g", 0, 0, false).chunk_bytes == CHUNK_BYTES_DEFAULT);
}

TEST_CASE("every byte shows the last tag committed over it, whatever the order") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    Book records(10);
    const RecordAnswer made = records.create("/ns/f", CHUNK, 0, false);
    Model model;
    model.seq = made.seq;
    std::vector<std::uint64_t> seen{made.seq};
    for (std::uint64_t tag = 1; tag <= 300; ++tag) {
      if (random() % 16 == 0) {
        const std::uint64_t cells = random() % (model.tags.size() + 1);
        REQUIRE(records.truncate("/ns/f", made.gen, cells * Model::CELL).status == Status::ok);
        model.tags.resize(cells), model.seqs.resize(cells);
        model.trunc_seq = ++model.seq;
      } else {
        const std::uint64_t begin = random() % 400;
        const std::uint64_t end = begin + 1 + random() % (random() % 4 == 0 ? 200 : 10);
        RecordAnswer base = made;
        base.seq = random() % 8 == 0 ? seen[random() % seen.size()] : model.seq;
        const bool is_late = model.has_later(begin, end, base.seq);
        const RecordAnswer answer =
            commit(records, "/ns/f", base, tag, begin * Model::CELL, (end - begin) * Model::CELL);
        REQUIRE(answer.status == (is_late ? Status::conflict : Status::ok));
        if (!is_late) model.write(begin, end, tag);
      }
      seen.push_back(model.seq);
      const RecordAnswer now = look(records, "/ns/f");
      REQUIRE(now.seq == model.seq);
      REQUIRE(now.size == model.tags.size() * Model::CELL);
      REQUIRE(shown(records, "/ns/f", now.size) == model.tags);
    }
  }
}

TEST_CASE("an overlapping commit that has not seen a later one is refused, a disjoint one is not") {
  Book records(10);
  const RecordAnswer made = records.create("/ns/f", CHUNK, 0, false);
  REQUIRE(commit(records, "/ns/f", made, 1, 0, 1000).status == Status::ok);

  CHECK(commit(records, "/ns/f", made, 2, 999, 10).status == Status::conflict);
  CHECK(commit(records, "/ns/f", made, 3, 1000, 10).status == Status::ok);
  CHECK(commit(records, "/ns/f", look(records, "/ns/f"), 2, 999, 10).status == Status::ok);
}

TEST_CASE("a commit that conflicts in one chunk changes none of them") {
  Book records(10);
  const RecordAnswer made = records.create("/ns/f", CHUNK, 0, false);
  REQUIRE(commit(records, "/ns/f", made, 1, 5 * CHUNK, 10).status == Status::ok);

  CHECK(commit(records, "/ns/f", made, 2, 0, 6 * CHUNK).status == Status::conflict);

  CHECK(segments(records, "/ns/f", 0, ALL).size() == 1);
  CHECK(look(records, "/ns/f").seq == made.seq + 1);
}

TEST_CASE("a replaced file is a new generation that shows only the new bytes, later than the old") {
  Book records(10);
  const RecordAnswer old = records.create("/ns/f", CHUNK, 60, false);
  REQUIRE(commit(records, "/ns/f", old, 1, 0, 5 * CHUNK).status == Status::ok);

  const RecordAnswer now = records.replace({"/ns/f", 7, 100, 2 * CHUNK, 0});

  CHECK(now.status == Status::ok);
  CHECK(now.gen != old.gen);
  CHECK(now.seq > old.seq + 1);
  CHECK(now.size == 100);
  CHECK(look(records, "/ns/f").chunk_bytes == 2 * CHUNK);
  const auto shown_now = segments(records, "/ns/f", 0, ALL);
  REQUIRE(shown_now.size() == 1);
  CHECK(shown_now[0].tag == 7);
  CHECK(shown_now[0].length == 100);
  CHECK(commit(records, "/ns/f", old, 2, 0, 10).status == Status::gone);
  CHECK(records.expire(boottime_ms() + 120'000, 10) == 0);
}

TEST_CASE("a file is replaced where there was none, also by nothing") {
  Book records(10);

  CHECK(records.replace({"/ns/f", 7, 0, CHUNK, 60}).status == Status::ok);

  CHECK(look(records, "/ns/f").size == 0);
  CHECK(records.replace({"/ns/g", 7, 10, 1000, 0}).status == Status::invalid);
  CHECK(records.replace({"/ns/g", 7, FILE_BYTES_MAX + 1, CHUNK, 0}).status == Status::full);
  CHECK(look(records, "/ns/g").status == Status::gone);
  CHECK(records.expire(boottime_ms() + 120'000, 10) == 1);
}

TEST_CASE("a file made anew is later than any before it under that name") {
  Book records(10);
  RecordAnswer old = records.create("/ns/f", CHUNK, 0, false);
  for (std::uint64_t tag = 1; tag <= 5; ++tag) old = commit(records, "/ns/f", old, tag, 0, 10);
  std::uint64_t chunks = 0;
  const auto made_at = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - made_at < std::chrono::microseconds(50)) continue;
  REQUIRE(records.unlink("/ns/f", chunks).status == Status::ok);

  CHECK(records.create("/ns/f", CHUNK, 0, true).seq > old.seq);
}

TEST_CASE("a commit for another generation is told that its file is gone") {
  Book records(10);
  const RecordAnswer old = records.create("/ns/f", CHUNK, 0, false);
  REQUIRE(commit(records, "/ns/f", old, 1, 0, 10).status == Status::ok);
  std::uint64_t chunks = 0;
  REQUIRE(records.unlink("/ns/f", chunks).status == Status::ok);
  CHECK(chunks == 1);
  CHECK(commit(records, "/ns/f", old, 2, 0, 10).status == Status::gone);
  const RecordAnswer made = records.create("/ns/f", CHUNK, 0, true);
  CHECK(made.gen != old.gen);

  CHECK(commit(records, "/ns/f", old, 2, 0, 10).status == Status::gone);
  CHECK(records.truncate("/ns/f", old.gen, 0).status == Status::gone);
  CHECK(segments(records, "/ns/f", 0, ALL).empty());
  CHECK(records.unlink("/ns/g", chunks).status == Status::gone);
}

TEST_CASE("an append at another end than the file's is refused") {
  Book records(10);
  const RecordAnswer made = records.create("/ns/f", CHUNK, 0, false);
  CommitSpec spec{"/ns/f", made.gen, made.seq, 1, 0, 100, 0};
  REQUIRE(records.commit(spec).size == 100);

  spec.tag = 2;
  spec.seen_seq = 2;
  CHECK(records.commit(spec).status == Status::conflict);
  spec.offset = spec.if_size = 100;
  CHECK(records.commit(spec).size == 200);
}

TEST_CASE("what was cut off never comes back, and growing again leaves a hole") {
  Book records(10);
  const RecordAnswer made = records.create("/ns/f", CHUNK, 0, false);
  REQUIRE(commit(records, "/ns/f", made, 1, 0, 3 * CHUNK).status == Status::ok);
  const RecordAnswer before = look(records, "/ns/f");
  REQUIRE(records.truncate("/ns/f", made.gen, 100).size == 100);

  CHECK(commit(records, "/ns/f", before, 2, 2 * CHUNK, 10).status == Status::conflict);
  REQUIRE(commit(records, "/ns/f", look(records, "/ns/f"), 3, 2 * CHUNK, 10).status == Status::ok);

  const auto left = segments(records, "/ns/f", 0, ALL);
  REQUIRE(left.size() == 2);
  CHECK(left[0].length == 100);
  CHECK(left[0].tag == 1);
  CHECK(left[1].tag == 3);
  CHECK(look(records, "/ns/f").size == 2 * CHUNK + 10);
  CHECK(records.truncate("/ns/f", made.gen, 4 * CHUNK).status == Status::invalid);
  std::uint64_t chunks = 0;
  CHECK(records.unlink("/ns/f", chunks).status == Status::ok);
  CHECK(chunks == 3);
}

TEST_CASE("a chunk with all the segments it may have takes no more until it is rewritten") {
  Book records(10);
  records.create("/ns/f", CHUNK, 0, false);
  for (std::uint64_t i = 0; i < SEGMENTS_PER_CHUNK_MAX; ++i) {
    REQUIRE(commit(records, "/ns/f", look(records, "/ns/f"), i + 1, CHUNK + i, 1).status ==
            Status::ok);
  }
  const auto now = [&] { return look(records, "/ns/f"); };
  CHECK(commit(records, "/ns/f", now(), 900, CHUNK + SEGMENTS_PER_CHUNK_MAX, 1).status ==
        Status::invalid);
  CHECK(commit(records, "/ns/f", now(), 901, CHUNK + 3, 1).status == Status::ok);
  CHECK(commit(records, "/ns/f", now(), 902, 2 * CHUNK, 1).status == Status::ok);

  CHECK(commit(records, "/ns/f", now(), 903, CHUNK, 300).status == Status::ok);

  CHECK(segments(records, "/ns/f", CHUNK, CHUNK).size() == 1);
}

TEST_CASE("a commit beyond what a file may hold is refused and changes nothing") {
  Book records(10);
  const RecordAnswer made = records.create("/ns/f", CHUNK, 0, false);

  CHECK(commit(records, "/ns/f", made, 1, FILE_BYTES_MAX, 1).status == Status::full);
  CHECK(commit(records, "/ns/f", made, 1, ~std::uint64_t{0}, 2).status == Status::full);
  CHECK(commit(records, "/ns/f", made, 1, 5, ~std::uint64_t{0}).status == Status::full);
  CHECK(commit(records, "/ns/f", made, 1, 0, 0).status == Status::invalid);
  CHECK(look(records, "/ns/f").seq == made.seq);
  CHECK(commit(records, "/ns/f", made, 1, 0, FILE_BYTES_MAX).status == Status::ok);
}

TEST_CASE("a long list of segments is given in parts that follow each other") {
  Book records(10);
  records.create("/ns/f", CHUNK, 0, false);
  for (std::uint64_t i = 0; i < 50; ++i) {
    REQUIRE(commit(records, "/ns/f", look(records, "/ns/f"), i + 1, i * 50'000, 40'000).status ==
            Status::ok);
  }
  const auto whole = segments(records, "/ns/f", 0, ALL);

  std::vector<wire::Segment> parts;
  std::uint64_t offset = 0;
  for (bool is_cut = true; is_cut;) {
    wire::MetaBody body;
    REQUIRE(records.meta("/ns/f", offset, ALL, 7, body, is_cut).status == Status::ok);
    REQUIRE(body.segments.size() <= 7);
    parts.insert(parts.end(), body.segments.begin(), body.segments.end());
    offset = parts.back().chunk * CHUNK + parts.back().offset + parts.back().length;
  }

  REQUIRE(parts.size() == whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    CHECK(parts[i].chunk == whole[i].chunk);
    CHECK(parts[i].offset == whole[i].offset);
    CHECK(parts[i].tag == whole[i].tag);
  }
}

TEST_CASE("a tag is listed exactly while a byte of its chunk shows it") {
  Book records(10);
  const RecordAnswer made = records.create("/ns/f", CHUNK, 0, false);
  const std::uint64_t seq = commit(records, "/ns/f", made, 7, CHUNK, 2 * CHUNK).seq;
  std::uint64_t seen = 0;
  CHECK(records.has_listed("/ns/f", 1, 7, seen));
  CHECK(seen == seq);
  CHECK_FALSE(records.has_listed("/ns/f", 0, 7, seen));
  CHECK_FALSE(records.has_listed("/ns/f", ~std::uint64_t{0}, 7, seen));
  CHECK_FALSE(records.has_listed("/ns/g", 1, 7, seen));

  REQUIRE(commit(records, "/ns/f", look(records, "/ns/f"), 8, CHUNK, CHUNK).status == Status::ok);

  CHECK_FALSE(records.has_listed("/ns/f", 1, 7, seen));
  CHECK(records.has_listed("/ns/f", 2, 7, seen));
}

TEST_CASE("the least recently used records go first when there are too many") {
  Book records(3);
  for (const char* path : {"/ns/a", "/ns/b", "/ns/c"}) records.create(path, CHUNK, 0, false);
  look(records, "/ns/a");

  records.create("/ns/d", CHUNK, 0, false);

  CHECK(records.count() == 3);
  CHECK(look(records, "/ns/a").status == Status::ok);
  CHECK(look(records, "/ns/b").status == Status::gone);
}

TEST_CASE("many records stay within their limit over all shards") {
  Book records(10'000);
  for (int i = 0; i < 30'000; ++i) records.create("/ns/" + std::to_string(i), CHUNK, 0, false);

  CHECK(records.count() <= 10'000);
  CHECK(records.count() > 9'000);
}

TEST_CASE("files are listed by path, a part at a time, and only under the prefix") {
  Book records(100'000);
  std::set<std::string> expected;
  for (int i = 0; i < 5000; ++i) {
    const std::string path = "/ns/dir" + std::to_string(i % 7) + "/" + std::to_string(i);
    records.create(path, CHUNK, 0, false);
    records.create("/other" + path, CHUNK, 0, false);
    if (path.starts_with("/ns/dir3/")) expected.insert(path);
  }
  std::vector<std::string> listed;
  for (bool more = true; more;) {
    const auto part = records.list("/ns/dir3/", listed.empty() ? "" : listed.back(), 100, more);
    REQUIRE(part.size() <= 100);
    for (const auto& entry : part) listed.push_back(entry.name);
  }

  CHECK(std::vector<std::string>(expected.begin(), expected.end()) == listed);
}

TEST_CASE("clearing a namespace forgets its files alone") {
  Book records(100'000);
  for (int i = 0; i < 3000; ++i) {
    records.create("/ns/" + std::to_string(i), CHUNK, 0, false);
    records.create("/ns2/" + std::to_string(i), CHUNK, 0, false);
  }

  CHECK(records.clear("ns") == 3000);

  CHECK(records.count() == 3000);
  CHECK(look(records, "/ns2/7").status == Status::ok);
}

TEST_CASE("a file whose time is over is gone, and a write gives it time again") {
  Book records(100);
  const RecordAnswer made = records.create("/ns/f", CHUNK, 5, false);
  records.create("/ns/g", CHUNK, 3600, false);
  records.create("/ns/h", CHUNK, 0, false);
  REQUIRE(commit(records, "/ns/f", made, 1, 0, 10).status == Status::ok);
  CHECK(records.expire(boottime_ms() + 4'000, 10) == 0);

  CHECK(records.expire(boottime_ms() + 6'000, 10) == 1);

  CHECK(look(records, "/ns/f").status == Status::gone);
  CHECK(records.expire(boottime_ms() + 4'000'000, 10) == 1);
  CHECK(records.count() == 1);
}

TEST_CASE("appends from many threads land one after the other, each whole") {
  Book records(100);
  const RecordAnswer made = records.create("/ns/f", CHUNK, 0, false);
  std::atomic<std::uint64_t> tags{0};
  const auto append = [&] {
    for (int done = 0; done < 200;) {
      const RecordAnswer seen = look(records, "/ns/f");
      const CommitSpec spec{"/ns/f", made.gen, seen.seq, ++tags, seen.size, 1000, seen.size};
      if (records.commit(spec).status == Status::ok) ++done;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(append);
  for (auto& thread : threads) thread.join();

  std::map<std::uint64_t, std::uint64_t> bytes_of;
  for (const auto& segment : segments(records, "/ns/f", 0, ALL)) {
    bytes_of[segment.tag] += segment.length;
  }
  CHECK(look(records, "/ns/f").size == 800'000);
  CHECK(bytes_of.size() == 800);
  CHECK(
      std::all_of(bytes_of.begin(), bytes_of.end(), [](auto& one) { return one.second == 1000; }));
}
