// TLS peer: a client of OpenSSL's own, records and all, that speaks frames to a node. Blocking.
#pragma once

#include <doctest/doctest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "raw_peer.h"

namespace gd2fs::testing {

class TlsPeer {
 public:
  /// `suites`: as OpenSSL writes them; empty: its own choice. `batch`: bytes that travel at once.
  explicit TlsPeer(const Server& server, const std::string& suites = "")
      : context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free) {
    if (!suites.empty()) REQUIRE(SSL_CTX_set_ciphersuites(context_.get(), suites.c_str()) == 1);
    ssl_.reset(SSL_new(context_.get()));
    auto address = tcp::resolve(*tcp::parse_host_port(server.addresses().front()));
    auto socket = tcp::connect_within(address->front(), nullptr, 2'000);
    REQUIRE(static_cast<bool>(socket));
    socket_ = std::move(*socket);
    SSL_set_fd(ssl_.get(), fd());
    SSL_set_mode(ssl_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_set_connect_state(ssl_.get());
  }

  bool shake() {
    return run([&] { return SSL_do_handshake(ssl_.get()); });
  }
  void greet() {
    REQUIRE(shake());
    Bytes out;
    wire::Hello hello = RawPeer::hello();
    hello.capabilities = wire::SPLICE_HOLDS;
    wire::encode_hello(out, hello);
    wire::encode_proof(out, wire::Proof{});
    REQUIRE(send(out));
    const auto challenge = receive();
    REQUIRE(challenge);
    REQUIRE(challenge->header.kind == Kind::challenge);
    terms = *wire::decode_challenge(challenge->table);
    REQUIRE(receive()->header.kind == Kind::welcome);
    REQUIRE(receive()->header.kind == Kind::map);
  }

  bool send(wire::View bytes) {
    while (!bytes.empty()) {
      int sent = 0;
      const auto write = [&] {
        return sent = SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
      };
      if (!run(write)) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
    return true;
  }
  bool hear(std::span<std::byte> into) {
    while (!into.empty()) {
      int got = 0;
      const auto read = [&] {
        return got = SSL_read(ssl_.get(), into.data(), static_cast<int>(into.size()));
      };
      if (!run(read)) return false;
      into = into.subspan(static_cast<std::size_t>(got));
    }
    return true;
  }
  std::optional<Frame> receive() {
    Frame frame;
    std::array<std::byte, HEADER_BYTES> head;
    if (!hear(head)) return {};
    const auto header = wire::decode_header(head);
    REQUIRE(header.has_value());
    frame.header = *header;
    frame.table.resize(header->table_bytes);
    frame.payload.resize(header->payload_bytes());
    if (!hear(frame.table) || !hear(frame.payload)) return {};
    return frame;
  }
  /// The bytes of one page.
  Bytes get(const std::string& key, std::size_t bytes) {
    wire::Request request;
    request.head.op = Op::get;
    request.items = {page(key, bytes)};
    Bytes out, got;
    wire::encode_request(out, ++last_id_, 0, request);
    REQUIRE(send(out));
    for (;;) {
      const auto frame = receive();
      REQUIRE(frame);
      CHECK((frame->header.flags & wire::SPLICED) == 0);
      if (frame->header.kind == Kind::response) return got;
      got.insert(got.end(), frame->payload.begin(), frame->payload.end());
    }
  }

  SSL* ssl() const { return ssl_.get(); }
  int fd() const { return socket_.get(); }
  wire::Challenge terms;

 private:
  template <class Step>
  bool run(const Step& step) {
    for (;;) {
      ERR_clear_error();
      const int answer = step();
      if (answer > 0) return true;
      const int error = SSL_get_error(ssl_.get(), answer);
      const short events = error == SSL_ERROR_WANT_READ    ? POLLIN
                           : error == SSL_ERROR_WANT_WRITE ? POLLOUT
                                                           : short{0};
      pollfd waiting{fd(), events, 0};
      if (events == 0 || poll(&waiting, 1, static_cast<int>(PATIENCE_MS)) != 1) return false;
    }
  }

  tcp::Descriptor socket_;
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_{nullptr, SSL_free};
  std::uint64_t last_id_ = 0;
};

}  // namespace gd2fs::testing
