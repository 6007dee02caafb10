#include "tls_handshake.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

namespace gd2fs::tls {
namespace {

constexpr std::size_t NAMES_SHOWN_MAX = 6;
constexpr std::size_t NAME_SHOWN_BYTES_MAX = 80;
constexpr std::string_view BINDING_LABEL = "EXPORTER-Channel-Binding";  // RFC 9266
constexpr std::byte ALERT_RECORD{21}, HANDSHAKE_RECORD{22};
constexpr int ALERT_REASONS = 1000;  // OpenSSL's reason of an alert that came, less its number

bool is_about_certificate(unsigned alert) {
  constexpr unsigned ALERTS[] = {SSL_AD_BAD_CERTIFICATE,      SSL_AD_UNSUPPORTED_CERTIFICATE,
                                 SSL_AD_CERTIFICATE_REVOKED,  SSL_AD_CERTIFICATE_EXPIRED,
                                 SSL_AD_CERTIFICATE_UNKNOWN,  SSL_AD_UNKNOWN_CA,
                                 SSL_AD_CERTIFICATE_REQUIRED, SSL_AD_ACCESS_DENIED};
  return std::find(std::begin(ALERTS), std::end(ALERTS), alert) != std::end(ALERTS);
}

/// -2: the text is no IP address. One that is stands in no certificate as a name.
bool matches(X509* certificate, const std::string& name) {
  const int as_address = X509_check_ip_asc(certificate, name.c_str(), 0);
  if (as_address != -2) return as_address == 1;
  constexpr unsigned FLAGS =
      X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS;
  return X509_check_host(certificate, name.data(), name.size(), FLAGS, nullptr) == 1;
}

/// Text of a certificate: whatever its maker put there.
std::string shown(const unsigned char* text, std::size_t bytes) {
  std::string out;
  for (std::size_t at = 0; at < std::min(bytes, NAME_SHOWN_BYTES_MAX); ++at)
    out += text[at] > ' ' && text[at] < 0x7f ? static_cast<char>(text[at]) : '?';
  return out;
}

std::string ip_text(const unsigned char* bytes, int count) {
  std::string out;
  const bool is_short = count == 4;
  char part[8];
  for (int at = 0; at < count; at += is_short ? 1 : 2) {
    if (at > 0) out += is_short ? '.' : ':';
    const unsigned value =
        is_short ? bytes[at] : (static_cast<unsigned>(bytes[at]) << 8) | bytes[at + 1];
    out.append(part, std::to_chars(part, part + sizeof part, value, is_short ? 10 : 16).ptr);
  }
  return out;
}

/// The names that a certificate is for.
std::string names_of(X509* certificate) {
  auto* const names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  std::string out;
  std::size_t count = 0;
  for (int at = 0; at < sk_GENERAL_NAME_num(names); ++at) {  // of none: -1
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names, at);
    if (name->type != GEN_DNS && name->type != GEN_IPADD) continue;
    if (++count > NAMES_SHOWN_MAX) continue;
    const ASN1_STRING* const text = name->type == GEN_DNS ? name->d.dNSName : name->d.iPAddress;
    const unsigned char* const bytes = ASN1_STRING_get0_data(text);
    const int size = ASN1_STRING_length(text);
    out += out.empty() ? "" : ", ";
    const bool is_ip = name->type == GEN_IPADD && (size == 4 || size == 16);
    out += is_ip ? ip_text(bytes, size) : shown(bytes, static_cast<std::size_t>(size));
  }
  GENERAL_NAMES_free(names);
  if (count > NAMES_SHOWN_MAX) out += " and " + std::to_string(count - NAMES_SHOWN_MAX) + " more";
  return out.empty() ? "no address" : out;
}

std::string day_of(const ASN1_TIME* time) {
  std::tm day{};
  char text[16] = "?";
  if (ASN1_TIME_to_tm(time, &day) == 1) std::strftime(text, sizeof text, "%Y-%m-%d", &day);
  return text;
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

const Suite* suite_of(const SSL* ssl) {
  const SSL_CIPHER* const cipher = SSL_get_current_cipher(ssl);
  return cipher == nullptr ? nullptr : find_suite(SSL_CIPHER_get_protocol_id(cipher));
}

}  // namespace

Fault alert_fault(Side side, unsigned alert) {
  const char* const text = SSL_alert_desc_string_long(static_cast<int>(alert));
  const bool is_client = side == Side::client;
  if (is_client && alert == SSL_AD_INTERNAL_ERROR)  // as a node says it that has no room
    return {Cause::handshake,
            "the node lets nobody in now: too many have not proven themselves yet",
            "try again in a moment"};
  if (!is_about_certificate(alert))
    return {Cause::handshake, std::string("the other side has ended TLS: ") + text,
            "look whether both sides are of one release, and at what lies between them"};
  if (!is_client)
    return {Cause::certificate, std::string("the client takes no certificate of ours: ") + text,
            "give it the authority that signed this node's certificate"};
  if (alert == SSL_AD_CERTIFICATE_REQUIRED)
    return {Cause::certificate, "the node wants a certificate of its clients, and got none",
            "give one with `--tls-cert` and `--tls-key`"};
  return {Cause::certificate, std::string("the node refuses this side's certificate: ") + text,
          "use one that the node's `--tls-ca` has signed, and that is valid now"};
}

// ---- contexts ------------------------------------------------------------------------

void Handshake::prepare(ssl_ctx_st* context) { SSL_CTX_set_keylog_callback(context, note_secret); }

void Handshake::verify_nodes(ssl_ctx_st* context) {
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, check_peer);
}

