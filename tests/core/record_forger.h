// Record forger: a peer that shakes hands as it should, by OpenSSL, and then writes records of its
// own making: any content, any padding, any order. It seals by itself, so that nothing of the
// product's records is believed.
#pragma once

#include <doctest/doctest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "raw_peer.h"

namespace gd2fs::testing {

template <class T>
auto* raw(T* at) {
  using Raw = std::conditional_t<std::is_const_v<T>, const unsigned char, unsigned char>;
  return reinterpret_cast<Raw*>(at);  // bytes alias by contract
}

/// One direction of TLS_AES_128_GCM_SHA256.
class ForgedKeys {
 public:
  static constexpr std::size_t TAG_BYTES = 16;

  explicit ForgedKeys(Bytes secret) : secret_(std::move(secret)) {}
  void renew() {
    secret_ = expand("traffic upd", secret_.size());
    sequence = 0;
  }
  /// What stands behind the head: `inner` is content, its kind, and zeros.
  Bytes seal(wire::View head, wire::View inner) { return crypt(head, inner, true); }
  /// The same without the tag; nothing when it is not the next record.
  Bytes open(wire::View head, wire::View sealed) { return crypt(head, sealed, false); }

  std::uint64_t sequence = 0;

 private:
  Bytes expand(std::string_view label, std::size_t bytes) const {
    const std::string name = "tls13 " + std::string(label);
    std::string text{'\0', static_cast<char>(bytes), static_cast<char>(name.size())};
    text += name + '\0' + '\1';
    Bytes out(EVP_MAX_MD_SIZE);
    HMAC(EVP_sha256(), secret_.data(), static_cast<int>(secret_.size()), raw(text.data()),
         text.size(), raw(out.data()), nullptr);
    out.resize(bytes);
    return out;
  }
  Bytes crypt(wire::View head, wire::View from, bool is_sealing) {
    const Bytes key = expand("key", 16);
    Bytes nonce = expand("iv", 12);
    for (std::size_t at = 0; at < 8; ++at)
      nonce[11 - at] ^= static_cast<std::byte>(sequence >> (8 * at));
    ++sequence;
    const std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)> cipher(EVP_CIPHER_CTX_new(),
                                                                            EVP_CIPHER_CTX_free);
    EVP_CipherInit_ex(cipher.get(), EVP_aes_128_gcm(), nullptr, raw(key.data()), raw(nonce.data()),
                      is_sealing ? 1 : 0);
    int moved = 0;
    EVP_CipherUpdate(cipher.get(), nullptr, &moved, raw(head.data()),
                     static_cast<int>(head.size()));
    const std::size_t bytes = is_sealing ? from.size() : from.size() - TAG_BYTES;
    Bytes out(bytes);
    EVP_CipherUpdate(cipher.get(), raw(out.data()), &moved, raw(from.data()),
                     static_cast<int>(bytes));
    Bytes tag(TAG_BYTES);
    if (!is_sealing) {
      std::copy(from.end() - TAG_BYTES, from.end(), tag.begin());
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_AEAD_SET_TAG, TAG_BYTES, tag.data());
    }
    if (EVP_CipherFinal_ex(cipher.get(), raw(out.data()), &moved) != 1) return {};
    if (!is_sealing) return out;
    EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_AEAD_GET_TAG, TAG_BYTES, tag.data());
    out.insert(out.end(), tag.begin(), tag.end());
    return out;
  }
  Bytes secret_;
};

enum class Written : std::uint8_t { change = 20, alert = 21, handshake = 22, application = 23 };

class RecordForger {
 public:
  static constexpr std::size_t HEAD_BYTES = 5;

  struct Record {
    Written kind{};
    Bytes content;
  };

