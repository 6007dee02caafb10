#include "token_book.h"

#include <algorithm>

namespace gd2fs::serve {
namespace {

const TokenRef& everybody() {
  static const TokenRef one =
      std::make_shared<const KnownToken>(KnownToken{{}, Rights::of_cluster()});
  return one;
}

}  // namespace

void TokenBook::set(const std::vector<KnownToken>& tokens) {
  std::vector<TokenRef> known;
  for (const KnownToken& each : tokens) known.push_back(std::make_shared<const KnownToken>(each));
  const std::lock_guard lock(mutex_);
  tokens_ = std::move(known);
}

bool TokenBook::is_open() const {
  const std::lock_guard lock(mutex_);
  return tokens_.empty();
}

TokenRef TokenBook::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  if (tokens_.empty()) return name.empty() ? everybody() : nullptr;
  const auto found = std::find_if(tokens_.begin(), tokens_.end(),
                                  [&](const TokenRef& each) { return each->token.name == name; });
  return found == tokens_.end() ? nullptr : *found;
}

bool TokenBook::has(const KnownToken& token) const {
  const TokenRef now = find(token.token.name);
  return now != nullptr && now->token == token.token && now->rights == token.rights;
}

std::optional<Token> TokenBook::own() const {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(tokens_.begin(), tokens_.end(),
                                  [](const TokenRef& each) { return each->rights.is_cluster(); });
  if (found == tokens_.end()) return {};
  return (*found)->token;
}

}  // namespace gd2fs::serve
