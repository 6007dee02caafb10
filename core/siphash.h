// SipHash-2-4: a number for a name, which nobody without the key can work out or lead back.
//
// Aumasson and Bernstein, 2012. Numbers of a checksum's hash would give names away to whoever
// guesses them.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace gd2fs {

using SipKey = std::array<std::uint64_t, 2>;

inline std::uint64_t siphash(const SipKey& key, std::string_view text) noexcept {
  std::uint64_t a = key[0] ^ 0x736f6d6570736575, b = key[1] ^ 0x646f72616e646f6d,
                c = key[0] ^ 0x6c7967656e657261, d = key[1] ^ 0x7465646279746573;
  const auto rounds = [&](int count) {
    for (; count > 0; --count) {
      a += b, b = std::rotl(b, 13) ^ a, a = std::rotl(a, 32);
      c += d, d = std::rotl(d, 16) ^ c;
      a += d, d = std::rotl(d, 21) ^ a;
      c += b, b = std::rotl(b, 17) ^ c, c = std::rotl(c, 32);
    }
  };
  const auto take = [&](std::uint64_t word) {
    d ^= word;
    rounds(2);
    a ^= word;
  };
  std::uint64_t last = static_cast<std::uint64_t>(text.size()) << 56;
  for (; text.size() >= 8; text.remove_prefix(8)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), 8);  // as long as the loop says
    take(word);
  }
  for (std::size_t at = 0; at < text.size(); ++at)
    last |= std::uint64_t{static_cast<unsigned char>(text[at])} << (8 * at);
  take(last);
  c ^= 0xff;
  rounds(4);
  return a ^ b ^ c ^ d;
}

}  // namespace gd2fs
