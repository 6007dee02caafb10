#include "token.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "assertion.h"
#include "limits.h"

namespace gd2fs {
namespace {

constexpr std::size_t TOKEN_FILE_BYTES_MAX = 4 * KiB;
constexpr std::string_view SPACES = " \t\r\n";
const char* const HINT = "`gd2fs token new NAME` makes one";

const unsigned char* octets(const std::byte* at) {
  return reinterpret_cast<const unsigned char*>(at);  // bytes alias by contract
}

bool is_name_letter(char each) {
  return (each >= 'a' && each <= 'z') || (each >= '0' && each <= '9') || each == '-';
}

bool is_secret_letter(char each) {
  return is_name_letter(each) || (each >= 'A' && each <= 'Z') || each == '_';
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(SPACES);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(SPACES) - begin + 1);
}

/// The first line that says something.
std::string_view first_line(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    if (!line.empty() && line.front() != '#') return line;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

bool is_unchanged(const struct stat& a, const struct stat& b) {
  return a.st_ino == b.st_ino && a.st_dev == b.st_dev && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec &&
         a.st_ctim.tv_sec == b.st_ctim.tv_sec && a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

void append(wire::Bytes& out, wire::View bytes) {
  const std::size_t at = out.size();
  out.resize(at + bytes.size());
  if (!bytes.empty()) std::memcpy(out.data() + at, bytes.data(), bytes.size());  // as made room for
}

Error unreadable(const std::string& path) {
  return {"cannot read the token in " + path + ": " + std::strerror(errno),
          "name a file that this user can read", Status::invalid};
}

}  // namespace

bool operator==(const Token& a, const Token& b) {
  return a.name == b.name && is_same(a.key, b.key);
}

Result<Token> parse_token(std::string_view text) {
  const std::string_view line = trimmed(text);
  const std::size_t dot = line.find('.');
  const std::string_view name = line.substr(0, dot);
  const std::string_view secret =
      dot == std::string_view::npos ? std::string_view() : line.substr(dot + 1);
  const bool is_name = !name.empty() && name.size() <= TOKEN_NAME_BYTES_MAX &&
                       std::all_of(name.begin(), name.end(), is_name_letter);
  if (!is_name || dot == std::string_view::npos)
    return Error{"the token is not `NAME.SECRET`", HINT, Status::invalid};
  if (secret.size() < TOKEN_SECRET_BYTES_MIN || secret.size() > TOKEN_SECRET_BYTES_MAX ||
      !std::all_of(secret.begin(), secret.end(), is_secret_letter)) {
    return Error{"the secret of token `" + std::string(name) + "` is not " +
                     std::to_string(TOKEN_SECRET_BYTES_MIN) + " to " +
                     std::to_string(TOKEN_SECRET_BYTES_MAX) + " letters, digits, `-` and `_`",
                 HINT, Status::invalid};
  }
  return Token{std::string(name), key_of_secret(secret)};
}

TokenKey key_of_secret(std::string_view secret) {
  TokenKey key;
  const wire::View bytes = std::as_bytes(std::span(secret));
  SHA256(octets(bytes.data()), bytes.size(), reinterpret_cast<unsigned char*>(key.data()));
  return key;
}

bool is_same(wire::View a, wire::View b) noexcept {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

// ---- proofs --------------------------------------------------------------------------

void Transcript::add(wire::View table) {
  const auto bytes = static_cast<std::uint32_t>(table.size());
  append(said_, std::as_bytes(std::span(&bytes, 1)));
  append(said_, table);
}

wire::Proof Transcript::prove(const TokenKey& key, Side side, wire::View exporter) const {
  Transcript all;
  const std::string_view label = side == Side::client ? "client" : "server";
  append(all.said_, std::as_bytes(std::span(label)));
  append(all.said_, said_);
  all.add(exporter);
  wire::Proof proof;
  unsigned length = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), octets(all.said_.data()),
       all.said_.size(), reinterpret_cast<unsigned char*>(proof.data()), &length);
  GD2FS_ASSERT(length == proof.size());
  return proof;
}

// ---- where it comes from -------------------------------------------------------------

Result<std::shared_ptr<TokenSource>> TokenSource::of_file(std::string path) {
  auto source = std::make_shared<TokenSource>();
  source->path_ = std::move(path);
  if (Error fault = source->look(); !fault.message.empty()) return fault;
  return source;
}

/// One that cannot be read, or is half-written, changes nothing: the last one may be good still.
Error TokenSource::look() {
  struct stat now {};
  if (stat(path_.c_str(), &now) != 0) return unreadable(path_);
  if (token_ && is_unchanged(now, seen_)) return {};
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path_.c_str(), "re"), std::fclose);
  if (file == nullptr) return unreadable(path_);
  std::array<char, TOKEN_FILE_BYTES_MAX> text;
  const std::size_t bytes = std::fread(text.data(), 1, text.size(), file.get());
  auto token = parse_token(first_line({text.data(), bytes}));
  OPENSSL_cleanse(text.data(), text.size());
  if (!token) return {path_ + ": " + token.error().message, token.error().hint, Status::invalid};
  token_ = std::move(*token);
  seen_ = now;
  return {};
}

std::optional<Token> TokenSource::current() {
  const std::lock_guard lock(mutex_);
  if (!path_.empty()) look();
  return token_;
}

void TokenSource::set(std::optional<Token> token) {
  const std::lock_guard lock(mutex_);
  token_ = std::move(token);
}

}  // namespace gd2fs
