#include "tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>

#include "tls_handshake.h"
#include "tls_session.h"

namespace gd2fs::tls {
namespace {

constexpr const char* SYSTEM = "system";        // in place of a file
constexpr auto LOOK = std::chrono::seconds(1);  // between two looks whether files have changed
// The first is the quickest where processors have instructions for AES, the last where not.
constexpr const char* SUITES =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

Error settings_error(std::string message, std::string hint) {
  return {std::move(message), std::move(hint), Status::invalid};
}

/// Of the first thing that went wrong.
std::string openssl_reason() {
  const unsigned long code = ERR_peek_error();
  ERR_clear_error();
  if (ERR_SYSTEM_ERROR(code)) return std::strerror(static_cast<int>(ERR_GET_REASON(code)));
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "it is not what it should be" : reason;
}

Error file_error(const char* what, const std::string& path) {
  return settings_error(
      std::string("cannot use the ") + what + " in " + path + ": " + openssl_reason(),
      "name a PEM file that this process may read, without a passphrase");
}

/// A key with a passphrase is refused: nobody is there to be asked.
int no_passphrase(char*, int, int, void*) { return 0; }

bool set_common(SSL_CTX* context) {
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  Handshake::prepare(context);
  // A stream lives long and is checked in full: no tickets, so nothing follows a handshake.
  return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_num_tickets(context, 0) == 1 && SSL_CTX_set_ciphersuites(context, SUITES) == 1;
}

Error set_own(SSL_CTX* context, const Settings& settings) {
  if (SSL_CTX_use_certificate_chain_file(context, settings.cert.c_str()) != 1)
    return file_error("certificate", settings.cert);
  if (SSL_CTX_use_PrivateKey_file(context, settings.key.c_str(), SSL_FILETYPE_PEM) == 1) return {};
  const int reason = ERR_GET_REASON(ERR_peek_error());
  const bool is_other = reason == X509_R_KEY_VALUES_MISMATCH || reason == X509_R_KEY_TYPE_MISMATCH;
  if (!is_other) return file_error("key", settings.key);
  ERR_clear_error();
  return settings_error(
      "the key in " + settings.key + " is not of the certificate in " + settings.cert,
      "name the two files of one certificate");
}

Error set_trust(SSL_CTX* context, const Settings& settings) {
  if (settings.ca.empty() || settings.ca == SYSTEM) {
    SSL_CTX_set_default_verify_paths(context);
    return {};
  }
  if (SSL_CTX_load_verify_locations(context, settings.ca.c_str(), nullptr) == 1) return {};
  return file_error("authorities", settings.ca);
}

std::int64_t expiry_of(SSL_CTX* context) {
  const X509* own = SSL_CTX_get0_certificate(context);
  std::tm end{};
  if (own == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(own), &end) != 1) return 0;
  return timegm(&end);
}

}  // namespace

Result<std::shared_ptr<Context>> Context::open(const Settings& settings) {
  if (settings.cert.empty() != settings.key.empty())
    return settings_error("a certificate and its key belong together, one of them is not named",
                          "give both, or neither");
  if (settings.are_clients_required && settings.ca.empty())
    return settings_error("clients need a certificate here, and nobody says who signs them",
                          "name the authorities' file");
  std::shared_ptr<Context> context(new Context(settings));
  if (Error fault = context->reload(); !fault.message.empty()) return fault;
  context->counts_.reloads = 0;
  context->watcher_ = std::thread([watching = context.get()] { watching->watch(); });
  return context;
}

Context::~Context() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  ended_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

std::unique_ptr<Session> Context::accept() const {
  const std::lock_guard lock(mutex_);
  auto handshake =
      std::make_unique<Handshake>(loaded_.server.get(), Side::node, std::vector<std::string>{});
  return std::make_unique<Session>(std::move(handshake), Side::node);
}

std::unique_ptr<Session> Context::connect(std::vector<std::string> names) const {
  if (!settings_.name.empty()) names.push_back(settings_.name);
  const std::lock_guard lock(mutex_);
  auto handshake =
      std::make_unique<Handshake>(loaded_.client.get(), Side::client, std::move(names));
  return std::make_unique<Session>(std::move(handshake), Side::client);
}

Result<Context::Loaded> Context::load() const {
  ERR_clear_error();
  Loaded loaded;
  const bool has_own = !settings_.cert.empty();
  for (const bool is_server : {false, true}) {
    if (is_server && !has_own) break;
    ContextRef made(SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method()),
                    SSL_CTX_free);
    if (made == nullptr || !set_common(made.get()))
      return settings_error("OpenSSL cannot do TLS 1.3: " + openssl_reason(),
                            "use OpenSSL 3 with its default provider");
    Error fault = has_own ? set_own(made.get(), settings_) : Error{};
    if (fault.message.empty()) fault = set_trust(made.get(), settings_);
    if (!fault.message.empty()) return fault;
    if (!is_server) Handshake::verify_nodes(made.get());
    if (is_server && settings_.are_clients_required) Handshake::verify_clients(made.get());
    (is_server ? loaded.server : loaded.client) = std::move(made);
  }
  if (has_own) loaded.expires_s = expiry_of(loaded.server.get());
  return loaded;
}

Error Context::reload() {
  const std::lock_guard reloading(reload_mutex_);
  seen_ = signature();
  auto loaded = load();
  const std::lock_guard lock(mutex_);
  if (!loaded) {
    if (reload_fault_ != loaded.error().message) ++counts_.reload_faults;
    reload_fault_ = loaded.error().message;
    return loaded.error();
  }
  loaded_ = std::move(*loaded);
  reload_fault_.clear();
  ++counts_.reloads;
  counts_.expires_s = loaded_.expires_s;
  return {};
}

Counts Context::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::string Context::reload_fault() const {
  const std::lock_guard lock(mutex_);
  return reload_fault_;
}

/// Differs when a file was written, replaced, made readable, or stands behind another link.
std::string Context::signature() const {
  std::string all;
  for (const std::string* path : {&settings_.cert, &settings_.key, &settings_.ca}) {
    struct stat file {};
    if (path->empty() || stat(path->c_str(), &file) != 0) {
      all += "-;";
      continue;
    }
    for (const auto part :
         {static_cast<long long>(file.st_dev), static_cast<long long>(file.st_ino),
          static_cast<long long>(file.st_size), static_cast<long long>(file.st_mtim.tv_sec),
          static_cast<long long>(file.st_mtim.tv_nsec), static_cast<long long>(file.st_ctim.tv_sec),
          static_cast<long long>(file.st_ctim.tv_nsec)})
      all += std::to_string(part) + ",";
    all += ";";
  }
  return all;
}

void Context::watch() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (ended_.wait_for(lock, LOOK, [this] { return is_over_; })) return;
    }
    bool is_changed;
    {
      const std::lock_guard reloading(reload_mutex_);
      is_changed = signature() != seen_;
    }
    // What was no use may have been whole, and the process out of descriptors, say.
    const bool is_due = is_changed || !reload_fault().empty();
    if (is_due) static_cast<void>(reload());  // counted there, and its message is kept
  }
}

}  // namespace gd2fs::tls
