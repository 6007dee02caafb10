#include "sealer.h"

#include <openssl/evp.h>

#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "../limits.h"

namespace gd2fs::bench {
namespace {

constexpr std::size_t RECORD_BYTES = 16 * KiB;
constexpr int RECORDS_PER_LOOK = 64;  // at the clock

using Clock = std::chrono::steady_clock;

/// As a record of TLS is sealed: a nonce, five bytes that are signed besides, a tag.
bool seal(EVP_CIPHER_CTX* cipher, std::array<unsigned char, 12>& nonce, const unsigned char* from,
          unsigned char* into) {
  constexpr unsigned char HEAD[5] = {23, 3, 3, 64, 17};
  unsigned char tag[16];
  int moved = 0;
  ++nonce[11];
  return EVP_EncryptInit_ex(cipher, nullptr, nullptr, nullptr, nonce.data()) == 1 &&
         EVP_EncryptUpdate(cipher, nullptr, &moved, HEAD, sizeof HEAD) == 1 &&
         EVP_EncryptUpdate(cipher, into, &moved, from, static_cast<int>(RECORD_BYTES)) == 1 &&
         EVP_EncryptFinal_ex(cipher, into, &moved) == 1 &&
         EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_GET_TAG, sizeof tag, tag) == 1;
}

}  // namespace

Result<double> seal_rate(const std::string& cipher, double seconds) {
  const std::unique_ptr<EVP_CIPHER, void (*)(EVP_CIPHER*)> kind(
      EVP_CIPHER_fetch(nullptr, cipher.c_str(), nullptr), EVP_CIPHER_free);
  const std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)> context(EVP_CIPHER_CTX_new(),
                                                                           EVP_CIPHER_CTX_free);
  const std::array<unsigned char, 32> key{};
  std::array<unsigned char, 12> nonce{};
  if (kind == nullptr ||
      EVP_EncryptInit_ex(context.get(), kind.get(), nullptr, key.data(), nonce.data()) != 1)
    return Error{"OpenSSL has no cipher `" + cipher + "`", "name one of its AEADs"};
  std::vector<unsigned char> from(RECORD_BYTES, 7), into(RECORD_BYTES + 16);
  const auto start = Clock::now();
  double passed = 0;
  double bytes = 0;
  while (passed < seconds) {
    for (int record = 0; record < RECORDS_PER_LOOK; ++record)
      if (!seal(context.get(), nonce, from.data(), into.data()))
        return Error{"OpenSSL cannot seal with `" + cipher + "`", "name one of its AEADs"};
    bytes += RECORDS_PER_LOOK * static_cast<double>(RECORD_BYTES);
    passed = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return bytes / passed;
}

}  // namespace gd2fs::bench
