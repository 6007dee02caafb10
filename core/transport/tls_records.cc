#include "tls_records.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <string_view>

namespace gd2fs::tls {

struct Suite {
  unsigned number;
  const EVP_CIPHER* (*cipher)();
  const EVP_MD* (*hash)();
};

namespace {

constexpr Suite SUITES[] = {{0x1301, EVP_aes_128_gcm, EVP_sha256},
                            {0x1302, EVP_aes_256_gcm, EVP_sha384},
                            {0x1303, EVP_chacha20_poly1305, EVP_sha256}};

unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }  // bytes
const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);  // bytes either way
}

/// HKDF-Expand-Label (RFC 8446, 7.1) of at most one hash, which is one HMAC.
void expand(const Suite& suite, const Secret& secret, std::string_view label,
            std::span<std::byte> out) {
  assert(out.size() <= static_cast<std::size_t>(EVP_MD_get_size(suite.hash())));
  std::vector<unsigned char> text = {static_cast<unsigned char>(out.size() >> 8),
                                     static_cast<unsigned char>(out.size() & 0xff)};
  constexpr std::string_view PREFIX = "tls13 ";
  text.push_back(static_cast<unsigned char>(PREFIX.size() + label.size()));
  text.insert(text.end(), PREFIX.begin(), PREFIX.end());
  text.insert(text.end(), label.begin(), label.end());
  text.push_back(0);  // no context
  text.push_back(1);  // the first block of HKDF-Expand
  unsigned char block[EVP_MAX_MD_SIZE];
  unsigned bytes = 0;
  HMAC(suite.hash(), secret.data(), static_cast<int>(secret.size()), text.data(), text.size(),
       block, &bytes);
  std::memcpy(out.data(), block, out.size());  // at most a hash, as asserted
  OPENSSL_cleanse(block, sizeof block);
}

}  // namespace

const Suite* find_suite(unsigned number) {
  const auto* found = std::find_if(std::begin(SUITES), std::end(SUITES),
                                   [&](const Suite& each) { return each.number == number; });
  return found == std::end(SUITES) ? nullptr : found;
}

// ---- runs ----------------------------------------------------------------------------

Runs::Runs(std::span<const iovec> runs) noexcept : runs_(runs) {
  for (const iovec& run : runs) left_ += run.iov_len;
  skip(0);
}

std::span<std::byte> Runs::front(std::size_t bytes_max) const noexcept {
  if (left_ == 0) return {};
  const iovec& run = runs_.front();
  return {static_cast<std::byte*>(run.iov_base) + at_, std::min(bytes_max, run.iov_len - at_)};
}

void Runs::skip(std::size_t bytes) noexcept {
  left_ -= bytes;
  at_ += bytes;
  while (!runs_.empty() && at_ >= runs_.front().iov_len) {
    at_ -= runs_.front().iov_len;
    runs_ = runs_.subspan(1);
  }
}

// ---- keys ----------------------------------------------------------------------------

Keys::Keys(const Suite& suite, Secret secret, bool is_sealing)
    : suite_(&suite),
      is_sealing_(is_sealing),
      secret_(std::move(secret)),
      cipher_(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free) {
  set();
}

Keys::~Keys() { OPENSSL_cleanse(secret_.data(), secret_.size()); }

void Keys::set() {
  std::array<std::byte, EVP_MAX_KEY_LENGTH> key;
  const EVP_CIPHER* const cipher = suite_->cipher();
  const auto key_bytes = static_cast<std::size_t>(EVP_CIPHER_get_key_length(cipher));
  expand(*suite_, secret_, "key", std::span(key).first(key_bytes));
  expand(*suite_, secret_, "iv", iv_);
  EVP_CipherInit_ex(cipher_.get(), cipher, nullptr, raw(key.data()), nullptr, is_sealing_ ? 1 : 0);
  OPENSSL_cleanse(key.data(), key.size());
  sequence_ = 0;
}

void Keys::renew() {
  Secret next(secret_.size());
  expand(*suite_, secret_, "traffic upd", next);
  secret_.swap(next);
  OPENSSL_cleanse(next.data(), next.size());
  set();
}

