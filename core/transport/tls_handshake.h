// TLS handshake: OpenSSL's, fed with bytes. It ends with the secrets of the two directions, which
// the records of the stream are sealed with (tls_records.h); OpenSSL is not asked again after it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tls.h"
#include "tls_records.h"

struct ssl_st;             // OpenSSL's SSL
struct x509_store_ctx_st;  // OpenSSL's X509_STORE_CTX

namespace gd2fs::tls {

enum class Side : std::uint8_t { client, node };

/// What a handshake agreed on.
struct Agreed {
  const Suite* suite = nullptr;
  Secret own, other;  // of what is sent, of what comes
  ChannelBinding binding{};
};

class Handshake {
 public:
  /// `names`: one of them has to be in the node's certificate.
  Handshake(ssl_ctx_st* context, Side side, std::vector<std::string> names);
  ~Handshake();
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  enum class Step : std::uint8_t { more, done, failed };
  /// Takes what has come; appends what is to be sent.
  Step take(std::span<const std::byte> in, Bytes& out);
  /// Once done. What came behind it is appended to `rest`.
  Agreed agreed(Bytes& rest);
  const Fault& fault() const noexcept { return fault_; }

  // Of a context that handshakes will be made with.
  static void prepare(ssl_ctx_st* context);
  static void verify_nodes(ssl_ctx_st* context);
  static void verify_clients(ssl_ctx_st* context);

 private:
  static void note_secret(const ssl_st* ssl, const char* line);
  static int check_peer(int is_trusted, x509_store_ctx_st* store);
  bool is_plaintext(std::span<const std::byte> in);
  bool export_binding();
  Step fail();
  Step fail(Cause cause, std::string message, std::string hint);
  std::string trust_fault(x509_store_ctx_st* store) const;

  const Side side_;
  const std::vector<std::string> names_;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> ssl_;
  bool is_begun_ = false;    // something has come from the other side
  std::string trust_fault_;  // why the other side's certificate is not taken
  Secret client_, node_;
  ChannelBinding binding_{};
  Fault fault_;
};

/// Why the other side ended the stream with this alert.
Fault alert_fault(Side side, unsigned alert);

}  // namespace gd2fs::tls