void Handshake::verify_clients(ssl_ctx_st* context) {
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, check_peer);
}

/// Called for each certificate of a chain, the leaf last. Of a node's, the leaf has to be of one of
/// the names. What is wrong is noted here: OpenSSL forgets a certificate that it does not take.
int Handshake::check_peer(int is_trusted, x509_store_ctx_st* store) {
  const auto* const ssl = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* const self = static_cast<Handshake*>(SSL_get_app_data(ssl));
  if (is_trusted == 1) {
    X509* const leaf = X509_STORE_CTX_get_current_cert(store);
    const bool is_to_be_named =
        self->side_ == Side::client && X509_STORE_CTX_get_error_depth(store) == 0;
    const bool is_named = std::any_of(self->names_.begin(), self->names_.end(),
                                      [&](const auto& name) { return matches(leaf, name); });
    if (!is_to_be_named || is_named) return 1;
    X509_STORE_CTX_set_error(store, X509_V_ERR_HOSTNAME_MISMATCH);
  }
  self->trust_fault_ = self->trust_fault(store);
  return 0;
}

std::string Handshake::trust_fault(x509_store_ctx_st* store) const {
  const int error = X509_STORE_CTX_get_error(store);
  X509* const certificate = X509_STORE_CTX_get_current_cert(store);
  std::string what = side_ == Side::client ? "the node's certificate" : "the client's certificate";
  if (X509_STORE_CTX_get_error_depth(store) > 0) what = "an authority behind " + what;
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return what + " has expired on " + day_of(X509_get0_notAfter(certificate));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return what + " is not valid before " + day_of(X509_get0_notBefore(certificate)) +
             ": is the clock right?";
    case X509_V_ERR_HOSTNAME_MISMATCH:
      return what + " is for " + names_of(certificate) + ", not for " + joined(names_);
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return what + " is signed by nobody who is trusted here";
    default: return what + " is refused: " + X509_verify_cert_error_string(error);
  }
}

/// OpenSSL gives secrets out as lines for a log: a label, the client's random number, the secret.
void Handshake::note_secret(const ssl_st* ssl, const char* line) {
  auto* const self = static_cast<Handshake*>(SSL_get_app_data(ssl));
  const std::string_view text(line);
  const std::size_t space = text.find(' ');
  const std::string_view label = text.substr(0, space);
  const bool is_client = label == "CLIENT_TRAFFIC_SECRET_0";
  if (!is_client && label != "SERVER_TRAFFIC_SECRET_0") return;
  const std::string_view hex = text.substr(text.rfind(' ') + 1);
  Secret secret(hex.size() / 2);
  for (std::size_t at = 0; at < secret.size(); ++at) {
    unsigned value = 0;
    std::from_chars(&hex[2 * at], &hex[2 * at] + 2, value, 16);
    secret[at] = static_cast<std::byte>(value);
  }
  (is_client ? self->client_ : self->node_) = std::move(secret);
}

// ---- one handshake -------------------------------------------------------------------

Handshake::Handshake(ssl_ctx_st* context, Side side, std::vector<std::string> names)
    : side_(side), names_(std::move(names)), ssl_(SSL_new(context), SSL_free) {
  if (ssl_ == nullptr) return;
  SSL_set_app_data(ssl_.get(), this);
  SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  if (side == Side::node) {
    SSL_set_accept_state(ssl_.get());
    return;
  }
  SSL_set_connect_state(ssl_.get());
  const auto is_word = [](const std::string& name) {
    return name.find_first_not_of("0123456789.") != std::string::npos &&
           name.find(':') == std::string::npos;
  };
  const auto named = std::find_if(names_.begin(), names_.end(), is_word);
  if (named != names_.end()) SSL_set_tlsext_host_name(ssl_.get(), named->c_str());
}

