#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include "local_cluster.h"
#include "proxy.h"

using namespace gd2fs;

namespace {

/// Pages, and where their bytes lie when they are put and got: cut at random, empty buffers too.
struct CutPages {
  std::vector<std::string> keys;
  std::vector<Memory> values;
  std::vector<Memory> room;
  std::vector<Buffer> from, into;
  std::vector<std::uint32_t> from_counts, into_counts;

  CutPages(std::string name, std::vector<std::size_t> sizes, std::uint64_t seed,
           std::size_t cuts_max = 40) {
    std::mt19937_64 random(seed);
    for (const std::size_t bytes : sizes) {
      keys.push_back(name + "-" + std::to_string(keys.size()));
      values.push_back(random_bytes(bytes, random()));
      room.emplace_back(bytes);
    }
    for (std::size_t page = 0; page < keys.size(); ++page) {
      from_counts.push_back(cut(values[page], random() % (cuts_max + 1), random, from));
      into_counts.push_back(cut(room[page], random() % (cuts_max + 1), random, into));
    }
  }

  PageBuffers sources() const { return {from, from_counts}; }
  PageBuffers targets() const { return {into, into_counts}; }

 private:
  static std::uint32_t cut(Memory& memory, std::size_t cuts, std::mt19937_64& random,
                           std::vector<Buffer>& out) {
    std::vector<std::size_t> ends{memory.size()};
    for (std::size_t at = 0; at < cuts; ++at) ends.push_back(random() % (memory.size() + 1));
    std::sort(ends.begin(), ends.end());
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      out.push_back({memory.data() + begin, end - begin});
      begin = end;
    }
    return static_cast<std::uint32_t>(ends.size());
  }
};

bool is_all(const Outcome& outcome, Status status) {
  return !outcome.items.empty() &&
         std::all_of(outcome.items.begin(), outcome.items.end(),
                     [&](const ItemOutcome& item) { return item.status == status; });
}

std::vector<std::size_t> mixed_sizes() {
  std::vector<std::size_t> sizes{1, 65'535, 65'536, 65'537, 131'072, 1'000'001, 9 * MiB + 77};
  for (std::size_t at = 0; at < 60; ++at) sizes.push_back(1 + at * 5'003);
  return sizes;
}

std::unique_ptr<Client> client_of(const LocalCluster& cluster, Transport transport,
                                  bool is_verifying) {
  ClientOptions options = cluster.options();
  options.transport = transport;
  options.is_verifying = is_verifying;
  options.streams = 3;
  return LocalCluster::client(options);
}

}  // namespace

TEST_CASE("pages of several buffers come back into others, on every transport") {
  LocalCluster cluster(2, 128 * MiB, {}, {}, Rung::memfd);
  for (const Transport transport : {Transport::shm, Transport::unix_socket, Transport::tcp}) {
    for (const bool is_verifying : {true, false}) {
      CAPTURE(transport_name(transport));
      CAPTURE(is_verifying);
      auto client = client_of(cluster, transport, is_verifying);
      CutPages pages(std::string(transport_name(transport)) + std::to_string(is_verifying),
                     mixed_sizes(), is_verifying ? 1 : 2);

      CHECK(is_all(end_of(client->put_pages("ns", pages.keys, pages.sources(), {})), Status::ok));
      const auto got = client->get_pages("ns", pages.keys, pages.targets(), {});

      REQUIRE(is_all(end_of(got), Status::ok));
      CHECK(pages.room == pages.values);
      CHECK(got->outcome().items[5].bytes == 1'000'001);
    }
  }
}

