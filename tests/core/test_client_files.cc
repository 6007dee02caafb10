#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <thread>

#include "local_cluster.h"

using namespace gd2fs;

namespace {

constexpr const char* PATH = "/ns/dir/file";

CallOptions chunked(std::uint32_t chunk_bytes) {
  CallOptions options;
  options.chunk_bytes = chunk_bytes;
  return options;
}

/// Cuts memory into a list of buffers at random places, some of them empty.
std::vector<Buffer> scattered(Memory& memory, std::mt19937_64& random) {
  std::vector<Buffer> out;
  for (std::size_t at = 0; at < memory.size();) {
    const std::size_t bytes = std::min<std::size_t>(random() % 150'000, memory.size() - at);
    out.push_back({memory.data() + at, bytes});
    at += bytes;
  }
  return out;
}

/// Writes, appends, truncates and reads at random places, and keeps what the file has to hold.
class Model {
 public:
  Model(Client& client, std::size_t size_max, std::uint64_t seed)
      : client_(client), size_max_(size_max), random_(seed) {}

  void step() {
    switch (random_() % 10) {
      case 0: return truncate();
      case 1:
      case 2: return append();
      case 3:
      case 4:
      case 5: return write();
      default: return read();
    }
  }

  void read_all() { check_read(0, size_max_ + 1000); }

 private:
  std::size_t below(std::size_t limit) { return random_() % (limit + 1); }
  std::size_t some_bytes() { return random_() % 2 == 0 ? below(200'000) : below(size_max_ / 4); }

  void write() {
    const std::size_t offset = below(size_max_ - 1);
    put(offset, std::min(some_bytes(), size_max_ - offset), false);
  }
  void append() { put(bytes_.size(), std::min(some_bytes(), size_max_ - bytes_.size()), true); }

  void put(std::size_t offset, std::size_t length, bool is_append) {
    Memory value = random_bytes(length, random_());
    const auto from = scattered(value, random_);
    const auto written =
        is_append ? client_.append(PATH, from, {}) : client_.write(PATH, offset, from, {});
    REQUIRE_MESSAGE(end_of(written).status == Status::ok, written->outcome().message);
    CHECK(written->outcome().value == (is_append ? offset : length));
    if (length == 0) return;
    bytes_.resize(std::max(bytes_.size(), offset + length));
    std::copy(value.begin(), value.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(offset));
  }

  void truncate() {
    const std::size_t size = below(bytes_.size());
    REQUIRE(end_of(client_.truncate(PATH, size, {})).status == Status::ok);
    bytes_.resize(size);
  }

  void read() {
    const std::size_t offset = below(size_max_);
    check_read(offset, some_bytes());
  }

  void check_read(std::size_t offset, std::size_t length) {
    Memory room(length, std::byte{0xee});
    const auto got = client_.read(PATH, offset, scattered(room, random_), {});
    REQUIRE_MESSAGE(end_of(got).status == Status::ok, got->outcome().message);
    const std::size_t expected =
        offset >= bytes_.size() ? 0 : std::min(length, bytes_.size() - offset);
    REQUIRE(got->outcome().value == expected);
    CHECK(std::equal(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(expected),
                     bytes_.begin() + static_cast<std::ptrdiff_t>(offset)));
  }

  Client& client_;
  const std::size_t size_max_;
  std::mt19937_64 random_;
  Memory bytes_;
};

}  // namespace

TEST_CASE("a file holds what was written to it, at any place, in any order") {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    CAPTURE(seed);
    LocalCluster cluster(3, 128 * MiB);
    auto client = cluster.client();
    REQUIRE(end_of(client->create(PATH, chunked(256 * KiB))).status == Status::ok);
    Model model(*client, 6 * MiB, seed);

    for (int step = 0; step < 150; ++step) model.step();

    model.read_all();
  }
}

TEST_CASE("64 MiB over three nodes and the usual chunks") {
  LocalCluster cluster(3, 192 * MiB);
  auto client = cluster.client();
  REQUIRE(end_of(client->create(PATH, {})).status == Status::ok);
  Model model(*client, 64 * MiB, 4);

  for (int step = 0; step < 20; ++step) model.step();

  model.read_all();
}

TEST_CASE("what was never written reads as zeros, and reads end where the file ends") {
  LocalCluster cluster(3);
  auto client = cluster.client();
  end_of(client->create(PATH, chunked(64 * KiB)));
  Memory value = random_bytes(1'000, 1);
  const std::vector<Buffer> from{whole(value)};
  end_of(client->write(PATH, 500'000, from, {}));
  Memory room(600'000, std::byte{0xee});
  const std::vector<Buffer> into{whole(room)};

  const auto got = client->read(PATH, 0, into, {});

  CHECK(end_of(got).value == 501'000);
  CHECK(std::all_of(room.begin(), room.begin() + 500'000,
                    [](std::byte each) { return each == std::byte{0}; }));
  CHECK(std::equal(value.begin(), value.end(), room.begin() + 500'000));
  CHECK(room[501'000] == std::byte{0xee});
}

TEST_CASE("a file that is not there is gone for every call, and an empty range moves nothing") {
  LocalCluster cluster(1);
  auto client = cluster.client();
  Memory memory(10);
  const std::vector<Buffer> one{whole(memory)};

  for (const auto& operation : {client->read(PATH, 0, one, {}), client->write(PATH, 0, one, {}),
                                client->append(PATH, one, {}), client->read(PATH, 0, {}, {}),
                                client->write(PATH, 0, {}, {}), client->stat(PATH, {}),
                                client->truncate(PATH, 0, {}), client->unlink(PATH, {})})
    CHECK(end_of(operation).status == Status::gone);

  end_of(client->create(PATH, {}));
  for (const auto& operation : {client->read(PATH, 5, {}, {}), client->write(PATH, 5, {}, {}),
                                client->append(PATH, {}, {})}) {
    CHECK(end_of(operation).status == Status::ok);
    CHECK(operation->outcome().value == 0);
  }
}

TEST_CASE("create, stat and unlink agree, and a recreated file is empty") {
  LocalCluster cluster(3);
  auto client = cluster.client();
  Memory value = random_bytes(300'000, 1);
  const std::vector<Buffer> from{whole(value)};
  CallOptions options = chunked(128 * KiB);
  options.ttl_s = 1000;
  const FileFacts made = end_of(client->create(PATH, options)).file;
  end_of(client->append(PATH, from, {}));

  const FileFacts facts = end_of(client->stat(PATH, {})).file;
  CHECK(facts.gen == made.gen);
  CHECK(facts.size == 300'000);
  CHECK(facts.chunk_bytes == 128 * KiB);
  CHECK(facts.ttl_s == 1000);
  options.if_absent = true;
  CHECK(end_of(client->create(PATH, options)).status == Status::conflict);

  CHECK(end_of(client->unlink(PATH, {})).status == Status::ok);
  CHECK(end_of(client->stat(PATH, {})).status == Status::gone);
  const FileFacts again = end_of(client->create(PATH, {})).file;
  CHECK(again.gen != made.gen);
  CHECK(again.size == 0);
  CHECK(end_of(client->read(PATH, 0, from, {})).value == 0);
}

TEST_CASE("truncate only shrinks") {
  LocalCluster cluster(1);
  auto client = cluster.client();
  end_of(client->create(PATH, {}));

  CHECK(end_of(client->truncate(PATH, 1, {})).status == Status::invalid);
}

TEST_CASE("files are listed in order by prefix, over all nodes") {
  LocalCluster cluster(3);
  auto client = cluster.client();
  std::vector<std::string> paths;
  for (int at = 100; at < 160; ++at) paths.push_back("/ns/a/" + std::to_string(at));
  for (const std::string& path : paths) end_of(client->create(path, {}));
  end_of(client->create("/ns/b", {}));

  std::vector<std::string> listed;
  std::string after;
  do {
    const auto list = client->list_files("/ns/a", after, 25, {});
    REQUIRE(end_of(list).status == Status::ok);
    for (const auto& entry : list->outcome().entries) listed.push_back(entry.name);
    after = list->outcome().next;
  } while (!after.empty());

  CHECK(listed == paths);
}

TEST_CASE("a chunk of more writes than a record lists is merged, and nothing of it is lost") {
  LocalCluster cluster(3);
  auto client = cluster.client();
  end_of(client->create(PATH, {}));
  Memory all;

  for (std::uint64_t at = 0; at < 600; ++at) {
    Memory value = random_bytes(100 + at % 50, at);
    const std::vector<Buffer> from{whole(value)};
    const auto appended = client->append(PATH, from, {});
    REQUIRE_MESSAGE(end_of(appended).status == Status::ok, appended->outcome().message);
    all.insert(all.end(), value.begin(), value.end());
  }
  Memory room(all.size());
  const std::vector<Buffer> into{whole(room)};
  const auto got = client->read(PATH, 0, into, {});

  CHECK(end_of(got).value == all.size());
  CHECK(room == all);
}

TEST_CASE("appends from four threads at once lose nothing") {
  LocalCluster cluster(3);
  auto client = cluster.client();
  end_of(client->create(PATH, chunked(64 * KiB)));
  constexpr std::size_t RECORD = 3'000;
  std::vector<std::thread> threads;

  for (unsigned char thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (unsigned char at = 0; at < 25; ++at) {
        Memory record(RECORD, std::byte(thread * 25 + at));
        const std::vector<Buffer> from{whole(record)};
        const auto appended = client->append(PATH, from, {.timeout_ms = 30'000});
        CHECK_MESSAGE(end_of(appended).status == Status::ok, appended->outcome().message);
      }
    });
  for (std::thread& thread : threads) thread.join();
  Memory room(100 * RECORD + 1);
  const std::vector<Buffer> into{whole(room)};
  const auto got = client->read(PATH, 0, into, {});

  REQUIRE(end_of(got).value == 100 * RECORD);
  std::vector<bool> seen(100);
  for (std::size_t at = 0; at < 100; ++at) {
    const auto begin = room.begin() + static_cast<std::ptrdiff_t>(at * RECORD);
    CHECK(std::all_of(begin, begin + RECORD, [&](std::byte each) { return each == *begin; }));
    seen[std::to_integer<std::size_t>(*begin)] = true;
  }
  CHECK(std::count(seen.begin(), seen.end(), true) == 100);
}

TEST_CASE("writers who are in each other's way leave nothing behind but what is read") {
  LocalCluster cluster(2);
  std::vector<std::unique_ptr<Client>> clients;  // until the end: what vanished ones left goes
  for (int writer = 0; writer < 4; ++writer) clients.push_back(cluster.client());
  REQUIRE(end_of(clients[0]->create(PATH, {})).status == Status::ok);
  std::vector<std::thread> writers;
  for (std::uint64_t writer = 0; writer < 4; ++writer)
    writers.emplace_back([&, writer] {
      Client* const client = clients[writer].get();
      Memory some = random_bytes(10'000, writer);
      const std::vector<Buffer> from{whole(some)};
      for (int round = 0; round < 12; ++round)
        CHECK(end_of(client->append(PATH, from, {.timeout_ms = 30'000})).status == Status::ok);
    });
  for (std::thread& writer : writers) writer.join();

  for (const std::size_t node : {0u, 1u})
    CHECK(eventually([&] { return cluster.server(node).counts().store.staged_bytes == 0; }));
}

TEST_CASE("writes and puts of one path at once are all done, in some order") {
  LocalCluster cluster(2);
  auto writer = cluster.client();
  auto putter = cluster.client();
  Memory small = random_bytes(1000, 1);
  Memory large = random_bytes(300'000, 2);
  const std::vector<Buffer> some{whole(small)};
  const std::vector<Buffer> all{whole(large)};
  REQUIRE(end_of(putter->put("/ns/both", all, {})).status == Status::ok);

  for (int round = 0; round < 100; ++round) {
    const auto put = putter->put("/ns/both", all, {});
    const auto write = writer->write("/ns/both", 5'000, some, {});
    const auto append = writer->append("/ns/both", some, {});
    CHECK(end_of(put).status == Status::ok);
    CHECK(end_of(write).status == Status::ok);
    CHECK(end_of(append).status == Status::ok);
  }
}

TEST_CASE("overlapping writes of two clients never mix within what a read sees") {
  LocalCluster cluster(3, 256 * MiB);
  auto one = cluster.client();
  auto two = cluster.client();
  end_of(one->create(PATH, chunked(64 * KiB)));
  constexpr std::size_t BYTES = 300'000;
  std::atomic<bool> is_over{false};
  std::vector<std::thread> writers;
  for (Client* client : {one.get(), two.get()})
    writers.emplace_back([&, client, is_one = client == one.get()] {
      for (int at = 0; at < 40; ++at) {
        Memory value(BYTES, std::byte(static_cast<unsigned char>(2 * at + (is_one ? 0 : 1))));
        const std::vector<Buffer> from{whole(value)};
        const Status status = end_of(client->write(PATH, 0, from, {.timeout_ms = 30'000})).status;
        CHECK((status == Status::ok || status == Status::conflict));
      }
    });
  std::thread reader([&] {
    auto client = cluster.client();
    while (!is_over) {
      Memory room(BYTES);
      const std::vector<Buffer> into{whole(room)};
      const auto got = client->read(PATH, 0, into, {});
      if (end_of(got).status != Status::ok || got->outcome().value == 0) continue;
      CHECK(std::all_of(room.begin(), room.end(), [&](std::byte each) { return each == room[0]; }));
    }
  });

  for (std::thread& writer : writers) writer.join();
  is_over = true;
  reader.join();
}
