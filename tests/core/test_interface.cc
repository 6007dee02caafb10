#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <netinet/in.h>
#include <netinet/tcp.h>

#include "transport/interface.h"

using namespace gd2fs;
using tcp::Address;
using tcp::Interface;

namespace {

Address at(const std::string& text) { return tcp::resolve({text, 7527})->front(); }

std::vector<std::string> hosts_of(const std::vector<Address>& addresses) {
  std::vector<std::string> hosts;
  for (const Address& address : addresses) hosts.push_back(tcp::host_text(address));
  return hosts;
}

std::string congestion_of(int fd) {
  char name[16] = {};
  socklen_t bytes = sizeof name;
  getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes);
  return name;
}

using Hosts = std::vector<std::string>;

}  // namespace

TEST_CASE("shared bits are counted from the front, within one family") {
  CHECK(tcp::shared_bits(at("10.0.0.1"), at("10.0.0.1")) == 32);
  CHECK(tcp::shared_bits(at("10.0.0.1"), at("10.0.0.3")) == 30);
  CHECK(tcp::shared_bits(at("10.0.0.1"), at("138.0.0.1")) == 0);
  CHECK(tcp::shared_bits(at("fd00::1"), at("fd00::2")) == 126);
  CHECK(tcp::shared_bits(at("fd00::1"), at("10.0.0.1")) == 0);
}

TEST_CASE("a stream tries the addresses of its own subnet first, then the nearest") {
  const std::vector<Address> remote{at("10.0.1.2"), at("10.0.2.2"), at("192.168.0.2")};
  const Address local = at("10.0.2.1");

  CHECK(hosts_of(tcp::order_for(&local, 0, remote, {})) ==
        Hosts{"10.0.2.2", "10.0.1.2", "192.168.0.2"});
}

TEST_CASE("streams are spread over addresses that are equally near") {
  const std::vector<Address> remote{at("10.0.0.10"), at("10.0.0.200")};
  const Address local = at("10.0.0.1");
  const std::vector<Interface> subnet{{"eth0", 2, local, 24}};

  CHECK(hosts_of(tcp::order_for(&local, 0, remote, subnet)) == Hosts{"10.0.0.10", "10.0.0.200"});
  CHECK(hosts_of(tcp::order_for(&local, 1, remote, subnet)) == Hosts{"10.0.0.200", "10.0.0.10"});
  CHECK(hosts_of(tcp::order_for(nullptr, 3, remote, {})) == Hosts{"10.0.0.200", "10.0.0.10"});
  CHECK(tcp::order_for(&local, 1, {}, subnet).empty());
}

TEST_CASE("an interface reaches its subnet and nothing else") {
  const Interface eth{"eth0", 2, at("10.0.0.1"), 24};

  CHECK(eth.has(at("10.0.0.1")));
  CHECK(!eth.has(at("10.0.0.2")));
  CHECK(eth.reaches(at("10.0.0.255")));
  CHECK(!eth.reaches(at("10.0.1.1")));
  CHECK(!eth.reaches(at("fd00::1")));
}

TEST_CASE("loopback is told from the rest") {
  CHECK(tcp::is_loopback(at("127.9.0.1")));
  CHECK(tcp::is_loopback(at("::1")));
  CHECK(!tcp::is_loopback(at("10.0.0.1")));
  CHECK(!tcp::is_loopback(at("::2")));
  for (const Interface& each : tcp::interfaces()) CHECK(!tcp::is_loopback(each.address));
}

TEST_CASE("a congestion control that the kernel does not have is refused with those it has") {
  const Error fault = tcp::settings_fault({"no-such-control", 1 * MiB});

  CHECK(fault.message.find("no-such-control") != std::string::npos);
  CHECK(fault.hint.find("reno") != std::string::npos);
  CHECK(tcp::settings_fault({"reno", 1 * MiB}).message.empty());
  CHECK(tcp::settings_fault({}).message.empty());
  CHECK(!tcp::settings_fault({"", 0}).message.empty());
  CHECK(!tcp::settings_fault({"", 1 * GiB}).message.empty());
}

TEST_CASE("both ends of a connection have the settings that they were given") {
  auto listener = tcp::listen_at(tcp::resolve({"127.0.0.1", 0})->front(), {"reno", 128 * KiB});
  REQUIRE(listener);
  auto socket = tcp::connect_within(tcp::local_address(listener->get()), nullptr, 2'000,
                                    {"cubic", 256 * KiB});
  REQUIRE(socket);
  Address peer;
  const tcp::Descriptor accepted = tcp::accept_from(listener->get(), peer);
  REQUIRE(accepted);
  const auto buffer_of = [](int fd) {
    int size = 0;
    socklen_t bytes = sizeof size;
    getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, &bytes);
    return static_cast<std::size_t>(size);
  };

  CHECK(congestion_of(socket->get()) == "cubic");
  CHECK(congestion_of(accepted.get()) == "reno");
  CHECK(buffer_of(socket->get()) == 2 * 256 * KiB);  // the kernel counts its own share too
  CHECK(buffer_of(accepted.get()) == 2 * 128 * KiB);
}

TEST_CASE("an address that this machine does not have can be awaited, not just listened on") {
  for (const char* text : {"198.51.100.1", "2001:db8::1"}) {
    Address absent = tcp::resolve({text, 0})->front();
    CHECK(tcp::bind_fault(absent) == EADDRNOTAVAIL);
    CHECK(!tcp::listen_at(absent));
    CHECK(tcp::listen_at(absent, {}, true));
  }
  CHECK(tcp::bind_fault(at("127.0.0.1")) == 0);
}