/// The nonce is the number of the record over the IV; its head is what is signed besides.
bool Keys::begin(const std::byte* head) {
  std::array<std::byte, 12> nonce = iv_;
  for (std::size_t at = 0; at < 8; ++at)
    nonce[11 - at] ^= static_cast<std::byte>(sequence_ >> (8 * at));
  ++sequence_;
  int none = 0;
  return EVP_CipherInit_ex(cipher_.get(), nullptr, nullptr, nullptr, raw(nonce.data()), -1) == 1 &&
         EVP_CipherUpdate(cipher_.get(), nullptr, &none, raw(head), static_cast<int>(HEAD_BYTES)) ==
             1;
}

std::size_t Keys::seal(Runs& from, std::size_t bytes, Content content, std::byte* out) {
  const std::size_t sealed = bytes + 1 + TAG_BYTES;
  out[0] = static_cast<std::byte>(Content::application);
  out[1] = out[2] = std::byte{3};
  out[3] = static_cast<std::byte>(sealed >> 8);
  out[4] = static_cast<std::byte>(sealed & 0xff);
  bool is_done = begin(out);
  std::byte* at = out + HEAD_BYTES;
  int moved = 0;
  while (bytes > 0) {
    const auto run = from.front(bytes);
    is_done &= EVP_EncryptUpdate(cipher_.get(), raw(at), &moved, raw(run.data()),
                                 static_cast<int>(run.size())) == 1;
    from.skip(run.size());
    at += run.size();
    bytes -= run.size();
  }
  const auto kind = static_cast<unsigned char>(content);
  is_done &= EVP_EncryptUpdate(cipher_.get(), raw(at), &moved, &kind, 1) == 1;
  ++at;
  is_done &= EVP_EncryptFinal_ex(cipher_.get(), raw(at), &moved) == 1;
  is_done &= EVP_CIPHER_CTX_ctrl(cipher_.get(), EVP_CTRL_AEAD_GET_TAG, static_cast<int>(TAG_BYTES),
                                 at) == 1;
  // OpenSSL fails here only without memory: nothing half sealed may leave.
  return is_done ? HEAD_BYTES + sealed : 0;
}

/// Zeros behind the kind: we write none, others may. Only zeros: of kind 0, which is none.
Keys::Opened Keys::unpadded(Runs from, std::size_t bytes) noexcept {
  Opened opened;
  for (std::size_t at = 0; at < bytes;) {
    const auto run = from.front(bytes - at);
    const auto last =
        std::find_if(run.rbegin(), run.rend(), [](std::byte each) { return each != std::byte{0}; });
    const auto before = static_cast<std::size_t>(run.rend() - last);
    if (before > 0) opened = {static_cast<Content>(run[before - 1]), at + before - 1};
    from.skip(run.size());
    at += run.size();
  }
  return opened;
}

std::optional<Keys::Opened> Keys::open(const std::byte* record, std::size_t sealed, Runs into) {
  const std::size_t content = sealed - 1 - TAG_BYTES;
  bool is_right = begin(record);
  const std::byte* at = record + HEAD_BYTES;
  Runs written = into;
  int moved = 0;
  for (std::size_t left = content; left > 0;) {
    const auto run = written.front(left);
    is_right &= EVP_DecryptUpdate(cipher_.get(), raw(run.data()), &moved, raw(at),
                                  static_cast<int>(run.size())) == 1;
    written.skip(run.size());
    at += run.size();
    left -= run.size();
  }
  std::byte kind{};
  is_right &= EVP_DecryptUpdate(cipher_.get(), raw(&kind), &moved, raw(at), 1) == 1;
  auto* const tag = const_cast<std::byte*>(at + 1);  // OpenSSL only reads it
  is_right &= EVP_CIPHER_CTX_ctrl(cipher_.get(), EVP_CTRL_AEAD_SET_TAG, static_cast<int>(TAG_BYTES),
                                  tag) == 1;
  is_right &= EVP_DecryptFinal_ex(cipher_.get(), raw(&kind), &moved) == 1;
  if (!is_right) return {};
  if (kind != std::byte{0}) return Opened{static_cast<Content>(kind), content};
  return unpadded(into, content);
}

}  // namespace gd2fs::tls
