// Token book: the tokens that a node knows, and what each may do. Replaced as a whole while it
// runs.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rights.h"
#include "token.h"

namespace gd2fs::serve {

struct KnownToken {
  Token token;
  Rights rights;
};
using TokenRef = std::shared_ptr<const KnownToken>;

class TokenBook {
 public:
  explicit TokenBook(const std::vector<KnownToken>& tokens) { set(tokens); }

  // Any thread.
  void set(const std::vector<KnownToken>& tokens);
  /// It knows none: everybody may do everything, without a proof.
  bool is_open() const;
  /// By its name. Nothing: it is not known. Of an open book: what everybody may, without a name.
  TokenRef find(std::string_view name) const;
  /// Does this one still stand there, with the same secret and the same rights?
  bool has(const KnownToken& token) const;
  /// What this node shows to others: the first one with the rights of the cluster.
  std::optional<Token> own() const;

 private:
  using Tokens = std::map<std::string, TokenRef, std::less<>>;

  mutable std::mutex mutex_;  // Guards: all below. Held for one look-up.
  Tokens tokens_;             // by name
  TokenRef own_;              // nothing: none has the rights of the cluster
};

}  // namespace gd2fs::serve
