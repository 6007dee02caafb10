// Certificates for tests: authorities and what they sign, in files of a folder that goes with them.
#pragma once

#include <doctest/doctest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "transport/tls.h"

namespace gd2fs::testing {

constexpr const char* LOOPBACK = "IP:127.0.0.1,IP:::1,DNS:localhost";
constexpr long HOUR_S = 3'600;

struct Span {
  long from_s = -HOUR_S, until_s = HOUR_S;  // from now
};

class Certificates {
 public:
  Certificates() {
    REQUIRE(mkdtemp(folder_.data()) != nullptr);
    add_authority("ca");
    add("node", LOOPBACK);
  }
  ~Certificates() { std::filesystem::remove_all(folder_); }
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  void add_authority(const std::string& name) { make(name, "", name, "", {}); }
  /// `names` as OpenSSL writes them: `DNS:a,IP:127.0.0.1`. `as`: the files' name, if another one.
  void add(const std::string& name, const std::string& names, const std::string& authority = "ca",
           Span span = {}) {
    make(name, authority, name, names, span);
  }
  /// The files of one take the place of another's, as `mv` does it.
  void replace(const std::string& name, const std::string& by) {
    for (const char* end : {".key", ".crt"})
      std::filesystem::rename(path(by + end), path(name + end));
  }

  std::string path(const std::string& file) const { return folder_ + "/" + file; }
  tls::Settings node(const std::string& name = "node", bool are_clients_required = false) const {
    tls::Settings settings;
    settings.cert = path(name + ".crt");
    settings.key = path(name + ".key");
    settings.ca = path("ca.crt");
    settings.are_clients_required = are_clients_required;
    return settings;
  }
  tls::Settings client(const std::string& authority = "ca") const {
    tls::Settings settings;
    settings.ca = path(authority + ".crt");
    return settings;
  }

 private:
  template <class T>
  using Owned = std::unique_ptr<T, void (*)(T*)>;

  static void extend(X509* certificate, X509* issuer, int kind, const std::string& text) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    Owned<X509_EXTENSION> extension(X509V3_EXT_conf_nid(nullptr, &context, kind, text.c_str()),
                                    X509_EXTENSION_free);
    REQUIRE(extension != nullptr);
    X509_add_ext(certificate, extension.get(), -1);
  }

  void make(const std::string& file, const std::string& authority, const std::string& subject,
            const std::string& names, Span span) {
    Owned<EVP_PKEY> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
    Owned<X509> certificate(X509_new(), X509_free);
    X509_set_version(certificate.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), span.from_s);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), span.until_s);
    X509_set_pubkey(certificate.get(), key.get());
    const auto* text = reinterpret_cast<const unsigned char*>(subject.c_str());  // ASCII
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC, text,
                               -1, -1, 0);
    Owned<X509> issuer(nullptr, X509_free);
    Owned<EVP_PKEY> issuer_key(nullptr, EVP_PKEY_free);
    if (!authority.empty()) {
      issuer.reset(read<X509>(authority + ".crt", PEM_read_X509));
      issuer_key.reset(read<EVP_PKEY>(authority + ".key", PEM_read_PrivateKey));
    }
    X509* const by = authority.empty() ? certificate.get() : issuer.get();
    X509_set_issuer_name(certificate.get(), X509_get_subject_name(by));
    if (authority.empty()) extend(certificate.get(), by, NID_basic_constraints, "critical,CA:TRUE");
    if (!names.empty()) extend(certificate.get(), by, NID_subject_alt_name, names);
    X509_sign(certificate.get(), authority.empty() ? key.get() : issuer_key.get(), EVP_sha256());
    write(file + ".crt", [&](FILE* to) { return PEM_write_X509(to, certificate.get()); });
    write(file + ".key", [&](FILE* to) {
      return PEM_write_PrivateKey(to, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
  }

  template <class T, class Read>
  T* read(const std::string& file, const Read& with) const {
    Owned<FILE> from(std::fopen(path(file).c_str(), "r"), [](FILE* each) { std::fclose(each); });
    REQUIRE(from != nullptr);
    return with(from.get(), nullptr, nullptr, nullptr);
  }

  template <class Write>
  void write(const std::string& file, const Write& with) const {
    Owned<FILE> to(std::fopen(path(file).c_str(), "w"), [](FILE* each) { std::fclose(each); });
    REQUIRE(to != nullptr);
    REQUIRE(with(to.get()) == 1);
  }

  std::string folder_ = "/tmp/gd2fs-certificates-XXXXXX";
  long serial_ = 0;
};

}  // namespace gd2fs::testing
