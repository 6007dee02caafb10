#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "arena_map.h"
#include "local_cluster.h"
#include "transport/unix.h"

using namespace gd2fs;

namespace {

/// Nodes whose arenas can be shared.
class SharedCluster : public LocalCluster {
 public:
  explicit SharedCluster(std::size_t nodes = 1, std::size_t arena_bytes = 64 * MiB)
      : LocalCluster(nodes, arena_bytes, {}, {}, Rung::memfd) {}

  std::unique_ptr<Client> client(Transport transport, bool is_verifying = true) const {
    ClientOptions options = LocalCluster::options();
    options.transport = transport;
    options.is_verifying = is_verifying;
    return LocalCluster::client(options);
  }
};

Status put_page(Client& client, const std::string& key, Memory& value) {
  const std::vector<std::string> keys{key};
  const std::vector<Buffer> from{whole(value)};
  return end_of(client.put_pages("ns", keys, from, {})).items[0].status;
}

Status get_page(Client& client, const std::string& key, Memory& into) {
  const std::vector<std::string> keys{key};
  const std::vector<Buffer> to{whole(into)};
  return end_of(client.get_pages("ns", keys, to, {})).items[0].status;
}

}  // namespace

TEST_CASE("pages and files read over shared memory are what was written, on every transport") {
  SharedCluster cluster(2);
  for (const Transport transport :
       {Transport::automatic, Transport::shm, Transport::unix_socket, Transport::tcp}) {
    for (const bool is_verifying : {true, false}) {
      auto client = cluster.client(transport, is_verifying);
      CAPTURE(transport_name(transport));
      for (const std::size_t bytes : {1u, 4096u, 65536u, 65537u, 1000000u, 5u << 20}) {
        Memory value = random_bytes(bytes, bytes);
        const std::string name = std::string(transport_name(transport)) +
                                 std::to_string(is_verifying) + "-" + std::to_string(bytes);
        Memory back(bytes);
        CHECK(put_page(*client, name, value) == Status::ok);
        CHECK(get_page(*client, name, back) == Status::ok);
        CHECK(back == value);

        const std::vector<Buffer> from{whole(value)};
        const std::string path = "/ns/" + name;
        CHECK(end_of(client->put(path, from, {})).status == Status::ok);
        const std::size_t skip = bytes / 3;
        Memory part(bytes - skip);
        const std::vector<Buffer> to{whole(part)};
        CHECK(end_of(client->read(path, skip, to, {})).status == Status::ok);
        CHECK(std::equal(part.begin(), part.end(), value.begin() + std::ptrdiff_t(skip)));
      }
      const bool is_shm = transport == Transport::automatic || transport == Transport::shm;
      CHECK((cluster.server(0).counts().leases > 0) == is_shm);
      if (!is_shm) continue;
    }
    cluster.stop(0);
    cluster.start(0);
    cluster.stop(1);
    cluster.start(1);
  }
}