TEST_CASE("how a page lies in memory is not stored") {
  LocalCluster cluster(1);
  auto client = cluster.client();
  CutPages pages("a", {300'000}, 1, 1'000);
  const std::vector<Buffer> value{whole(pages.values[0])};
  const std::vector<Buffer> room{whole(pages.room[0])};

  end_of(client->put_pages("ns", pages.keys, pages.sources(), {}));
  CHECK(is_all(end_of(client->put_pages("ns", pages.keys, value, {})), Status::have));
  CHECK(is_all(end_of(client->get_pages("ns", pages.keys, room, {})), Status::ok));

  CHECK(pages.room == pages.values);
}

TEST_CASE("a page of as many buffers as may be, of a few bytes each") {
  LocalCluster cluster(1);
  auto client = cluster.client();
  Memory value = random_bytes(PAGE_BUFFERS_MAX * 3, 1);
  Memory room(value.size());
  std::vector<Buffer> from, into;
  for (std::size_t at = 0; at < PAGE_BUFFERS_MAX; ++at) {
    from.push_back({value.data() + at * 3, 3});
    into.push_back({room.data() + at * 3, 3});
  }
  const std::vector<std::uint32_t> counts{PAGE_BUFFERS_MAX};
  const std::vector<std::string> keys{"k"};

  end_of(client->put_pages("ns", keys, {from, counts}, {}));
  const auto got = client->get_pages("ns", keys, {into, counts}, {});

  CHECK(is_all(end_of(got), Status::ok));
  CHECK(room == value);
}

TEST_CASE("buffers too short together are told how long the page is") {
  LocalCluster cluster(1);
  auto client = cluster.client();
  CutPages pages("a", {300'000, 7 * MiB}, 1);
  end_of(client->put_pages("ns", pages.keys, pages.sources(), {}));
  Memory small(200'000);
  const std::vector<Buffer> into{{small.data(), 100'000}, {small.data() + 100'000, 99'999}};
  const std::vector<std::uint32_t> counts{1, 1};

  const auto got = client->get_pages("ns", pages.keys, {into, counts}, {});

  CHECK(is_all(end_of(got), Status::invalid));
  CHECK(got->outcome().items[0].bytes == 300'000);
  CHECK(got->outcome().items[1].bytes == 7 * MiB);
}

TEST_CASE("batches whose buffers are not those of their pages are refused, and say why") {
  LocalCluster cluster(1);
  auto client = cluster.client();
  Memory memory(PAGE_BUFFERS_MAX + 1);
  const std::vector<Buffer> three{{memory.data(), 5}, {memory.data() + 5, 5}, {nullptr, 0}};
  const std::vector<Buffer> shared{{memory.data(), 5}, {memory.data() + 4, 5}};
  const std::vector<Buffer> huge{{memory.data(), ~std::size_t{0}}, {memory.data(), 2}};
  std::vector<Buffer> many;
  for (std::byte& each : memory) many.push_back({&each, 1});
  const std::vector<std::string> one{"a"}, two{"a", "b"};
  using Counts = std::vector<std::uint32_t>;
  const auto refusal = [](const OperationRef& operation) {
    CHECK(end_of(operation).status == Status::invalid);
    return operation->outcome().message;
  };

  const Counts all{PAGE_BUFFERS_MAX + 1}, pair{2}, triple{3}, none_last{3, 0}, short_by_one{1, 1};
  CHECK(refusal(client->put_pages("ns", one, {many, all}, {})).find("1024") != std::string::npos);
  CHECK(!refusal(client->put_pages("ns", two, {three, triple}, {})).empty());
  CHECK(!refusal(client->put_pages("ns", two, {three, short_by_one}, {})).empty());
  CHECK(!refusal(client->put_pages("ns", two, {three, none_last}, {})).empty());  // an empty page
  CHECK(!refusal(client->put_pages("ns", one, {huge, pair}, {})).empty());
  CHECK(!refusal(client->get_pages("ns", one, {shared, pair}, {})).empty());
}

TEST_CASE("bytes changed on their way are never taken for a page in several buffers") {
  Proxy proxy;
  LocalCluster cluster(1, 64 * MiB, {proxy.address()});
  proxy.forward_to(cluster.address(0));
  auto client = cluster.client();
  CutPages pages("a", {3 * MiB, 400'000, 65'536}, 1);
  REQUIRE(is_all(end_of(client->put_pages("ns", pages.keys, pages.sources(), {})), Status::ok));
  proxy.set(Proxy::Mode::corrupt);

  for (int attempt = 0; attempt < 10; ++attempt) {
    for (Memory& room : pages.room) std::fill(room.begin(), room.end(), std::byte{0});
    const auto got = client->get_pages("ns", pages.keys, pages.targets(), {.timeout_ms = 2'000});
    const Outcome& outcome = end_of(got);
    for (std::size_t page = 0; page < outcome.items.size(); ++page)
      if (outcome.items[page].status == Status::ok) CHECK(pages.room[page] == pages.values[page]);
  }

  proxy.set(Proxy::Mode::pass);
  CHECK(eventually([&] {
    const auto got = client->get_pages("ns", pages.keys, pages.targets(), {});
    return is_all(end_of(got), Status::ok);
  }));
  CHECK(pages.room == pages.values);
}
