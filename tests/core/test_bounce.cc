// Memory of a GPU, over every transport. Addresses of the fake GPU have no rights at all, so a byte
// that is touched past the driver ends the test.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <thread>

#include "bounce_pool.h"
#include "cuda/gpu.h"
#include "local_cluster.h"

using namespace gd2fs;
using testing::DeviceMemory;
using testing::Gpu;

namespace {

using Keys = std::vector<std::string>;

constexpr std::array TRANSPORTS{Transport::tcp, Transport::automatic, Transport::unix_socket};

/// A node that shares its memory, and clients that reach it in each way.
class Fixture {
 public:
  explicit Fixture(Transport transport, std::size_t bounce_bytes = 8 * MiB)
      : cluster_(2, 96 * MiB, {}, {}, Rung::memfd) {
    ClientOptions options = cluster_.options();
    options.transport = transport;
    options.devices.bounce_bytes = bounce_bytes;
    client_ = LocalCluster::client(options);
  }
  Client& operator*() { return *client_; }
  Client* operator->() { return client_.get(); }
  void close() { client_ = nullptr; }

 private:
  LocalCluster cluster_;
  std::unique_ptr<Client> client_;
};

Outcome put(Client& client, const std::string& key, const Buffer& from) {
  return end_of(client.put_pages("ns", Keys{key}, std::vector<Buffer>{from}, {}));
}

Outcome get(Client& client, const std::string& key, const Buffer& into) {
  return end_of(client.get_pages("ns", Keys{key}, std::vector<Buffer>{into}, {}));
}

bool is_fake() {
  if (Gpu::the().is_fake()) return true;
  MESSAGE("skipped: the real driver cannot be told to fail or to wait");
  return false;
}

}  // namespace

TEST_CASE("pages of every size go from a GPU and back, bit for bit") {
  for (const Transport transport : TRANSPORTS) {
    CAPTURE(transport_name(transport));
    Fixture client(transport);
    for (const std::size_t bytes :
         {1ul, 4095ul, 4096ul, 65'536ul, 65'537ul, 1'048'579ul, 5ul * MiB + 1, 17ul * MiB}) {
      CAPTURE(bytes);
      Memory value = random_bytes(bytes, bytes);
      const DeviceMemory from(value), into(bytes);
      Memory host(bytes);
      const std::string key = std::to_string(bytes);

      CHECK(put(*client, key, from.all()).items[0].status == Status::ok);
      CHECK(get(*client, key, into.all()).items[0].status == Status::ok);
      CHECK(get(*client, key, whole(host)).items[0].status == Status::ok);

      CHECK(into.content() == value);
      CHECK(host == value);
      CHECK(from.content() == value);
    }
  }
}

TEST_CASE("a batch lies partly on a GPU, and each page in several pieces") {
  for (const Transport transport : TRANSPORTS) {
    CAPTURE(transport_name(transport));
    Fixture client(transport);
    constexpr std::size_t PAGES = 200, HALF = 10'007;
    Memory value = random_bytes(PAGES * 2 * HALF, 1), host(PAGES * HALF);
    const DeviceMemory device(PAGES * HALF);
    Keys keys;
    std::vector<Buffer> from, into;
    std::vector<std::uint32_t> counts(PAGES, 2);
    for (std::size_t page = 0; page < PAGES; ++page) {
      keys.push_back("page-" + std::to_string(page));
      from.push_back({value.data() + page * 2 * HALF, 2 * HALF});
      into.push_back({host.data() + page * HALF, HALF});
      into.push_back(device.part(page * HALF, HALF));
    }
    REQUIRE(end_of(client->put_pages("ns", keys, from, {})).status == Status::ok);

    const Outcome got = end_of(client->get_pages("ns", keys, {into, counts}, {}));

    REQUIRE(got.items.size() == PAGES);
    const Memory on_device = device.content();
    for (std::size_t page = 0; page < PAGES; ++page) {
      CHECK(got.items[page].status == Status::ok);
      const std::byte* const expected = value.data() + page * 2 * HALF;
      CHECK(std::memcmp(host.data() + page * HALF, expected, HALF) == 0);
      CHECK(std::memcmp(on_device.data() + page * HALF, expected + HALF, HALF) == 0);
    }
  }
}

