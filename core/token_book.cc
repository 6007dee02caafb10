#include "token_book.h"

namespace gd2fs::serve {
namespace {

const TokenRef& everybody() {
  static const TokenRef one =
      std::make_shared<const KnownToken>(KnownToken{{}, Rights::of_cluster()});
  return one;
}

}  // namespace

void TokenBook::set(const std::vector<KnownToken>& tokens) {
  Tokens known;
  TokenRef own;
  for (const KnownToken& each : tokens) {
    const auto one = std::make_shared<const KnownToken>(each);
    const bool is_first = known.try_emplace(each.token.name, one).second;
    if (is_first && own == nullptr && each.rights.is_cluster()) own = one;
  }
  const std::lock_guard lock(mutex_);
  tokens_.swap(known);
  own_.swap(own);
}

bool TokenBook::is_open() const {
  const std::lock_guard lock(mutex_);
  return tokens_.empty();
}

TokenRef TokenBook::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  if (tokens_.empty()) return name.empty() ? everybody() : nullptr;
  const auto found = tokens_.find(name);
  return found == tokens_.end() ? nullptr : found->second;
}

bool TokenBook::has(const KnownToken& token) const {
  const TokenRef now = find(token.token.name);
  return now != nullptr && now->token == token.token && now->rights == token.rights;
}

std::optional<Token> TokenBook::own() const {
  const std::lock_guard lock(mutex_);
  if (own_ == nullptr) return {};
  return own_->token;
}

}  // namespace gd2fs::serve
