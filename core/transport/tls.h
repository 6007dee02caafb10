// TLS 1.3 of streams over TCP: what a process shows of itself and whom it trusts, out of files that
// may change while it runs. OpenSSL makes the handshakes; see tls_session.h for what comes after.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../error.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace gd2fs::tls {

/// PEM files, and whose certificates are taken. Nothing of it: no TLS.
struct Settings {
  std::string cert;  // own chain, leaf first, and its key: both or neither. A node has them.
  std::string key;
  std::string ca;    // who signs what others show; empty or `system`: whom the system trusts
  std::string name;  // one more name that a node's certificate may have, besides its addresses
  bool are_clients_required = false;  // a node: streams come with a certificate, or not at all

  bool is_on() const noexcept { return !cert.empty() || !key.empty() || !ca.empty(); }
};

/// What is wrong with a stream.
enum class Cause : std::uint8_t { nothing, plaintext, handshake, certificate };
struct Fault {
  Cause cause = Cause::nothing;
  std::string message;  // one line
  std::string hint;
};

struct Counts {
  std::uint64_t reloads = 0;        // of changed files
  std::uint64_t reload_faults = 0;  // these were no use: the former ones stay, and it tries again
  std::int64_t expires_s = 0;       // of the own certificate, since 1970; 0: there is none
};

class Session;

/// What all streams of a process have in common. Any thread.
class Context {
 public:
  /// Reads the files, and again whenever they have changed, within a second or so.
  static Result<std::shared_ptr<Context>> open(const Settings& settings);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// The node's side of a stream. Only of a context with a certificate.
  std::unique_ptr<Session> accept() const;
  /// The other side. `names`: the node's certificate has to be of one of them, or of the name in
  /// the settings; numbers of IP addresses are names too.
  std::unique_ptr<Session> connect(std::vector<std::string> names) const;

  /// Reads the files now. A message: they are no use, and the former ones stay.
  Error reload();
  Counts counts() const;
  /// Of the last reload that failed; empty once one succeeds.
  std::string reload_fault() const;

 private:
  using ContextRef = std::shared_ptr<ssl_ctx_st>;
  /// What one reading of the files gave.
  struct Loaded {
    ContextRef server;  // nothing without a certificate
    ContextRef client;
    std::int64_t expires_s = 0;
  };

  explicit Context(Settings settings) : settings_(std::move(settings)) {}
  Result<Loaded> load() const;
  std::string signature() const;
  void watch();

  const Settings settings_;
  std::mutex reload_mutex_;   // Guards: seen_, and that one reads the files at a time.
  std::string seen_;          // of the files, when they were read last
  mutable std::mutex mutex_;  // Guards: all below. Held to copy or replace them.
  Loaded loaded_;
  Counts counts_;
  std::string reload_fault_;
  bool is_over_ = false;
  std::condition_variable ended_;
  std::thread watcher_;
};
using ContextPtr = std::shared_ptr<Context>;

}  // namespace gd2fs::tls