  explicit RecordForger(const Server& server) {
    auto address = tcp::resolve(*tcp::parse_host_port(server.addresses().front()));
    auto socket = tcp::connect_within(address->front(), nullptr, 2'000);
    REQUIRE(static_cast<bool>(socket));
    socket_ = std::move(*socket);
    shake();
  }

  /// A record as it travels, the next one of this side.
  Bytes sealed(Written kind, wire::View content, std::size_t padding = 0) {
    Bytes inner(content.begin(), content.end());
    inner.push_back(static_cast<std::byte>(kind));
    inner.resize(inner.size() + padding);
    Bytes record = head_of(inner.size() + ForgedKeys::TAG_BYTES);
    const Bytes rest = own->seal(record, inner);
    record.insert(record.end(), rest.begin(), rest.end());
    return record;
  }
  static Bytes head_of(std::size_t sealed_bytes, Written kind = Written::application) {
    return {static_cast<std::byte>(kind), std::byte{3}, std::byte{3},
            static_cast<std::byte>(sealed_bytes >> 8), static_cast<std::byte>(sealed_bytes & 0xff)};
  }
  /// False: the other side has closed.
  bool send_raw(wire::View bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0)
        bytes = bytes.subspan(static_cast<std::size_t>(sent));
      else if (errno != EAGAIN || !wait(POLLOUT))
        return false;
    }
    return true;
  }
  bool send(Written kind, wire::View content, std::size_t padding = 0) {
    return send_raw(sealed(kind, content, padding));
  }
  /// As TLS wants it: the next record of this side has new keys.
  bool update_keys(bool is_other_too) {
    const std::byte note[] = {std::byte{24}, std::byte{0}, std::byte{0}, std::byte{1},
                              static_cast<std::byte>(is_other_too)};
    const bool is_sent = send(Written::handshake, note);
    own->renew();
    return is_sent;
  }

  /// The next record of the other side. Nothing: it has closed, or what came is none.
  std::optional<Record> receive() {
    Bytes head(HEAD_BYTES);
    if (!hear(head)) return {};
    Bytes body(std::to_integer<std::size_t>(head[3]) << 8 | std::to_integer<std::size_t>(head[4]));
    if (!hear(body) || body.size() <= ForgedKeys::TAG_BYTES) return {};
    Bytes inner = other->open(head, body);
    while (!inner.empty() && inner.back() == std::byte{0}) inner.pop_back();
    if (inner.empty()) return {};
    const auto kind = static_cast<Written>(inner.back());
    inner.pop_back();
    return Record{kind, std::move(inner)};
  }
  /// All records until the other side closes.
  std::vector<Record> rest() {
    std::vector<Record> all;
    while (auto record = receive()) all.push_back(std::move(*record));
    return all;
  }
  /// Bytes of frames, at least so many.
  Bytes content(std::size_t bytes) {
    Bytes all;
    while (all.size() < bytes) {
      const auto record = receive();
      REQUIRE(record.has_value());
      REQUIRE(record->kind == Written::application);
      all.insert(all.end(), record->content.begin(), record->content.end());
    }
    return all;
  }

  /// HELLO and PROOF of a client without a token, and all that the node says to them.
  void greet() {
    Bytes out;
    wire::encode_hello(out, RawPeer::hello());
    wire::encode_proof(out, wire::Proof{});
    REQUIRE(send(Written::application, out));
    std::vector<Kind> kinds;
    Bytes heard;
    while (kinds.empty() || kinds.back() != Kind::map) {
      const Bytes more = content(1);
      heard.insert(heard.end(), more.begin(), more.end());
      take_frames(heard, kinds);
    }
    CHECK(kinds == std::vector<Kind>{Kind::challenge, Kind::welcome, Kind::map});
  }
  /// A frame that is answered by one word.
  static Bytes question() {
    Bytes out;
    wire::encode_ack(out, Kind::ack, 0, 0, wire::CONFIRM);
    return out;
  }
  bool is_answered() {
    const auto record = receive();
    if (!record || record->kind != Written::application) return false;
    const auto header = wire::decode_header(record->content);
    return header && header->kind == Kind::acked;
  }

  int fd() const { return socket_.get(); }
  std::optional<ForgedKeys> own, other;

 private:
  static void note_secret(const SSL* ssl, const char* line) {
    auto* const self = static_cast<RecordForger*>(SSL_get_app_data(ssl));
    const std::string_view text(line);
    const std::string_view hex = text.substr(text.rfind(' ') + 1);
    Bytes secret(hex.size() / 2);
    for (std::size_t at = 0; at < secret.size(); ++at) {
      unsigned value = 0;
      std::from_chars(&hex[2 * at], &hex[2 * at] + 2, value, 16);
      secret[at] = static_cast<std::byte>(value);
    }
    if (text.starts_with("CLIENT_TRAFFIC_SECRET_0 ")) self->own.emplace(std::move(secret));
    if (text.starts_with("SERVER_TRAFFIC_SECRET_0 ")) self->other.emplace(std::move(secret));
  }
  void shake() {
    const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()),
                                                               SSL_CTX_free);
    SSL_CTX_set_ciphersuites(context.get(), "TLS_AES_128_GCM_SHA256");
    SSL_CTX_set_keylog_callback(context.get(), note_secret);
    const std::unique_ptr<SSL, void (*)(SSL*)> ssl(SSL_new(context.get()), SSL_free);
    SSL_set_app_data(ssl.get(), this);
    SSL_set_fd(ssl.get(), fd());
    SSL_set_connect_state(ssl.get());
    SSL_set_quiet_shutdown(ssl.get(), 1);
    for (int answer = 0; (answer = SSL_do_handshake(ssl.get())) != 1;) {
      REQUIRE(SSL_get_error(ssl.get(), answer) == SSL_ERROR_WANT_READ);
      REQUIRE(wait(POLLIN));
    }
    REQUIRE((own.has_value() && other.has_value()));
  }
  bool hear(std::span<std::byte> into) {
    while (!into.empty()) {
      const ssize_t got = recv(fd(), into.data(), into.size(), MSG_DONTWAIT);
      if (got > 0)
        into = into.subspan(static_cast<std::size_t>(got));
      else if (got == 0 || errno != EAGAIN || !wait(POLLIN))
        return false;
    }
    return true;
  }
  bool wait(short events) {
    pollfd waiting{fd(), events, 0};
    return poll(&waiting, 1, static_cast<int>(PATIENCE_MS)) == 1;
  }
  static void take_frames(Bytes& heard, std::vector<Kind>& kinds) {
    while (heard.size() >= HEADER_BYTES) {
      const auto header = wire::decode_header(wire::View(heard).first(HEADER_BYTES));
      REQUIRE(header.has_value());
      const std::size_t bytes = HEADER_BYTES + header->frame_bytes;
      if (heard.size() < bytes) return;
      kinds.push_back(header->kind);
      heard.erase(heard.begin(), heard.begin() + static_cast<std::ptrdiff_t>(bytes));
    }
  }

  tcp::Descriptor socket_;
};

}  // namespace gd2fs::testing
