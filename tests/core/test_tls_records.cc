// Records of TLS that no honest peer writes, and some that one may: what a node makes of them.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#define GD2FS_TEST_TLS
#include "record_forger.h"
#include "shelf.h"
#include "tls_peer.h"
#include "transport/tls_session.h"

namespace gd2fs::testing {
namespace {

constexpr std::size_t CONTENT_BYTES_MAX = 16 * KiB;
constexpr std::size_t NOTES_MAX = 32;  // records in a row that say nothing

template <class... T>
Bytes bytes_of(T... each) {
  return {static_cast<std::byte>(each)...};
}

/// One node for all of these: whatever was done to it before, it serves.
Shelf& shelf() {
  static Shelf one(100'000);
  return one;
}

std::uint64_t faults() { return shelf().server->counts().protocol_faults; }

/// Is the page there for a client that behaves, and has whatever was done left nothing behind?
void check_unharmed() {
  CHECK(eventually([] { return shelf().server->counts().connections == 0; }));
  TlsPeer peer(*shelf().server);
  peer.greet();
  CHECK(peer.get("page", shelf().page_bytes.size()) == shelf().page_bytes);
}

/// The node ends this stream and no other, without an answer, and says why. `alert`: its number in
/// RFC 8446, 6.
void check_ended(RecordForger& forger, int alert) {
  const auto rest = forger.rest();
  REQUIRE(rest.size() <= 1);
  for (const RecordForger::Record& each : rest) {
    CHECK(each.kind == Written::alert);
    CHECK(each.content == bytes_of(alert == 0 ? 1 : 2, alert));
  }
  check_unharmed();
}
/// It was the other side that ended it: there is nothing to say.
void check_closed(RecordForger& forger) {
  CHECK(forger.rest().empty());
  check_unharmed();
}

// ---- a node of OpenSSL's own -----------------------------------------------------------

/// The other side of a client of ours: it gives long tickets, and counts what it is told.
class OpenSslNode {
 public:
  OpenSslNode()
      : context_(SSL_CTX_new(TLS_server_method()), SSL_CTX_free), ssl_(nullptr, SSL_free) {
    const Certificates& files = shelf().certificates;
    SSL_CTX_use_certificate_chain_file(context_.get(), files.path("node.crt").c_str());
    SSL_CTX_use_PrivateKey_file(context_.get(), files.path("node.key").c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_set_num_tickets(context_.get(), 8);
    SSL_CTX_set_session_ticket_cb(context_.get(), lengthen, nullptr, nullptr);
    SSL_CTX_set_msg_callback(context_.get(), count);
    SSL_CTX_set_msg_callback_arg(context_.get(), this);
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    near_ = tcp::Descriptor(ends[0]);
    far_ = tcp::Descriptor(ends[1]);
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), ends[1]);
    SSL_set_accept_state(ssl_.get());
    auto ours = tls::Context::open(files.client());
    REQUIRE(ours);
    client = (*ours)->connect({"localhost"});
    std::byte none;
    const iovec run{&none, 1};
    REQUIRE(eventually([&] {
      client->receive(near(), std::span(&run, 1));
      return SSL_do_handshake(ssl_.get()) == 1 && client->is_open();
    }));
  }

  /// So many bytes there and back.
  void echo(std::size_t bytes) {
    Bytes from = random_bytes(bytes, bytes), between(bytes), into(bytes);
    std::size_t sent = 0, heard = 0, told = 0, got = 0;
    CHECK(eventually([&] {
      const iovec out{from.data() + sent, from.size() - sent};
      if (sent < bytes) sent += positive(client->send(near(), std::span(&out, 1), false));
      if (heard < bytes)
        heard += positive(SSL_read(ssl(), &between[heard], static_cast<int>(bytes - heard)));
      if (told < heard)
        told += positive(SSL_write(ssl(), &between[told], static_cast<int>(heard - told)));
      const iovec in{into.data() + got, into.size() - got};
      got += positive(client->receive(near(), std::span(&in, 1)));
      return got == bytes;
    }));
    CHECK(into == from);
  }
  SSL* ssl() const { return ssl_.get(); }
  int near() const { return near_.get(); }

  std::unique_ptr<tls::Session> client;
  std::size_t updates = 0;  // that it was told of

 private:
  static std::size_t positive(ssize_t count) {
    return static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  }
  static int lengthen(SSL* ssl, void*) {
    const Bytes words(6'000);
    return SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), words.data(), words.size());
  }
  static void count(int is_write, int, int kind, const void* message, std::size_t bytes, SSL*,
                    void* self) {
    const bool is_update = is_write == 0 && kind == SSL3_RT_HANDSHAKE && bytes > 0 &&
                           *static_cast<const unsigned char*>(message) == SSL3_MT_KEY_UPDATE;
    if (is_update) ++static_cast<OpenSslNode*>(self)->updates;
  }

  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_;
  tcp::Descriptor near_, far_;
};

TEST_CASE("a client passes over the tickets of a node that gives some, however long they are") {
  OpenSslNode node;

  node.echo(100);
  node.echo(300'000);
}

TEST_CASE("new keys of a node, and those it asks for, come in the middle of bytes") {
  OpenSslNode node;
  for (const int kind : {SSL_KEY_UPDATE_NOT_REQUESTED, SSL_KEY_UPDATE_REQUESTED}) {
    for (int round = 0; round < 20; ++round) {
      REQUIRE(SSL_key_update(node.ssl(), kind) == 1);
      node.echo(1'000);
    }
  }

  CHECK(node.updates >= 19);
  CHECK(node.updates <= 20);
}

TEST_CASE("a key seals so many records, and a batch more, and the next one goes on") {
  OpenSslNode node;
  node.client->limit_keys(10);
  for (int round = 0; round < 400; ++round) node.echo(10);

  CHECK(node.updates == 400 / 10 - 1);
}

TEST_CASE("a node that says that nothing follows has ended, and so has one that just goes") {
  std::byte none;
  const iovec run{&none, 1};
  OpenSslNode polite;
  polite.echo(10);
  SSL_shutdown(polite.ssl());
  CHECK(polite.client->receive(polite.near(), std::span(&run, 1)) == 0);
  CHECK(polite.client->fault().cause == tls::Cause::nothing);

  OpenSslNode rude;
  rude.echo(10);
  shutdown(SSL_get_fd(rude.ssl()), SHUT_WR);
  CHECK(rude.client->receive(rude.near(), std::span(&run, 1)) == 0);
}

// ---- what may be ---------------------------------------------------------------------

TEST_CASE("frames may be cut into records as one likes, and be padded") {
  RecordForger forger(*shelf().server);
  forger.greet();
  const Bytes question = RecordForger::question();
  for (const std::size_t padding :
       {0ul, 1ul, 300ul, 4'000ul, CONTENT_BYTES_MAX - question.size()}) {
    CHECK(forger.send(Written::application, question, padding));
    CHECK(forger.is_answered());
    for (const std::byte each : question)
      CHECK(forger.send(Written::application, wire::View(&each, 1), padding));
    CHECK(forger.is_answered());
  }
}

TEST_CASE("a record has 16 KiB of content at most, padding included") {
  Bytes frames;
  while (frames.size() + RecordForger::question().size() <= CONTENT_BYTES_MAX) {
    const Bytes one = RecordForger::question();
    frames.insert(frames.end(), one.begin(), one.end());
  }
  for (const std::size_t over : {0ul, 1ul, 239ul, 240ul}) {
    RecordForger forger(*shelf().server);
    forger.greet();
    CHECK(forger.send(Written::application, frames, CONTENT_BYTES_MAX - frames.size() + over));
    if (over == 0) {
      CHECK(forger.content(frames.size()).size() == frames.size());
    } else {
      check_ended(forger, 22);
    }
  }
}

TEST_CASE("records of nothing are passed over, a few of them in a row") {
  for (const std::size_t padding : {0ul, 2'000ul, CONTENT_BYTES_MAX}) {
    RecordForger forger(*shelf().server);
    forger.greet();
    for (int round = 0; round < 3; ++round) {
      for (std::size_t count = 0; count < NOTES_MAX; ++count)
        CHECK(forger.send(Written::application, {}, padding));
      CHECK(forger.send(Written::application, RecordForger::question()));
      CHECK(forger.is_answered());
    }
  }
}

TEST_CASE("keys that are renewed with every record cost no answer") {
  RecordForger forger(*shelf().server);
  forger.greet();
  for (std::size_t round = 0; round < 500; ++round) {
    for (std::size_t count = 0; count < 1 + round % NOTES_MAX; ++count)
      REQUIRE(forger.update_keys(false));
    REQUIRE(forger.send(Written::application, RecordForger::question()));
    REQUIRE(forger.is_answered());
  }
}

TEST_CASE("however often new keys are asked for, they come once before the next answer") {
  RecordForger forger(*shelf().server);
  forger.greet();
  for (int round = 0; round < 100; ++round) {
    for (std::size_t count = 0; count < NOTES_MAX; ++count) REQUIRE(forger.update_keys(true));
    REQUIRE(forger.send(Written::application, RecordForger::question()));
    const auto update = forger.receive();
    REQUIRE(update.has_value());
    CHECK(update->kind == Written::handshake);
    CHECK(update->content == bytes_of(24, 0, 0, 1, 0));
    forger.other->renew();
    REQUIRE(forger.is_answered());
  }
}

TEST_CASE("who says that nothing follows is not listened to any more") {
  RecordForger forger(*shelf().server);
  forger.greet();
  forger.send(Written::alert, bytes_of(1, 0));
  forger.send(Written::application, RecordForger::question());

  check_ended(forger, 0);
}

// ---- what may not --------------------------------------------------------------------

TEST_CASE("records of nothing without end are ended, and hold nobody up") {
  for (const std::size_t padding : {0ul, 1'000ul, 1'100ul, CONTENT_BYTES_MAX}) {
    for (const bool is_greeted : {false, true}) {
      RecordForger forger(*shelf().server);
      if (is_greeted) forger.greet();
      std::size_t sent_bytes = 0;
      while (forger.send(Written::application, {}, padding)) {
        sent_bytes += padding;
        REQUIRE_MESSAGE(sent_bytes < 64 * MiB, "the node reads on and on");
      }
    }
    check_unharmed();
  }
}

TEST_CASE("new keys without end are ended") {
  RecordForger forger(*shelf().server);
  forger.greet();
  const std::uint64_t before = faults();
  for (std::size_t count = 0; count <= NOTES_MAX; ++count) forger.update_keys(true);

  check_ended(forger, 10);
  CHECK(faults() == before + 1);
}

TEST_CASE("a record that is repeated, passed over or of old keys ends its stream") {
  const std::function<void(RecordForger&)> turns[] = {
      [](RecordForger& forger) {
        const Bytes record = forger.sealed(Written::application, RecordForger::question());
        forger.send_raw(record);
        REQUIRE(forger.is_answered());
        forger.send_raw(record);
      },
      [](RecordForger& forger) {
        ++forger.own->sequence;
        forger.send(Written::application, RecordForger::question());
      },
      [](RecordForger& forger) {
        const ForgedKeys old = *forger.own;
        forger.update_keys(false);
        forger.own.emplace(old);
        forger.send(Written::application, RecordForger::question());
      },
      [](RecordForger& forger) {
        forger.own->renew();
        forger.send(Written::application, RecordForger::question());
      },
      [](RecordForger& forger) { forger.own->sequence = ~0ull, forger.send(Written::alert, {}); },
      // The node's own words, sent back to it.
      [](RecordForger& forger) {
        forger.own.emplace(*forger.other);
        forger.own->sequence = 0;
        forger.send(Written::application, RecordForger::question());
      }};
  for (const auto& turn : turns) {
    RecordForger forger(*shelf().server);
    forger.greet();
    turn(forger);

    check_ended(forger, 20);
  }
}

TEST_CASE("what is no record of data, or is too long or short for one, ends its stream") {
  for (const Written kind : {Written::change, Written::alert, Written::handshake, Written{0},
                             Written{24}, Written{255}}) {
    RecordForger forger(*shelf().server);
    forger.greet();
    Bytes record = forger.sealed(Written::application, RecordForger::question());
    record.front() = static_cast<std::byte>(kind);
    forger.send_raw(record);

    check_ended(forger, 10);
  }
  for (const std::size_t bytes : {0ul, 1ul, 16ul, 16'402ul, 16'640ul, 16'641ul, 65'535ul}) {
    RecordForger forger(*shelf().server);
    forger.greet();
    Bytes record = RecordForger::head_of(bytes);
    record.resize(record.size() + bytes);
    forger.send_raw(record);
    shutdown(forger.fd(), SHUT_WR);

    check_ended(forger, 22);
  }
}

TEST_CASE("a record that says not what it is ends its stream") {
  for (const std::size_t padding : {0ul, 20ul, 5'000ul}) {
    for (const Written kind : {Written{0}, Written::change, Written{24}, Written{99}}) {
      RecordForger forger(*shelf().server);
      forger.greet();
      forger.send(kind, Bytes(100), padding);

      check_ended(forger, 10);
    }
  }
}

TEST_CASE("a handshake is over: what goes on as one ends its stream") {
  const Bytes long_hello = [] {
    Bytes hello(5'000);
    hello[0] = std::byte{1};
    return hello;
  }();
  const Bytes notes[] = {bytes_of(1, 0, 0, 0),            // ClientHello: begin anew
                         bytes_of(0, 0, 0, 0),            // HelloRequest, of older versions
                         bytes_of(4, 0, 0, 1, 0),         // a ticket, of a client
                         bytes_of(13, 0, 0, 3, 0, 0, 0),  // a certificate is asked for
                         bytes_of(20, 0, 0, 0),           // Finished
                         bytes_of(24, 0, 0, 1, 2),        // new keys, and something
                         bytes_of(24, 0, 0, 2, 0, 0),
                         bytes_of(24, 0, 0, 1, 0, 24, 0, 0, 1, 0),  // twice in a record
                         bytes_of(24, 0, 0, 1),                     // cut
                         bytes_of(24),
                         Bytes{},
                         long_hello};
  for (const Bytes& note : notes) {
    RecordForger forger(*shelf().server);
    forger.greet();
    const std::uint64_t before = faults();
    forger.send(Written::handshake, note);

    check_ended(forger, 10);
    CHECK(faults() == before + 1);
  }
}

TEST_CASE("alerts end a stream, and what is none is a fault") {
  const Bytes alerts[] = {bytes_of(1, 90), bytes_of(2, 20),   bytes_of(2, 255), bytes_of(2, 48),
                          bytes_of(1),     bytes_of(1, 0, 0), Bytes{},          Bytes(3'000)};
  for (const Bytes& alert : alerts) {
    RecordForger forger(*shelf().server);
    forger.greet();
    const std::uint64_t before = faults();
    forger.send(Written::alert, alert);

    alert.size() == 2 ? check_closed(forger) : check_ended(forger, 10);
    CHECK(faults() == before + 1);
  }
}

TEST_CASE("a stream that is cut without a word harms nobody, wherever it is cut") {
  constexpr std::size_t BODY_BYTES = 50'000;
  const Bytes body = random_bytes(BODY_BYTES, 1);
  Bytes out;
  wire::Request request;
  request.head.op = Op::offer;
  request.items = {page("cut", BODY_BYTES)};
  wire::encode_request(out, 1, wire::EAGER, request);
  wire::DataTable table;
  table.pieces.push_back({.hashes = 1, .length = BODY_BYTES});
  table.hashes.push_back(XXH3_64bits(body.data(), body.size()));
  wire::encode_data(out, 1, 0, table, 0);
  for (const std::size_t cut : {1ul, 4ul, 5ul, 6ul, 40ul, 1'000ul, 16'405ul, 16'406ul, 16'407ul}) {
    RecordForger forger(*shelf().server);
    forger.greet();
    forger.send(Written::application, out);
    Bytes rest = forger.sealed(Written::application, wire::View(body).first(CONTENT_BYTES_MAX));
    rest.resize(std::min(cut, rest.size()));
    forger.send_raw(rest);
    shutdown(forger.fd(), SHUT_WR);

    check_ended(forger, 0);
  }
  TlsPeer peer(*shelf().server);
  peer.greet();
  CHECK(peer.get("cut", BODY_BYTES).empty());
}

// ---- tokens --------------------------------------------------------------------------

const Token MAIN{"main", key_of_secret(std::string(40, 'x'))};

std::unique_ptr<Server> guarded_node() {
  ServerOptions options = secured(shelf().certificates);
  options.tokens = {{MAIN, Rights::of_cluster()}};
  return start_node(options);
}

Bytes exporter_of(const TlsPeer& peer) {
  constexpr std::string_view LABEL = "EXPORTER-Channel-Binding";
  Bytes out(32);
  REQUIRE(SSL_export_keying_material(peer.ssl(), raw(out.data()), out.size(), LABEL.data(),
                                     LABEL.size(), nullptr, 0, 0) == 1);
  return out;
}

/// HELLO, and a PROOF of a stream that exports so. What kind of frame the node says then.
Kind answer_to_proof(const Server& server, const std::function<Bytes(const TlsPeer&)>& exporter) {
  TlsPeer peer(server);
  REQUIRE(peer.shake());
  Introduction introduction(std::make_shared<TokenSource>(MAIN));
  Bytes out;
  introduction.hello(out, RawPeer::hello());
  REQUIRE(peer.send(out));
  const auto challenge = peer.receive();
  REQUIRE(challenge.has_value());
  out.clear();
  introduction.proof(out, challenge->table, exporter(peer));
  REQUIRE(peer.send(out));
  const auto answer = peer.receive();
  REQUIRE(answer.has_value());
  return answer->header.kind;
}

TEST_CASE("a proof counts on its own stream under TLS, not when somebody between passes it on") {
  const auto server = guarded_node();
  TlsPeer other(*server);
  REQUIRE(other.shake());

  CHECK(answer_to_proof(*server, exporter_of) == Kind::welcome);
  CHECK(answer_to_proof(*server, [&](const TlsPeer&) { return exporter_of(other); }) ==
        Kind::goodbye);
  CHECK(answer_to_proof(*server, [](const TlsPeer&) { return Bytes(); }) == Kind::goodbye);
  CHECK(refused(*server, Refusal::wrong_proof) == 2);
}

TEST_CASE("who was sent away is counted once, whatever comes behind it") {
  const auto server = guarded_node();
  RecordForger forger(*server);
  Bytes out;
  wire::encode_hello(out, RawPeer::hello());
  forger.send(Written::application, out);
  forger.send_raw(RecordForger::head_of(9'999));
  forger.send_raw(Bytes(9'999));
  forger.rest();

  CHECK(eventually([&] { return server->counts().connections == 0; }));
  CHECK(refused(*server, Refusal::no_token) == 1);
  CHECK(server->counts().refused == 1);
}

}  // namespace
}  // namespace gd2fs::testing
