#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "record_log.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "record.h"
#include "store.h"

using namespace gd2fs;

namespace {

constexpr std::uint64_t ANY_SIZE = ~std::uint64_t{0};

class Folder {
 public:
  Folder() { REQUIRE(mkdtemp(name_.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(name_); }
  std::string log() const { return name_ + "/records"; }

  std::vector<char> read() const {
    std::ifstream file(log(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::vector<char>& content) const {
    std::ofstream file(log(), std::ios::binary | std::ios::trunc);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
  }

 private:
  std::string name_ = "/tmp/gd2fs-log-XXXXXX";
};

LogOwner owner() { return {"c1", "n1", {}, MachineStart::now()}; }

/// The records of one life of a node, and their log.
struct Life {
  explicit Life(const Folder& folder, const LogOwner& of = owner(), std::size_t records_max = 1000)
      : log(folder.log(), of), records(records_max) {
    recovery = records.restore(log);
    const auto begun = records.use_log(log);
    if (!begun) FAIL(begun.error().message);
  }
  RecordLog log;
  Records records;
  RecordRecovery recovery;
};

RecordAnswer change(Records& records, const std::string& path, const RecordChange& asked) {
  const auto answer = records.change_at_once(path, asked);
  REQUIRE(answer);
  REQUIRE(records.commit());
  return *answer;
}

RecordAnswer create(Records& records, const std::string& path, std::uint32_t ttl_s = 0) {
  RecordChange asked;
  asked.kind = ChangeKind::create;
  asked.ttl_s = ttl_s;
  return change(records, path, asked);
}

RecordAnswer commit(Records& records, const std::string& path, const RecordAnswer& seen,
                    std::uint64_t tag, std::uint64_t offset, std::uint64_t length) {
  RecordChange asked;
  asked.gen = seen.gen, asked.seen_seq = seen.seq, asked.tag = tag;
  asked.offset = offset, asked.length = length, asked.if_size = ANY_SIZE;
  return change(records, path, asked);
}

RecordAnswer unlink(Records& records, const std::string& path) {
  RecordChange asked;
  asked.kind = ChangeKind::unlink;
  return change(records, path, asked);
}

/// All that readers can see of a path, as text.
std::string seen(Records& records, const std::string& path) {
  wire::MetaBody body;
  bool is_cut = false;
  const RecordAnswer answer = records.meta(path, 0, ANY_SIZE, 100'000, body, is_cut);
  if (answer.status != Status::ok) return "-";
  std::string text = std::to_string(answer.gen) + " " + std::to_string(answer.seq) + " " +
                     std::to_string(body.size) + " " + std::to_string(body.ttl_s) + " " +
                     std::to_string(body.replicas) + " " + std::to_string(answer.chunk_bytes);
  for (const wire::Segment& each : body.segments) {
    text += " [" + std::to_string(each.chunk) + " " + std::to_string(each.offset) + " " +
            std::to_string(each.length) + " " + std::to_string(each.tag) + " " +
            std::to_string(each.seq) + "]";
  }
  return text;
}

/// Any of the changes that there are, to any of a few paths.
void change_something(Records& records, std::mt19937_64& random) {
  const std::string path = "/ns/" + std::to_string(random() % 30);
  RecordChange asked;
  wire::MetaBody body;
  bool is_cut = false;
  const RecordAnswer now = records.meta(path, 0, 0, 0, body, is_cut);
  asked.gen = now.gen, asked.seen_seq = now.seq, asked.tag = 1 + random() % 1'000'000;
  switch (random() % 8) {
    case 0: unlink(records, path); return;
    case 1: create(records, path, random() % 2 == 0 ? 0 : 1000); return;
    case 2:
      asked.kind = ChangeKind::replace;
      asked.gen = 0;
      asked.chunk_bytes = 64 * KiB;
      asked.length = random() % (1 * MiB);
      break;
    case 3:
      asked.kind = ChangeKind::truncate;
      asked.length = body.size / 2;
      break;
    case 4:
      asked.kind = ChangeKind::respread;
      asked.gen = 0;
      asked.replicas = static_cast<std::uint8_t>(random() % 4);
      break;
    default: asked.offset = random() % (4 * MiB); asked.length = 1 + random() % (200 * KiB);
  }
  change(records, path, asked);
}

using State = std::map<std::string, std::string>;

State all(Records& records) {
  State state;
  for (int i = 0; i < 30; ++i) {
    const std::string path = "/ns/" + std::to_string(i);
    state[path] = seen(records, path);
  }
  return state;
}

}  // namespace

TEST_CASE("records are there again after a life that ended at any change") {
  const Folder folder;
  State before;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    Life life(folder);
    CHECK(life.recovery.fault == (seed == 1 ? "it is new" : ""));
    if (seed > 1) REQUIRE(all(life.records) == before);
    const std::uint64_t changes = random() % 300;
    for (std::uint64_t i = 0; i < changes; ++i) change_something(life.records, random);
    if (random() % 3 == 0) REQUIRE(life.records.copy_log());
    if (random() % 8 == 0) life.records.clear("ns");
    REQUIRE(life.records.commit());
    before = all(life.records);
    if (random() % 4 == 0) life.log.close();
  }
}

TEST_CASE("a log that ends anywhere has all changes before its end, and says that it is torn") {
  const Folder folder;
  std::vector<std::pair<std::size_t, State>> after;  // length of the log, what is known then
  {
    Life life(folder);
    std::mt19937_64 random(5);
    after.emplace_back(folder.read().size(), all(life.records));
    for (int i = 0; i < 40; ++i) {
      change_something(life.records, random);
      after.emplace_back(folder.read().size(), all(life.records));
    }
  }
  const std::vector<char> whole = folder.read();
  for (std::size_t end = after.front().first; end <= whole.size(); end += 7) {
    std::size_t last = 0;
    while (last + 1 < after.size() && after[last + 1].first <= end) ++last;
    folder.write({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(end)});
    Life life(folder);
    REQUIRE(life.recovery.fault == "");
    REQUIRE(life.recovery.is_torn == (after[last].first != end));
    REQUIRE(all(life.records) == after[last].second);
  }
}

TEST_CASE("any flipped bit in the middle makes the whole log count for nothing") {
  const Folder folder;
  {
    Life life(folder);
    for (int i = 0; i < 5; ++i) create(life.records, "/ns/" + std::to_string(i));
  }
  const std::vector<char> whole = folder.read();
  for (std::size_t bit = 0; bit < whole.size() * 8; bit += 11) {
    const std::size_t at = bit / 8;
    const bool is_padding = at >= 320 && at < LOG_HEAD_BYTES;
    if (is_padding) continue;
    CAPTURE(at);
    std::vector<char> bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ (1 << bit % 8));
    folder.write(bad);
    Records records(1000);
    const RecordLog log(folder.log(), owner());
    const RecordRecovery recovery = records.restore(log);
    REQUIRE(recovery.fault != "");
    REQUIRE(records.count() == 0);
  }
}

TEST_CASE("a log counts for its own node, cluster, list and start of the machine alone") {
  const Folder folder;
  const auto fault_with = [&](const LogOwner& of, bool is_closed) {
    std::filesystem::remove(folder.log());
    {
      Life life(folder);
      create(life.records, "/ns/a");
      if (is_closed) life.log.close();
    }
    Records records(1000);
    const RecordLog log(folder.log(), of);
    const RecordRecovery recovery = records.restore(log);
    CHECK(records.count() == (recovery.fault.empty() ? 1 : 0));
    return recovery.fault;
  };
  LogOwner other = owner();
  CHECK(fault_with(other, false) == "");
  other.node = "n2";
  CHECK(fault_with(other, true) == "it belongs to node `n1`");
  other = owner();
  other.cluster = "c2";
  CHECK(fault_with(other, true) == "it belongs to cluster `c1`");
  other = owner();
  other.list_hash[3] = std::byte{1};
  CHECK(fault_with(other, true) == "the list of nodes is another one now");
  other = owner();
  other.machine.id[0] ^= 1;
  CHECK(fault_with(other, false) ==
        "the machine has started anew, and the node had not ended before");
  CHECK(fault_with(other, true) == "");
}

TEST_CASE("a log that goes on after it was closed does not count as closed") {
  const Folder folder;
  {
    Life life(folder);
    create(life.records, "/ns/a");
    life.log.close();
  }
  {
    Life life(folder);
    CHECK(life.records.count() == 1);
  }
  LogOwner later = owner();
  later.machine.id[0] ^= 1;
  Records records(1000);
  CHECK(records.restore(RecordLog(folder.log(), later)).fault != "");
}

TEST_CASE("times to live go on over a restart of the machine") {
  const Folder folder;
  {
    Life life(folder);
    create(life.records, "/ns/long", 10'000);
    create(life.records, "/ns/short", 500);
    create(life.records, "/ns/ever");
    life.log.close();
  }
  LogOwner later = owner();
  later.machine.id[0] ^= 1;
  later.machine.began_ms += 600'000;

  Life life(folder, later);

  CHECK(life.recovery.fault == "");
  CHECK(life.recovery.expired == 1);
  CHECK(seen(life.records, "/ns/short") == "-");
  CHECK(seen(life.records, "/ns/long") != "-");
  CHECK(life.records.expire(boottime_ms() + 9'300'000, 10) == 0);
  CHECK(life.records.expire(boottime_ms() + 9'500'000, 10) == 1);
}

TEST_CASE("a log that grows is copied while changes go on, and stays as short as its records") {
  const Folder folder;
  State before;
  {
    Life life(folder);
    std::atomic<bool> is_over{false};
    std::thread writer([&] {
      std::mt19937_64 random(1);
      for (int i = 0; i < 20'000; ++i) change_something(life.records, random);
      is_over = true;
    });
    int copies = 0;
    for (; !is_over || copies < 3; ++copies) {
      const auto copied = life.records.copy_log();
      if (!copied) FAIL(copied.error().message);
    }
    writer.join();
    CHECK(copies >= 3);
    REQUIRE(life.records.copy_log());
    before = all(life.records);
    CHECK(life.log.bytes() == folder.read().size());
  }
  Life life(folder);
  CHECK(life.recovery.fault == "");
  CHECK(all(life.records) == before);
}

TEST_CASE("many writers share the writes, and each one's change is in the file when it is told") {
  const Folder folder;
  {
    Life life(folder);
    std::vector<std::thread> writers;
    for (int thread = 0; thread < 4; ++thread) {
      writers.emplace_back([&, thread] {
        const std::string path = "/ns/t" + std::to_string(thread);
        RecordAnswer now = create(life.records, path);
        for (std::uint64_t i = 0; i < 500; ++i)
          now = commit(life.records, path, now, i + 1, i % 50 * 1000, 1000);
      });
    }
    for (auto& writer : writers) writer.join();
  }
  Life life(folder);
  for (int thread = 0; thread < 4; ++thread) {
    wire::MetaBody body;
    bool is_cut = false;
    CHECK(life.records.meta("/ns/t" + std::to_string(thread), 0, ANY_SIZE, 1000, body, is_cut)
              .status == Status::ok);
    CHECK(body.segments.size() == 50);
  }
}

TEST_CASE("a record of more ranges than one entry holds comes back whole") {
  const Folder folder;
  std::string before;
  {
    Life life(folder, owner(), 100'000);
    RecordChange asked;
    asked.kind = ChangeKind::create;
    asked.chunk_bytes = 64 * KiB;
    RecordAnswer now = change(life.records, "/ns/f", asked);
    for (std::uint64_t i = 0; i < 20'000; ++i)
      now = commit(life.records, "/ns/f", now, i + 1, i * 1000, 500);
    REQUIRE(life.records.copy_log());
    before = seen(life.records, "/ns/f");
  }
  Life life(folder, owner(), 100'000);
  CHECK(life.recovery.fault == "");
  CHECK(seen(life.records, "/ns/f") == before);
}

TEST_CASE("a disk that takes no more ends the log, not the node, and is tried again") {
  const Folder folder;
  Life life(folder);
  create(life.records, "/ns/a");
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = folder.read().size() + 10;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);

  create(life.records, "/ns/b");  // acknowledged: memory has it
  CHECK_FALSE(life.log.is_on());
  CHECK(life.log.faults() > 0);
  CHECK_FALSE(life.records.copy_log());
  {
    // What was begun is no log: a process that started now would know nothing.
    Records records(1000);
    CHECK(records.restore(RecordLog(folder.log(), owner())).fault != "");
  }
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(life.log.is_copy_due(boottime_ms() + 20'000));
  REQUIRE(life.records.copy_log());
  CHECK(life.log.is_on());
  Records records(1000);
  CHECK(records.restore(RecordLog(folder.log(), owner())).fault == "");
  CHECK(records.count() == 2);
}

TEST_CASE("a folder where nothing can be made is an error that says so") {
  RecordLog log("/nowhere/at/all/records", owner());
  Records records(10);

  const auto begun = records.use_log(log);

  REQUIRE_FALSE(begun);
  CHECK(begun.error().message.find("/nowhere/at/all/records") != std::string::npos);
  CHECK_FALSE(begun.error().hint.empty());
}