TEST_CASE("a page that is shorter than its memory leaves the rest of it as it was") {
  Fixture client(Transport::tcp);
  const Memory value = random_bytes(5000, 2);
  const DeviceMemory from(value), into(9000);
  REQUIRE(put(*client, "a", from.all()).items[0].status == Status::ok);

  const Outcome got = get(*client, "a", into.all());

  CHECK(got.items[0].bytes == 5000);
  Memory expected(9000, std::byte{0xEE});
  std::copy(value.begin(), value.end(), expected.begin());
  CHECK(into.content() == expected);
}

TEST_CASE("a miss changes nothing on the GPU") {
  Fixture client(Transport::tcp);
  const DeviceMemory into(100'000);

  CHECK(get(*client, "nothing", into.all()).items[0].status == Status::miss);

  CHECK(into.content() == Memory(100'000, std::byte{0xEE}));
}

TEST_CASE("files are put, written, appended and read on a GPU") {
  for (const Transport transport : TRANSPORTS) {
    CAPTURE(transport_name(transport));
    Fixture client(transport);
    constexpr std::size_t BYTES = 11 * MiB + 77;
    Memory value = random_bytes(BYTES, 3);
    DeviceMemory from(value);
    const DeviceMemory into(BYTES);
    const std::vector<Buffer> all{from.all()};

    REQUIRE(end_of(client->put("/ns/f", all, {})).status == Status::ok);
    REQUIRE(end_of(client->append("/ns/f", std::vector<Buffer>{from.part(0, 1000)}, {})).status ==
            Status::ok);
    REQUIRE(
        end_of(client->write("/ns/f", 5, std::vector<Buffer>{from.part(100, 70'000)}, {})).status ==
        Status::ok);
    std::copy_n(value.begin() + 100, 70'000, Memory(value).begin());

    const std::vector<Buffer> pieces{into.part(1000, BYTES - 1000), into.part(0, 1000)};
    const Outcome read = end_of(client->read("/ns/f", 0, pieces, {}));

    REQUIRE(read.status == Status::ok);
    CHECK(read.value == BYTES);
    Memory expected = value;
    std::copy_n(value.begin() + 100, 70'000, expected.begin() + 5);
    const Memory got = into.content();
    CHECK(std::equal(got.begin() + 1000, got.end(), expected.begin()));
    CHECK(std::equal(got.begin(), got.begin() + 1000, expected.end() - 1000));
    Memory tail(1000);
    CHECK(end_of(client->read("/ns/f", BYTES, std::vector<Buffer>{whole(tail)}, {})).value == 1000);
    CHECK(std::equal(tail.begin(), tail.end(), value.begin()));
  }
}

TEST_CASE("what was never written reads as zeros on a GPU") {
  Fixture client(Transport::tcp);
  const Memory value = random_bytes(10, 4);
  const DeviceMemory from(value), into(3 * MiB);
  REQUIRE(end_of(client->create("/ns/f", {})).status == Status::ok);
  REQUIRE(
      end_of(client->write("/ns/f", 3 * MiB - 10, std::vector<Buffer>{from.all()}, {})).status ==
      Status::ok);

  const Outcome read = end_of(client->read("/ns/f", 0, std::vector<Buffer>{into.all()}, {}));

  REQUIRE(read.status == Status::ok);
  Memory expected(3 * MiB);
  std::copy(value.begin(), value.end(), expected.end() - 10);
  CHECK(into.content() == expected);
}

TEST_CASE("a pool that is smaller than what is asked for is enough") {
  for (const Transport transport : TRANSPORTS) {
    CAPTURE(transport_name(transport));
    Fixture client(transport, 64 * KiB);
    const Memory value = random_bytes(9 * MiB + 5, 5);
    const DeviceMemory from(value), into(value.size());

    CHECK(put(*client, "a", from.all()).items[0].status == Status::ok);
    CHECK(get(*client, "a", into.all()).items[0].status == Status::ok);

    CHECK(into.content() == value);
  }
}

TEST_CASE("many calls at once share the pool") {
  Fixture client(Transport::tcp, 1 * MiB);
  constexpr std::size_t CALLS = 24, BYTES = 700'001;
  std::vector<std::unique_ptr<DeviceMemory>> from, into;
  std::vector<OperationRef> calls;
  for (std::size_t call = 0; call < CALLS; ++call) {
    from.push_back(std::make_unique<DeviceMemory>(random_bytes(BYTES, call)));
    into.push_back(std::make_unique<DeviceMemory>(BYTES));
    const std::vector<Buffer> all{from.back()->all()};
    calls.push_back(client->put_pages("ns", Keys{std::to_string(call)}, all, {}));
  }
  for (const OperationRef& call : calls) CHECK(end_of(call).items[0].status == Status::ok);
  calls.clear();
  for (std::size_t call = 0; call < CALLS; ++call) {
    const std::vector<Buffer> all{into[call]->all()};
    calls.push_back(client->get_pages("ns", Keys{std::to_string(call)}, all, {}));
  }
  for (const OperationRef& call : calls) CHECK(end_of(call).items[0].status == Status::ok);

  for (std::size_t call = 0; call < CALLS; ++call)
    CHECK(into[call]->content() == from[call]->content());
  CHECK(client->counts().bounced_in_bytes == CALLS * BYTES);
  CHECK(client->counts().bounced_out_bytes == CALLS * BYTES);
}

TEST_CASE("memory of the host goes past the pool") {
  Fixture client(Transport::tcp);
  Memory value = random_bytes(2 * MiB, 6), into(2 * MiB);

  CHECK(put(*client, "a", whole(value)).items[0].status == Status::ok);
  CHECK(get(*client, "a", whole(into)).items[0].status == Status::ok);

  CHECK(into == value);
  CHECK(client->counts().bounced_in_bytes + client->counts().bounced_out_bytes == 0);
}

TEST_CASE("copies are of pinned memory, in a context") {
  if (!is_fake()) return;
  Fixture client(Transport::tcp);
  const long before = Gpu::the().faults();
  const DeviceMemory from(random_bytes(3 * MiB, 7)), into(3 * MiB);

  CHECK(put(*client, "a", from.all()).items[0].status == Status::ok);
  CHECK(get(*client, "a", into.all()).items[0].status == Status::ok);

  CHECK(Gpu::the().faults() == before);
}

TEST_CASE("threads without a context know memory of a GPU too") {
  if (!is_fake()) return;
  Fixture client(Transport::tcp);
  const Memory value = random_bytes(100'000, 8);
  const DeviceMemory from(value), into(value.size());
  Gpu::the().strict(1);

  std::thread([&] {
    CHECK(put(*client, "a", from.all()).items[0].status == Status::ok);
    CHECK(get(*client, "a", into.all()).items[0].status == Status::ok);
  }).join();

  Gpu::the().strict(0);
  CHECK(into.content() == value);
}

TEST_CASE("a call that is cancelled ends when its copies have, and touches nothing after") {
  if (!is_fake()) return;
  for (const Transport transport : TRANSPORTS) {
    CAPTURE(transport_name(transport));
    Fixture client(transport, 2 * MiB);
    const Memory value = random_bytes(16 * MiB, 9);
    const DeviceMemory from(value), into(value.size());
    REQUIRE(put(*client, "a", from.all()).items[0].status == Status::ok);
    Gpu::the().hold(1);
    const std::vector<Buffer> all{into.all()};
    const OperationRef call = client->get_pages("ns", Keys{"a"}, all, {});
    REQUIRE(eventually([] { return Gpu::the().pending() > 0; }));

    call->cancel();
    CHECK_FALSE(call->wait(300));
    Gpu::the().hold(0);
    REQUIRE(call->wait(10'000));

    CHECK(Gpu::the().pending() == 0);
    const Memory at_end = into.content();
    const long copies = Gpu::the().copies_in();
    CHECK(get(*client, "nothing", into.all()).items[0].status == Status::miss);
    CHECK(into.content() == at_end);
    CHECK(Gpu::the().copies_in() == copies);
  }
}

TEST_CASE("a put that is cancelled leaves a whole page or none") {
  if (!is_fake()) return;
  Fixture client(Transport::tcp, 1 * MiB);
  const Memory value = random_bytes(4 * MiB, 10);
  const DeviceMemory from(value), into(value.size());
  Gpu::the().hold(1);
  const std::vector<Buffer> all{from.all()};
  const OperationRef call = client->put_pages("ns", Keys{"a"}, all, {});
  REQUIRE(eventually([] { return Gpu::the().pending() > 0; }));

  call->cancel();
  Gpu::the().hold(0);
  REQUIRE(call->wait(10'000));

  const Status got = get(*client, "a", into.all()).items[0].status;
  CHECK((got == Status::miss || into.content() == value));
}

TEST_CASE("a deadline is kept as soon as copies have ended, and what waits for room ends at it") {
  if (!is_fake()) return;
  Fixture client(Transport::tcp, 1 * MiB);
  const DeviceMemory from(random_bytes(1 * MiB, 11)), first(1 * MiB), second(1 * MiB);
  REQUIRE(put(*client, "a", from.all()).items[0].status == Status::ok);
  Gpu::the().hold(1);
  CallOptions options;
  options.timeout_ms = 200;
  const std::vector<Buffer> ahead{first.all()}, behind{second.all()};
  const OperationRef copying = client->get_pages("ns", Keys{"a"}, ahead, options);
  REQUIRE(eventually([] { return Gpu::the().pending() > 0; }));

  const OperationRef waiting = client->get_pages("ns", Keys{"a"}, behind, options);

  CHECK(waiting->wait(5'000));
  CHECK(waiting->outcome().items[0].status != Status::ok);
  CHECK_FALSE(copying->is_done());
  Gpu::the().hold(0);
  CHECK(copying->wait(5'000));
  CHECK(second.content() == Memory(1 * MiB, std::byte{0xEE}));
}

TEST_CASE("a client that closes waits for its copies") {
  if (!is_fake()) return;
  Fixture client(Transport::tcp, 1 * MiB);
  const DeviceMemory from(random_bytes(8 * MiB, 12)), into(8 * MiB);
  REQUIRE(put(*client, "a", from.all()).items[0].status == Status::ok);
  Gpu::the().hold(1);
  const std::vector<Buffer> all{into.all()};
  const OperationRef call = client->get_pages("ns", Keys{"a"}, all, {});
  REQUIRE(eventually([] { return Gpu::the().pending() > 0; }));

  std::thread closer([&] { client.close(); });
  CHECK_FALSE(call->wait(200));
  Gpu::the().hold(0);
  closer.join();

  CHECK(call->is_done());
  CHECK(Gpu::the().pending() == 0);
}

TEST_CASE("bytes whose copy fails have not come") {
  if (!is_fake()) return;
  for (const char* const failing :
       {"cuMemcpyHtoDAsync", "cuEventQuery", "cuEventCreate", "cuDevicePrimaryCtxRetain"}) {
    CAPTURE(failing);
    Fixture client(Transport::tcp);
    Memory value = random_bytes(3 * MiB, 13);
    const DeviceMemory into(value.size());
    REQUIRE(put(*client, "a", whole(value)).items[0].status == Status::ok);
    Gpu::the().fail(failing, 0, 700);

    const Outcome got = get(*client, "a", into.all());

    const bool is_told = got.items[0].status != Status::ok;
    CHECK((is_told || into.content() == value));
    CHECK(client->counts().bounce_faults >= 1);
    CHECK(get(*client, "a", into.all()).items[0].status == Status::ok);
    CHECK(into.content() == value);
  }
}

TEST_CASE("a file whose copy fails says why") {
  if (!is_fake()) return;
  Fixture client(Transport::tcp);
  Memory value = random_bytes(100'000, 14);
  const DeviceMemory into(value.size());
  REQUIRE(end_of(client->put("/ns/f", std::vector<Buffer>{whole(value)}, {})).status == Status::ok);
  Gpu::the().fail("cuMemcpyHtoDAsync", 0, 700);

  const Outcome read = end_of(client->read("/ns/f", 0, std::vector<Buffer>{into.all()}, {}));

  CHECK(read.status == Status::unavailable);
  CHECK(read.message.find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos);
}

TEST_CASE("what cannot be copied from a GPU is not stored") {
  if (!is_fake()) return;
  Fixture client(Transport::tcp);
  const DeviceMemory from(random_bytes(100'000, 15));
  Memory into(100'000);
  Gpu::the().fail("cuMemcpyDtoHAsync", -1, 700);

  CHECK(put(*client, "a", from.all()).items[0].status == Status::unavailable);

  Gpu::the().fail("", 0, 0);
  CHECK(get(*client, "a", whole(into)).items[0].status == Status::miss);
  CHECK(put(*client, "a", from.all()).items[0].status == Status::ok);
}

TEST_CASE("memory that the driver does not pin serves too") {
  if (!is_fake()) return;
  Fixture client(Transport::tcp);
  const Memory value = random_bytes(2 * MiB, 16);
  const DeviceMemory from(value), into(value.size());
  Gpu::the().fail("cuMemHostRegister", 0, 700);

  CHECK(put(*client, "a", from.all()).items[0].status == Status::ok);
  CHECK(get(*client, "a", into.all()).items[0].status == Status::ok);

  CHECK(into.content() == value);
}

TEST_CASE("the pool gives runs that do not touch, joins what comes back, and one longer alone") {
  const cuda::DriverRef driver = cuda::Driver::loaded();
  REQUIRE(driver != nullptr);
  auto opened = cuda::Device::open(driver, 0);
  REQUIRE(opened);
  const std::shared_ptr<const cuda::Device> device = std::move(*opened);
  BouncePool pool(64 * KiB);

  std::byte* const first = pool.take(10'000, device);
  std::byte* const second = pool.take(20'000, device);
  REQUIRE(first != nullptr);
  CHECK(second >= first + 10'000);
  CHECK(pool.take(40'000, device) == nullptr);
  CHECK(pool.take(1 * MiB, device) == nullptr);  // not beside others
  pool.give(first);
  pool.give(second);
  CHECK(pool.is_idle());
  std::byte* const all = pool.take(64 * KiB, device);
  CHECK(all == first);
  pool.give(all);
  std::byte* const long_one = pool.take(1 * MiB, device);
  REQUIRE(long_one != nullptr);
  CHECK(pool.take(1, device) != nullptr);
  CHECK_FALSE(pool.is_idle());
}

TEST_CASE("ranges of a GPU are known as such") {
  const DeviceMemory memory(10'000);
  Memory host(10'000);

  CHECK(cuda::is_device_memory(memory.all().at, 10'000));
  CHECK_FALSE(cuda::is_device_memory(memory.all().at, 1 << 30));
  CHECK_FALSE(cuda::is_device_memory(host.data(), host.size()));
}

int main(int argc, char** argv) {
  if (!Gpu::the().is_there()) {
    std::puts("skipped: no driver of a GPU can be loaded and started here");
    return 0;
  }
  return doctest::Context(argc, argv).run();
}
