// Refusal: why a stream did not get so far that it could ask anything. Each is counted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gd2fs {

enum class Refusal : std::uint8_t {
  bad_hello,        // no HELLO, or one that does not fit this node
  no_token,         // the node wants one
  unknown_token,    // of a name that the node does not know
  wrong_proof,      // the secret is not the one of that name, or the proof is of another stream
  timeout,          // it has not proven itself in time
  too_many,         // of its source, or of all, are not proven yet; or the node is full
  rate,             // too many of its source came to nothing lately
  left,             // it went before it had proven itself
  tls_required,     // it speaks no TLS, and this node nothing else
  tls_handshake,    // TLS came to nothing
  tls_certificate,  // one side does not take the other's
};

inline constexpr std::array<std::string_view, 11> REFUSALS{
    "bad_hello", "no_token", "unknown_token", "wrong_proof",   "timeout",        "too_many",
    "rate",      "left",     "tls_required",  "tls_handshake", "tls_certificate"};

constexpr std::string_view refusal_name(Refusal refusal) noexcept {
  return REFUSALS[static_cast<std::size_t>(refusal)];
}

}  // namespace gd2fs
