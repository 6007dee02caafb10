// A stream under TLS whose other side has the right keys and no manners: records of any kind,
// padding, order and cut, new keys, garbage. Whatever it does, what is received is what it has
// sealed, from the first byte on and in order; and no byte goes where it is not wanted.
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <vector>

#include "transport/tcp.h"
#include "transport/tls_handshake.h"
#include "transport/tls_records.h"
#include "transport/tls_session.h"

namespace {

using namespace gd2fs;
using tls::Bytes;
using tls::Handshake;
using tls::Side;

constexpr std::size_t RUNS_MAX = 6;
constexpr std::size_t UNREAD_BYTES_MAX = 1 * MiB;

void require(bool is_true) {
  if (!is_true) std::abort();
}

/// Of one side of all handshakes; the node's has a certificate of its own making.
SSL_CTX* context_of(Side side) {
  SSL_CTX* const context =
      SSL_CTX_new(side == Side::node ? TLS_server_method() : TLS_client_method());
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_num_tickets(context, 0);
  Handshake::prepare(context);
  if (side == Side::client) return context;
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = X509_new();
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 1'000'000);
  X509_set_pubkey(certificate, key);
  X509_sign(certificate, key, EVP_sha256());
  require(SSL_CTX_use_certificate(context, certificate) == 1);
  require(SSL_CTX_use_PrivateKey(context, key) == 1);
  return context;
}

/// The input, taken byte by byte.
class Choices {
 public:
  explicit Choices(std::span<const std::uint8_t> from) : from_(from) {}
  bool is_over() const { return from_.empty(); }
  std::size_t small() {
    if (from_.empty()) return 0;
    const std::size_t value = from_.front();
    from_ = from_.subspan(1);
    return value;
  }
  std::size_t large() { return small() << 8 | small(); }

 private:
  std::span<const std::uint8_t> from_;
};

class World {
 public:
  explicit World(Choices& choices) : choices_(choices) {
    static SSL_CTX* const node = context_of(Side::node);
    static SSL_CTX* const client = context_of(Side::client);
    int ends[2];
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    near_ = tcp::Descriptor(ends[0]);
    far_ = tcp::Descriptor(ends[1]);
    session_ = std::make_unique<tls::Session>(
        std::make_unique<Handshake>(node, Side::node, std::vector<std::string>{}), Side::node);
    shake(client);
  }

  void step() {
    switch (choices_.small() % 8) {
      case 0: return seal(tls::Content::application, choices_.small(), choices_.small());
      case 1: return seal(tls::Content::application, choices_.large(), choices_.large());
      case 2:
        return seal(static_cast<tls::Content>(choices_.small()), choices_.small() % 16,
                    choices_.large());
      case 3: return renew();
      case 4: return garble();
      case 5: return answer();
      default: return receive();
    }
  }
  void end() {
    if (choices_.small() % 2 == 0) shutdown(far_.get(), SHUT_WR);
    for (int round = 0; round < 100 && !is_over_; ++round) receive();
  }

 private:
  void shake(SSL_CTX* context) {
    Handshake handshake(context, Side::client, {});
    Bytes in, out;
    auto state = handshake.take({}, out);
    while (state == Handshake::Step::more) {
      tell(out);
      out.clear();
      std::byte none;
      const iovec run{&none, 1};
      session_->receive(near_.get(), std::span(&run, 1));
      in.resize(64 * KiB);
      const ssize_t got = recv(far_.get(), in.data(), in.size(), 0);
      require(got > 0);
      state = handshake.take(std::span(in).first(static_cast<std::size_t>(got)), out);
    }
    require(state == Handshake::Step::done);
    tell(out);
    Bytes rest;
    tls::Agreed agreed = handshake.agreed(rest);
    keys_ = std::make_unique<tls::Keys>(*agreed.suite, std::move(agreed.own), true);
  }

