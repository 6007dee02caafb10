// Token: what proves that a side belongs to the cluster, or may use namespaces of it, and how.
//
// A token is `NAME.SECRET`. The name is public and says which token is meant. Of the secret only
// its SHA-256 is kept, and that keys the proofs: HMAC-SHA256 over what both sides have said.
#pragma once

#include <sys/stat.h>

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "error.h"
#include "wire.h"

namespace gd2fs {

using TokenKey = std::array<std::byte, 32>;

struct Token {
  std::string name;
  TokenKey key{};

  friend bool operator==(const Token& a, const Token& b);
};

/// Reads `NAME.SECRET`. No message repeats any part of it.
Result<Token> parse_token(std::string_view text);
TokenKey key_of_secret(std::string_view secret);
/// Takes the same time wherever they differ. Of different lengths: never.
bool is_same(wire::View a, wire::View b) noexcept;

/// What a stream has proven so far: what both sides said, in order.
class Transcript {
 public:
  enum class Side : std::uint8_t { client, server };

  /// HELLO's table, then CHALLENGE's.
  void add(wire::View table);
  /// `exporter`: what ties it to the secured connection below; empty when there is none.
  wire::Proof prove(const TokenKey& key, Side side, wire::View exporter = {}) const;

 private:
  wire::Bytes said_;
};

/// The token that a client shows. One from a file is read again whenever the file has changed.
/// Thread-safe.
class TokenSource {
 public:
  TokenSource() = default;
  explicit TokenSource(std::optional<Token> token) : token_(std::move(token)) {}
  /// The first token of the file's.
  static Result<std::shared_ptr<TokenSource>> of_file(std::string path);

  std::optional<Token> current();
  void set(std::optional<Token> token);

 private:
  Error look();

  std::string path_;  // empty: not from a file
  std::mutex mutex_;  // Guards: the two below. Held while the file is read, a few KiB.
  std::optional<Token> token_;
  struct stat seen_ {};
};

using TokenSourceRef = std::shared_ptr<TokenSource>;

}  // namespace gd2fs
