// Streams under TLS: right bytes, and clear words where there can be none.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#define GD2FS_TEST_TLS
#include "transport/tls.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>

#include "certificates.h"
#include "local_cluster.h"
#include "proxy.h"
#include "raw_peer.h"
#include "shelf.h"
#include "tls_peer.h"
#include "transport/channel.h"
#include "transport/tls_records.h"

namespace gd2fs::testing {
namespace {

/// Why a client cannot connect.
std::string fault_of(const Server& server, tls::Settings settings) {
  auto client = Client::connect(client_of(server, std::move(settings)));
  return client ? "it has connected" : client.error().message;
}

bool serves(const Server& server, const tls::Settings& settings) {
  return static_cast<bool>(Client::connect(client_of(server, settings)));
}

// ---- records -------------------------------------------------------------------------

tls::Keys keys_of(unsigned suite, bool is_sealing) {
  const std::size_t bytes = suite == 0x1302 ? 48 : 32;
  return {*tls::find_suite(suite), tls::Secret(bytes, std::byte{9}), is_sealing};
}

TEST_CASE("a record is opened into several places, whatever it was sealed from") {
  for (const unsigned suite : {0x1301u, 0x1302u, 0x1303u}) {
    tls::Keys sealing = keys_of(suite, true), opening = keys_of(suite, false);
    std::mt19937 random(suite);
    for (std::size_t round = 0; round < 200; ++round) {
      const std::size_t bytes = 1 + random() % tls::CONTENT_BYTES_MAX;
      Bytes from = random_bytes(bytes, round), into(bytes), record(bytes + tls::OVERHEAD_BYTES);
      const std::size_t cut = random() % bytes, other = random() % bytes;
      const iovec runs[] = {{from.data(), cut}, {from.data(), 0}, {&from[cut], bytes - cut}};
      const iovec places[] = {{into.data(), other}, {&into[other], bytes - other}};
      tls::Runs source(runs);

      const std::size_t size =
          sealing.seal(source, bytes, tls::Content::application, record.data());
      const auto opened = opening.open(record.data(), size - tls::HEAD_BYTES, tls::Runs(places));

      REQUIRE(size == record.size());
      REQUIRE(opened.has_value());
      CHECK(opened->content == tls::Content::application);
      CHECK(opened->bytes == bytes);
      CHECK(into == from);
      if (round % 50 == 49) sealing.renew(), opening.renew();
    }
  }
}

TEST_CASE("a record that was changed, or is not the next one, is not opened") {
  Bytes from = random_bytes(500, 1), into(500), record(500 + tls::OVERHEAD_BYTES);
  const iovec run{from.data(), from.size()}, place{into.data(), into.size()};
  const auto sealed = [&](tls::Keys& keys) {
    tls::Runs source(std::span(&run, 1));
    return keys.seal(source, 500, tls::Content::application, record.data()) - tls::HEAD_BYTES;
  };
  const tls::Runs room(std::span(&place, 1));
  for (std::size_t at = 0; at < record.size(); at += 7) {
    tls::Keys sealing = keys_of(0x1301, true), opening = keys_of(0x1301, false);
    const std::size_t size = sealed(sealing);
    record[at] ^= std::byte{1};
    CHECK_FALSE(opening.open(record.data(), size, room));
  }
  tls::Keys sealing = keys_of(0x1301, true), opening = keys_of(0x1301, false);
  sealed(sealing);

  CHECK_FALSE(opening.open(record.data(), sealed(sealing), room));
}

// ---- streams -------------------------------------------------------------------------

TEST_CASE("what OpenSSL's own client reads from a node is right, with every suite and new keys") {
  const Shelf shelf(3 * MiB + 77);
  for (const char* suite :
       {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}) {
    TlsPeer peer(*shelf.server, suite);
    peer.greet();
    CHECK(std::string(SSL_get_version(peer.ssl())) == "TLSv1.3");
    CHECK(std::string(SSL_get_cipher(peer.ssl())) == suite);
    CHECK((peer.terms.capabilities & wire::SPLICE_HOLDS) == 0);
    for (const int update : {SSL_KEY_UPDATE_NOT_REQUESTED, SSL_KEY_UPDATE_REQUESTED}) {
      CHECK(peer.get("page", shelf.page_bytes.size()) == shelf.page_bytes);
      REQUIRE(SSL_key_update(peer.ssl(), update) == 1);
    }
    CHECK(peer.get("page", shelf.page_bytes.size()) == shelf.page_bytes);
  }
}

TEST_CASE("the end of an answer comes without another word to a reader that is slow") {
  for (std::size_t bytes = 100'000; bytes <= 500'000; bytes += 20'000) {
    const Shelf shelf(bytes);
    TlsPeer peer(*shelf.server);
    const int small = 4'096;
    setsockopt(peer.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    peer.greet();

    CHECK(peer.get("page", bytes) == shelf.page_bytes);
  }
}

TEST_CASE("older versions of TLS are refused") {
  const Shelf shelf(1);
  TlsPeer peer(*shelf.server);
  SSL_set_max_proto_version(peer.ssl(), TLS1_2_VERSION);

  CHECK_FALSE(peer.shake());
  CHECK(eventually([&] { return refused(*shelf.server, Refusal::tls_handshake) == 1; }));
}

TEST_CASE("files and pages of all sizes go over TLS and come back as they were") {
  LocalCluster cluster(3, 128 * MiB);
  const auto client = cluster.client();
  for (const std::size_t bytes : {1ul, 4'095ul, 16'384ul, 16'385ul, 262'145ul, 9'000'001ul}) {
    Memory from = gd2fs::random_bytes(bytes, bytes), into(bytes);
    const Buffer source = whole(from), target = whole(into);
    const std::string path = "/files/" + std::to_string(bytes);
    REQUIRE(end_of(client->put(path, std::span(&source, 1), {})).status == Status::ok);

    CHECK(end_of(client->read(path, 0, std::span(&target, 1), {})).value == bytes);
    CHECK(into == from);
  }
}

TEST_CASE("many small pages, scattered over memory, come back as they were") {
  LocalCluster cluster(2);
  const auto client = cluster.client();
  constexpr std::size_t COUNT = 500;
  std::vector<std::string> keys;
  std::vector<Memory> from, into;
  std::vector<Buffer> sources, targets;
  for (std::size_t at = 0; at < COUNT; ++at) {
    keys.push_back("k" + std::to_string(at));
    from.push_back(gd2fs::random_bytes(1 + at * 37, at));
    into.emplace_back(from.back().size());
  }
  for (std::size_t at = 0; at < COUNT; ++at) {
    sources.push_back(whole(from[at]));
    targets.push_back(whole(into[at]));
  }
  end_of(client->put_pages("pages", keys, sources, {}));

  end_of(client->get_pages("pages", keys, targets, {}));

  CHECK(into == from);
}

TEST_CASE("a stream renews its keys in the middle of its work") {
  Shelf shelf(1 * MiB);
  auto context = tls::Context::open(shelf.certificates.client());
  REQUIRE(context);
  auto address = tcp::resolve(*tcp::parse_host_port(shelf.server->addresses().front()));
  auto socket = tcp::connect_within(address->front(), nullptr, 2'000);
  REQUIRE(socket);
  Channel channel(std::move(*socket), (*context)->connect({"127.0.0.1"}));
  const auto exchange = [&](Kind wanted) {
    Bytes out;
    if (wanted == Kind::challenge) wire::encode_hello(out, RawPeer::hello());
    if (wanted == Kind::welcome) wire::encode_proof(out, wire::Proof{});
    if (wanted == Kind::acked) wire::encode_ack(out, Kind::ack, 0, 0, wire::CONFIRM);
    Bytes in(64 * KiB);
    std::size_t got = 0;
    return eventually([&] {
      const iovec run{out.data(), out.size()};
      if (!out.empty() && channel.send(std::span(&run, 1)) > 0) out.clear();
      const ssize_t more = channel.receive(in.data() + got, in.size() - got);
      if (more > 0) got += static_cast<std::size_t>(more);
      const auto header = got < HEADER_BYTES
                              ? std::nullopt
                              : wire::decode_header(wire::View(in).first(HEADER_BYTES));
      return header && header->kind == wanted && got >= HEADER_BYTES + header->frame_bytes;
    });
  };
  REQUIRE(exchange(Kind::challenge));
  REQUIRE(exchange(Kind::welcome));
  for (int round = 0; round < 5; ++round) {
    channel.renew_keys(round % 2 == 0);
    CHECK(exchange(Kind::acked));
  }
}

TEST_CASE("both sides of a stream know the same of it, and of no other stream") {
  const Certificates certificates;
  auto context = tls::Context::open(certificates.node());
  REQUIRE(context);
  std::vector<Bytes> seen;
  for (int round = 0; round < 2; ++round) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    Channel client(tcp::Descriptor(ends[0]), (*context)->connect({"localhost"}));
    Channel node(tcp::Descriptor(ends[1]), (*context)->accept());
    CHECK(client.exporter().empty());
    std::byte none;
    REQUIRE(eventually([&] {
      client.receive(&none, 1);
      node.receive(&none, 1);
      return client.is_open() && node.is_open();
    }));
    for (const Channel* side : {&client, &node})
      seen.emplace_back(side->exporter().begin(), side->exporter().end());
  }

  CHECK(seen[0].size() == 32);
  CHECK(seen[0] == seen[1]);
  CHECK(seen[2] == seen[3]);
  CHECK(seen[0] != seen[2]);
}

TEST_CASE("nodes reach each other under TLS") {
  LocalCluster cluster(3);
  auto options = cluster.options();
  const auto client = LocalCluster::client(options);
  Memory from = gd2fs::random_bytes(1 * MiB, 5);
  const Buffer source = whole(from);
  CallOptions two;
  two.replicas = 2;
  REQUIRE(end_of(client->put("/f/a", std::span(&source, 1), two)).status == Status::ok);

  // Copies of a file are brought by its nodes themselves.
  const auto advised = end_of(client->advise("/f/a", Advice::willneed, 3, {}));

  CHECK(advised.status == Status::ok);
  CHECK(advised.value == from.size());
}

TEST_CASE("a node that dies under TLS and comes back is found again") {
  LocalCluster cluster(1);
  const auto client = cluster.client();
  const std::string key = "k";
  Memory from = gd2fs::random_bytes(300'000, 1), into(300'000);
  const Buffer source = whole(from), target = whole(into);
  end_of(client->put_pages("p", std::span(&key, 1), std::span(&source, 1), {}));
  cluster.stop(0);
  CHECK(end_of(client->get_pages("p", std::span(&key, 1), std::span(&target, 1), {}))
            .items.at(0)
            .status != Status::ok);
  cluster.start(0);

  CHECK(eventually([&] {
    const auto put = end_of(client->put_pages("p", std::span(&key, 1), std::span(&source, 1), {}));
    return put.items.at(0).status == Status::ok;
  }));
}

// ---- who is let in -------------------------------------------------------------------

TEST_CASE("a certificate that is not right is refused in one clear line, on both sides") {
  Certificates certificates;
  certificates.add_authority("other");
  certificates.add("stranger", LOOPBACK, "other");
  certificates.add("expired", LOOPBACK, "ca", {-2 * HOUR_S, -HOUR_S});
  certificates.add("early", LOOPBACK, "ca", {HOUR_S, 2 * HOUR_S});
  certificates.add("elsewhere", "DNS:elsewhere.example,IP:10.9.9.9");
  const std::pair<std::string, std::string> cases[] = {
      {"stranger", "signed by nobody who is trusted here"},
      {"expired", "the node's certificate has expired on 20"},
      {"early", "is not valid before 20"},
      {"elsewhere", "is for elsewhere.example, 10.9.9.9, not for 127.0.0.1"}};
  for (const auto& [name, words] : cases) {
    const auto server = start_node(secured(certificates, name));

    const std::string fault = fault_of(*server, certificates.client());

    CHECK_MESSAGE(fault.find(words) != std::string::npos, fault);
    CHECK(fault.find('\n') == std::string::npos);
    CHECK(eventually([&] { return refused(*server, Refusal::tls_certificate) == 1; }));
  }
}

TEST_CASE("a name that is stated beside the addresses is taken too") {
  Certificates certificates;
  certificates.add("named", "DNS:kv.example");
  const auto server = start_node(secured(certificates, "named"));
  tls::Settings settings = certificates.client();
  CHECK_FALSE(serves(*server, settings));

  settings.name = "kv.example";

  CHECK(serves(*server, settings));
}

TEST_CASE("a node that is named by its IP address is none of a certificate for such a name") {
  Certificates certificates;
  certificates.add("text", "DNS:127.0.0.1");
  certificates.add("star", "DNS:*.0.0.1");
  for (const char* name : {"text", "star"}) {
    const auto server = start_node(secured(certificates, name));

    const std::string fault = fault_of(*server, certificates.client());

    CHECK_MESSAGE(fault.find("not for 127.0.0.1") != std::string::npos, fault);
  }
}

TEST_CASE("who speaks no TLS is told so, on either side") {
  const Certificates certificates;
  const auto tls_node = start_node(secured(certificates));
  const auto plain_node = start_node();

  const std::string plain_client = fault_of(*tls_node, {});
  const std::string tls_client = fault_of(*plain_node, certificates.client());

  CHECK_MESSAGE(plain_client.find("speaks TLS only") != std::string::npos, plain_client);
  CHECK_MESSAGE(tls_client.find("the node speaks no TLS") != std::string::npos, tls_client);
  CHECK(eventually([&] { return refused(*tls_node, Refusal::tls_required) == 1; }));
  CHECK(eventually([&] { return refused(*plain_node, Refusal::bad_hello) == 1; }));
}

TEST_CASE("with clients required, those without a certificate of the right authority are out") {
  Certificates certificates;
  certificates.add_authority("other");
  certificates.add("member", "DNS:member");
  certificates.add("stranger", "DNS:stranger", "other");
  const auto server = start_node(secured(certificates, "node", true));
  const auto with = [&](const std::string& name) {
    tls::Settings settings = certificates.node(name);
    return settings;
  };

  const std::string without = fault_of(*server, certificates.client());
  const std::string stranger = fault_of(*server, with("stranger"));

  CHECK(serves(*server, with("member")));
  CHECK_MESSAGE(without.find("wants a certificate of its clients") != std::string::npos, without);
  CHECK_MESSAGE(stranger.find("refuses this side's certificate") != std::string::npos, stranger);
  CHECK(eventually([&] { return refused(*server, Refusal::tls_certificate) == 2; }));
}

TEST_CASE("settings that cannot be used say why at the start") {
  Certificates certificates;
  certificates.add("second", LOOPBACK);
  tls::Settings mixed = certificates.node();
  mixed.key = certificates.path("second.key");
  tls::Settings missing = certificates.node();
  missing.cert = certificates.path("nothing.crt");
  tls::Settings half = certificates.node();
  half.key.clear();
  for (const auto& [settings, words] : {std::pair{mixed, "is not of the certificate"},
                                        {missing, "No such file"},
                                        {half, "belong together"}}) {
    const auto context = tls::Context::open(settings);

    REQUIRE_FALSE(context);
    CHECK_MESSAGE(context.error().message.find(words) != std::string::npos,
                  context.error().message);
  }
}

TEST_CASE("changed files count for new streams, and those that are there go on") {
  Shelf shelf(1 * MiB);
  TlsPeer before(*shelf.server);
  before.greet();
  const auto name_of = [](const TlsPeer& peer) {
    char text[64] = "";
    X509_NAME_get_text_by_NID(X509_get_subject_name(SSL_get0_peer_certificate(peer.ssl())),
                              NID_commonName, text, sizeof text);
    return std::string(text);
  };
  CHECK(name_of(before) == "node");
  shelf.certificates.add("renewed", LOOPBACK);
  shelf.certificates.replace("node", "renewed");

  CHECK(eventually([&] {
    TlsPeer after(*shelf.server);
    return after.shake() && name_of(after) == "renewed";
  }));
  CHECK(before.get("page", shelf.page_bytes.size()) == shelf.page_bytes);
  CHECK(eventually([&] { return shelf.server->counts().tls.reloads >= 1; }));
}

TEST_CASE("files that are no use leave the former ones in force, and say so") {
  Shelf shelf(1);
  std::ofstream(shelf.certificates.path("node.crt")) << "half of a certi";

  const Error fault = shelf.server->reload_tls();

  CHECK_MESSAGE(fault.message.find("node.crt") != std::string::npos, fault.message);
  CHECK(shelf.server->tls_fault() == fault.message);
  CHECK(shelf.server->counts().tls.reload_faults >= 1);
  CHECK(serves(*shelf.server, shelf.certificates.client()));
}

TEST_CASE("files that could not be read for a moment are read again, though nobody changes them") {
  const Shelf shelf(1);
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const rlimit none{3, limit.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  const Error fault = shelf.server->reload_tls();
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK_MESSAGE(fault.message.find("Too many open files") != std::string::npos, fault.message);
  const std::uint64_t reloads = shelf.server->counts().tls.reloads;

  CHECK(eventually([&] { return shelf.server->tls_fault().empty(); }));
  CHECK(shelf.server->counts().tls.reloads == reloads + 1);
}

TEST_CASE("files that are not to be read from now on are seen, whatever their time says") {
  const Certificates certificates;
  auto context = tls::Context::open(certificates.node());
  REQUIRE(context);
  const std::string path = certificates.path("node.crt");
  struct stat before {};
  REQUIRE(stat(path.c_str(), &before) == 0);
  { std::fstream(path, std::ios::in | std::ios::out) << "-----NOTHING"; }
  const timespec times[] = {before.st_atim, before.st_mtim};
  REQUIRE(utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);

  CHECK(eventually([&] { return (*context)->counts().reload_faults > 0; }));
}

// ---- garbage -------------------------------------------------------------------------

/// A handshake with a node, cut after so many bytes of ours. False: it was over before.
bool cut_handshake(const Server& server, tls::Context& context, std::size_t cut) {
  // The node may be slower than we are to see that one has gone.
  REQUIRE(eventually([&] { return server.counts().connections < UNAUTHENTICATED_MAX / 2; }));
  auto address = tcp::resolve(*tcp::parse_host_port(server.addresses().front()));
  auto socket = tcp::connect_within(address->front(), nullptr, 2'000);
  REQUIRE(socket);
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  Channel client(tcp::Descriptor(ends[0]), context.connect({"127.0.0.1"}));
  const tcp::Descriptor between(ends[1]);
  std::array<std::byte, 16 * KiB> bytes;
  std::byte none;
  bool is_over = false;
  REQUIRE(eventually([&] {
    client.receive(&none, 1);
    ssize_t got = recv(between.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) {
      const std::size_t some = std::min(cut, static_cast<std::size_t>(got));
      static_cast<void>(!::send(socket->get(), bytes.data(), some, MSG_NOSIGNAL));
      cut -= some;
      if (cut == 0) return true;
    }
    got = recv(socket->get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0)
      static_cast<void>(!::send(between.get(), bytes.data(), static_cast<std::size_t>(got), 0));
    return is_over = client.is_open();
  }));
  return !is_over;
}

TEST_CASE("a handshake that is cut after any of its bytes harms nobody") {
  const Shelf shelf(100'000);
  auto context = tls::Context::open(shelf.certificates.client());
  REQUIRE(context);
  std::size_t cut = 1;
  while (cut_handshake(*shelf.server, **context, cut)) ++cut;

  CHECK(cut > 200);  // two flights of the client
  CHECK(serves(*shelf.server, shelf.certificates.client()));
  CHECK(eventually([&] { return shelf.server->counts().connections <= 2; }));
  TlsPeer peer(*shelf.server);
  peer.greet();
  CHECK(peer.get("page", shelf.page_bytes.size()) == shelf.page_bytes);
}

TEST_CASE("garbage instead of a handshake, in it, and behind it ends that stream alone") {
  const Shelf shelf(100'000);
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    TlsPeer peer(*shelf.server);
    const Bytes garbage = random_bytes(1 + seed * 37, seed);
    if (seed % 3 == 1) peer.greet();
    if (seed % 3 == 2) REQUIRE(peer.shake());
    const std::byte record[] = {std::byte{23}, std::byte{3}, std::byte{3}, std::byte{1},
                                std::byte{0}};
    if (seed % 2 == 0) static_cast<void>(!::send(peer.fd(), record, sizeof record, MSG_NOSIGNAL));
    static_cast<void>(!::send(peer.fd(), garbage.data(), garbage.size(), MSG_NOSIGNAL));
    shutdown(peer.fd(), SHUT_WR);

    char sink[512];
    CHECK(eventually(
        [&] { return recv(peer.fd(), sink, sizeof sink, MSG_DONTWAIT) == 0 || errno != EAGAIN; }));
  }
  CHECK(eventually([&] { return shelf.server->counts().connections == 0; }));
  TlsPeer peer(*shelf.server);
  peer.greet();
  CHECK(peer.get("page", shelf.page_bytes.size()) == shelf.page_bytes);
}

TEST_CASE("a handshake that stands still is given up in time, and so is who says nothing") {
  const Shelf shelf(1);
  RawPeer silent(*shelf.server), halting(*shelf.server);
  const std::byte hello[] = {std::byte{22}, std::byte{3}, std::byte{1}};
  halting.send(hello);

  CHECK(silent.is_closed_by_peer());
  CHECK(halting.is_closed_by_peer());
  CHECK(refused(*shelf.server, Refusal::timeout) == 2);
}

TEST_CASE("a byte that is changed on its way is found, and read again by another stream") {
  Proxy proxy;
  const std::string node = "127.0.0.1:" + std::to_string(free_port());
  LocalCluster cluster(1, 64 * MiB, {proxy.address()}, {node});
  proxy.forward_to(node);
  const auto client = cluster.client();
  const std::string key = "k";
  Memory from = gd2fs::random_bytes(4 * MiB, 1), into(4 * MiB);
  const Buffer source = whole(from), target = whole(into);
  REQUIRE(end_of(client->put_pages("p", std::span(&key, 1), std::span(&source, 1), {})).status ==
          Status::ok);
  const auto status = [&] {
    return end_of(client->get_pages("p", std::span(&key, 1), std::span(&target, 1), {}))
        .items.at(0)
        .status;
  };

  proxy.set(Proxy::Mode::corrupt);
  CHECK(status() != Status::ok);
  proxy.set(Proxy::Mode::pass);

  CHECK(eventually([&] { return status() == Status::ok; }));
  CHECK(into == from);
}

}  // namespace
}  // namespace gd2fs::testing