  /// What the socket does not take any more never comes: the stream is cut there.
  void tell(std::span<const std::byte> bytes) {
    if (is_cut_ || bytes.empty()) return;
    const ssize_t sent = send(far_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    is_cut_ = sent != static_cast<ssize_t>(bytes.size());
  }

  /// The kind stands where padding begins: so the record itself is of zeros and of no kind.
  void seal(tls::Content kind, std::size_t bytes, std::size_t padding) {
    bytes %= tls::CONTENT_BYTES_MAX + 1;
    padding %= tls::CONTENT_BYTES_MAX + 1 - bytes;
    if (sent_.size() > UNREAD_BYTES_MAX) return;
    if (kind == tls::Content{}) kind = tls::Content{1};  // else a byte of the content says it
    Bytes inner(bytes);
    for (std::byte& each : inner) each = static_cast<std::byte>(next_ = next_ * 75 + 74);
    const Bytes content = inner;
    if (padding > 0) inner.push_back(static_cast<std::byte>(kind)), inner.resize(bytes + padding);
    const iovec run{inner.data(), inner.size()};
    tls::Runs from(std::span(&run, 1));
    Bytes record(inner.size() + tls::OVERHEAD_BYTES);
    const auto last = padding > 0 ? tls::Content{} : kind;
    require(keys_->seal(from, inner.size(), last, record.data()) == record.size());
    tell(record);
    const bool is_whole = !is_cut_ && !is_garbled_ && kind == tls::Content::application;
    if (is_whole) sent_.insert(sent_.end(), content.begin(), content.end());
  }

  void renew() {
    Bytes note = {std::byte{24}, std::byte{0}, std::byte{0}, std::byte{1},
                  static_cast<std::byte>(choices_.small() % 3)};
    const iovec run{note.data(), note.size()};
    tls::Runs from(std::span(&run, 1));
    Bytes record(note.size() + tls::OVERHEAD_BYTES);
    keys_->seal(from, note.size(), tls::Content::handshake, record.data());
    tell(record);
    keys_->renew();
  }

  void garble() {
    Bytes bytes(choices_.small());
    for (std::byte& each : bytes) each = static_cast<std::byte>(choices_.small());
    is_garbled_ = is_garbled_ || !bytes.empty();
    tell(bytes);
  }

  void receive() {
    std::vector<std::vector<std::byte>> places;
    std::vector<iovec> runs;
    for (std::size_t count = 1 + choices_.small() % RUNS_MAX; count > 0; --count)
      places.emplace_back(count == 1 ? 1 + choices_.large() : choices_.small());
    for (auto& each : places) runs.push_back({each.data(), each.size()});
    const ssize_t got = session_->receive(near_.get(), runs);
    is_over_ = got == 0 || (got < 0 && errno != EAGAIN);
    auto left = static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    require(left <= sent_.size() - received_);
    for (const auto& each : places) {
      const std::size_t here = std::min(left, each.size());
      require(std::equal(each.begin(), each.begin() + static_cast<std::ptrdiff_t>(here),
                         sent_.begin() + static_cast<std::ptrdiff_t>(received_)));
      received_ += here;
      left -= here;
    }
    require(left == 0);
  }

  /// What is sealed and not read stays within one batch.
  void answer() {
    Bytes out(1 + choices_.large() * 4);
    const iovec run{out.data(), out.size()};
    session_->send(near_.get(), std::span(&run, 1), choices_.small() % 2 == 0);
    require(session_->unsent_bytes() <= 512 * KiB);
    if (choices_.small() % 2 == 0) return;
    Bytes sink(64 * KiB);
    while (recv(far_.get(), sink.data(), sink.size(), MSG_DONTWAIT) > 0) {
    }
  }

  Choices& choices_;
  tcp::Descriptor near_, far_;
  std::unique_ptr<tls::Session> session_;
  std::unique_ptr<tls::Keys> keys_;
  Bytes sent_;  // content of data, as long as all that came before is in order
  std::size_t received_ = 0;
  std::uint32_t next_ = 1;
  bool is_cut_ = false, is_garbled_ = false, is_over_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* at, std::size_t bytes) {
  Choices choices(std::span(at, bytes));
  World world(choices);
  while (!choices.is_over()) world.step();
  world.end();
  return 0;
}
