// What two sides say before either knows the other, on arbitrary bytes: nothing of it crashes,
// takes memory that the input does not pay for, or proves anything.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "inlet.h"
#include "introduction.h"
#include "token.h"
#include "wire.h"

namespace {

using namespace gd2fs;
using wire::Bytes;
using wire::View;

void require(bool is_true) {
  if (!is_true) std::abort();
}

Bytes table_of(const Bytes& frame) { return {frame.begin() + HEADER_BYTES, frame.end()}; }

/// What was understood is said again in the same words, but for what an older side leaves out.
void hello_round_trips(View table) {
  const auto hello = wire::decode_hello(table);
  if (!hello) return;
  require(hello->cluster.size() <= CLUSTER_BYTES_MAX);
  require(hello->token_name.size() <= TOKEN_NAME_BYTES_MAX);
  Bytes first, second;
  wire::encode_hello(first, *hello);
  const auto again = wire::decode_hello(table_of(first));
  require(again.has_value());
  wire::encode_hello(second, *again);
  require(first == second);
}

void nothing_is_proven(View said) {
  static const auto source = std::make_shared<TokenSource>(
      Token{"fuzz", key_of_secret("a secret of forty letters, nobody's own")});
  Introduction introduction(source);
  Bytes out;
  introduction.hello(out, wire::Hello{});
  introduction.proof(out, said);
  require(!introduction.takes_welcome(said));
}

/// As a node reads a stranger: piece by piece, a frame of so many bytes at most.
void read_as_stranger(View input) {
  serve::Inlet inlet;
  std::string fault;
  std::size_t at = 0;
  while (at < input.size() && fault.empty()) {
    const iovec room = inlet.room(1 * KiB);
    require(room.iov_len <= HEADER_BYTES + HELLO_BYTES_MAX + 2 * KiB);
    const std::size_t step = 1 + std::to_integer<std::size_t>(input[at]) * 4;
    const std::size_t bytes = std::min({room.iov_len, input.size() - at, step});
    std::memcpy(room.iov_base, input.data() + at, bytes);  // within both
    inlet.filled(bytes);
    at += bytes;
    while (const auto frame = inlet.next(HELLO_BYTES_MAX, fault)) {
      require(frame->table.size() <= HELLO_BYTES_MAX);
      wire::decode_hello(frame->table);
      wire::decode_proof(frame->table);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* at, std::size_t bytes) {
  const View input = std::as_bytes(std::span(at, bytes));
  hello_round_trips(input);
  read_as_stranger(input);
  nothing_is_proven(input);
  wire::decode_challenge(input);
  const std::string_view text(reinterpret_cast<const char*>(at), bytes);  // bytes alias by contract
  auto token = parse_token(text);
  require(!token || token->name.size() <= TOKEN_NAME_BYTES_MAX);
  return 0;
}