Handshake::~Handshake() {
  for (Secret* secret : {&client_, &node_}) OPENSSL_cleanse(secret->data(), secret->size());
}

/// The other side speaks something else: its first byte begins no record that may come first.
bool Handshake::is_plaintext(std::span<const std::byte> in) {
  if (is_begun_ || in.empty()) return false;
  is_begun_ = true;
  const bool is_alert = side_ == Side::client && in.front() == ALERT_RECORD;
  return in.front() != HANDSHAKE_RECORD && !is_alert;
}

Handshake::Step Handshake::take(std::span<const std::byte> in, Bytes& out) {
  if (ssl_ == nullptr) return fail(Cause::handshake, "OpenSSL has no memory left", "");
  if (is_plaintext(in)) {
    if (side_ == Side::node)
      return fail(Cause::plaintext, "the other side speaks no TLS", "give it `--tls-ca`");
    return fail(Cause::plaintext, "the node speaks no TLS",
                "start it with `--tls-cert` and `--tls-key`, or leave `--tls-ca` out");
  }
  ERR_clear_error();
  if (!in.empty()) BIO_write(SSL_get_rbio(ssl_.get()), in.data(), static_cast<int>(in.size()));
  const int answer = SSL_do_handshake(ssl_.get());
  const bool is_waiting = answer != 1 && SSL_get_error(ssl_.get(), answer) == SSL_ERROR_WANT_READ;
  const std::size_t at = out.size();
  out.resize(at + BIO_ctrl_pending(SSL_get_wbio(ssl_.get())));
  if (out.size() > at)
    BIO_read(SSL_get_wbio(ssl_.get()), out.data() + at, static_cast<int>(out.size() - at));
  if (is_waiting) return Step::more;
  if (answer != 1) return fail();
  const bool is_agreed = suite_of(ssl_.get()) != nullptr && !client_.empty() && !node_.empty();
  if (!is_agreed) return fail(Cause::handshake, "no cipher in common", "");
  return export_binding() ? Step::done : fail(Cause::handshake, "OpenSSL exports no secret", "");
}

bool Handshake::export_binding() {
  auto* const into = reinterpret_cast<unsigned char*>(binding_.data());  // bytes alias by contract
  return SSL_export_keying_material(ssl_.get(), into, binding_.size(), BINDING_LABEL.data(),
                                    BINDING_LABEL.size(), nullptr, 0, 0) == 1;
}

Handshake::Step Handshake::fail(Cause cause, std::string message, std::string hint) {
  fault_ = {cause, std::move(message), std::move(hint)};
  return Step::failed;
}

Handshake::Step Handshake::fail() {
  const unsigned long code = ERR_peek_last_error();
  const int reason = ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
  ERR_clear_error();
  if (!trust_fault_.empty())
    return fail(Cause::certificate, trust_fault_,
                "`openssl x509 -noout -text -in FILE` shows what a certificate says");
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
    return fail(Cause::certificate, "the client has shown no certificate",
                "give it one with `--tls-cert` and `--tls-key`");
  if (reason >= ALERT_REASONS && reason < ALERT_REASONS + 256) {
    fault_ = alert_fault(side_, static_cast<unsigned>(reason - ALERT_REASONS));
    return Step::failed;
  }
  const char* const text = code == 0 ? nullptr : ERR_reason_error_string(code);
  return fail(Cause::handshake,
              std::string("the TLS handshake failed: ") + (text == nullptr ? "no reason" : text),
              "look whether TLS 1.3 is spoken there, and at what lies between");
}

Agreed Handshake::agreed(Bytes& rest) {
  Agreed agreed;
  agreed.suite = suite_of(ssl_.get());
  const bool is_client = side_ == Side::client;
  agreed.own = std::move(is_client ? client_ : node_);
  agreed.other = std::move(is_client ? node_ : client_);
  agreed.binding = binding_;
  // Read-ahead is off: what OpenSSL has not looked at lies here whole.
  const std::size_t at = rest.size();
  rest.resize(at + BIO_ctrl_pending(SSL_get_rbio(ssl_.get())));
  if (rest.size() > at)
    BIO_read(SSL_get_rbio(ssl_.get()), rest.data() + at, static_cast<int>(rest.size() - at));
  return agreed;
}

}  // namespace gd2fs::tls
