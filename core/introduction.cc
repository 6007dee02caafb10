#include "introduction.h"

#include <sys/random.h>

#include "assertion.h"

namespace gd2fs {

void Introduction::hello(wire::Bytes& out, wire::Hello said) {
  GD2FS_ASSERT(getrandom(said.nonce.data(), sizeof said.nonce, 0) == sizeof said.nonce);
  if (token_) said.token_name = token_->name;
  const std::size_t at = out.size();
  wire::encode_hello(out, said);
  transcript_.add(wire::View(out).subspan(at + HEADER_BYTES));
}

void Introduction::proof(wire::Bytes& out, wire::View challenge, wire::View exporter) {
  transcript_.add(challenge);
  const auto side = Transcript::Side::client;
  wire::encode_proof(out, token_ ? transcript_.prove(token_->key, side, exporter) : wire::Proof{});
}

bool Introduction::takes_welcome(wire::View table, wire::View exporter) const {
  const auto welcome = wire::decode_welcome(table);
  if (!welcome) return false;
  if (!token_) return true;
  const auto side = Transcript::Side::server;
  return is_same(welcome->proof, transcript_.prove(token_->key, side, exporter));
}

}  // namespace gd2fs
