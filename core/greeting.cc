#include "greeting.h"

#include <openssl/rand.h>
#include <unistd.h>

#include <array>

namespace gd2fs::serve {
namespace {

std::string hex(std::span<const std::byte> bytes) {
  constexpr char DIGITS[] = "0123456789abcdef";
  std::string text;
  for (const std::byte each : bytes) {
    const auto value = std::to_integer<unsigned>(each);
    text += DIGITS[value >> 4];
    text += DIGITS[value & 15];
  }
  return text;
}

std::string hex(std::uint32_t value) {
  std::string text = hex(std::as_bytes(std::span(&value, 1)));
  return text;
}

std::string syntax_fault(wire::View table) {
  wire::TableReader reader(table);
  const std::uint32_t magic = reader.u32();
  if (magic != wire::MAGIC) {
    return "this is a GD2FS node: a stream begins with bytes " + hex(wire::MAGIC) + ", not " +
           hex(magic);
  }
  return "the HELLO is malformed: " + std::to_string(table.size()) + " B of table";
}

/// Nothing wrong: an empty string. Else what was expected and what came.
std::string hello_fault(const Node& node, const wire::Hello& hello) {
  if (hello.version_min > wire::VERSION || hello.version_max < wire::VERSION) {
    return "node `" + node.options.name + "` speaks version " + std::to_string(wire::VERSION) +
           ", the other side " + std::to_string(hello.version_min) + " to " +
           std::to_string(hello.version_max) + ": use the same release on both sides";
  }
  if (hello.cluster != node.options.cluster) {
    return "node `" + node.options.name + "` is of cluster `" + node.options.cluster +
           "`, the other side asks for `" + hello.cluster + "`";
  }
  constexpr std::array<std::byte, 16> NO_LIST{};
  if (hello.list_hash != NO_LIST && hello.list_hash != node.options.map.list_hash) {
    return "node `" + node.options.name + "` has node list " + hex(node.options.map.list_hash) +
           ", the other side has " + hex(hello.list_hash) + ": give all nodes the same list";
  }
  return {};
}

wire::Challenge challenge_of(const Node& node) {
  wire::Challenge challenge;
  challenge.node_id = node.id;
  challenge.boot = node.options.boot;
  challenge.map_epoch = node.view()->map.epoch;
  challenge.eager_bytes_max = node.eager_bytes_max();
  challenge.hold_bytes_max = node.hold_budget.stream_bytes_max;
  return challenge;
}

bool draw(std::span<std::byte> nonce) {
  auto* const at = reinterpret_cast<unsigned char*>(nonce.data());  // bytes alias by contract
  return RAND_bytes(at, static_cast<int>(nonce.size())) == 1;
}

}  // namespace

std::optional<Refused> Greeting::take_hello(const Inlet::Frame& frame) {
  if (frame.header.kind != wire::Kind::hello)
    return Refused{Refusal::bad_hello, "a stream begins with HELLO"};
  auto hello = wire::decode_hello(frame.table);
  if (!hello) return Refused{Refusal::bad_hello, syntax_fault(frame.table)};
  if (std::string text = hello_fault(node_, *hello); !text.empty())
    return Refused{Refusal::bad_hello, std::move(text)};
  said_ = std::move(*hello);
  transcript_.add(frame.table);
  return take_token_name();
}

/// A name that is not known goes on until its proof: whoever guesses names hears nothing sooner.
std::optional<Refused> Greeting::take_token_name() {
  const bool is_open = node_.tokens.is_open();
  if (is_open && !said_.token_name.empty()) {
    return Refused{Refusal::unknown_token, "node `" + node_.options.name +
                                               "` has no token, the other side shows one: give "
                                               "the node its token, or connect without"};
  }
  if (!is_open && said_.token_name.empty()) {
    return Refused{Refusal::no_token, "node `" + node_.options.name +
                                          "` wants a token: set `GD2FS_TOKEN_FILE` or "
                                          "`GD2FS_TOKEN`"};
  }
  token_ = node_.tokens.find(said_.token_name);
  return {};
}

std::uint64_t Greeting::arena_rights(const std::optional<local::Peer>& peer) const {
  const bool is_ours = peer && peer->uid == geteuid();
  const bool may_read_all = token_ != nullptr && token_->rights.may_everywhere(Right::read);
  const bool is_shared = node_.options.is_shared && node_.store->arena().is_sealed();
  if (!is_ours || !may_read_all || !is_shared) return 0;
  return said_.capabilities & (wire::SHM | wire::VIEW);
}

std::optional<Refused> Greeting::challenge(wire::Bytes& out, std::uint64_t capabilities) {
  wire::Challenge challenge = challenge_of(node_);
  challenge.capabilities = capabilities;
  if (!draw(challenge.nonce))
    return Refused{Refusal::bad_hello, "this node has no random numbers now"};
  const std::size_t at = out.size();
  wire::encode_challenge(out, challenge);
  transcript_.add(wire::View(out).subspan(at + HEADER_BYTES));
  return {};
}

std::optional<Refused> Greeting::take_proof(const Inlet::Frame& frame, wire::Bytes& out,
                                            wire::View exporter) {
  if (frame.header.kind != wire::Kind::proof)
    return Refused{Refusal::bad_hello, "CHALLENGE is answered with PROOF"};
  const auto proof = wire::decode_proof(frame.table);
  if (!proof) return Refused{Refusal::bad_hello, "the PROOF is malformed"};
  const bool is_known = token_ != nullptr;
  const bool is_open = is_known && token_->token.name.empty();
  // Made for a name that is not known too: it takes as long.
  const TokenKey key = is_known ? token_->token.key : TokenKey{};
  const wire::Proof expected =
      is_open ? wire::Proof{} : transcript_.prove(key, Transcript::Side::client, exporter);
  const bool is_right = is_same(*proof, expected);
  if (!is_right && is_open) {
    return Refused{Refusal::wrong_proof,
                   "this node has no token, yet the PROOF is of one: connect without a token"};
  }
  if (!is_right || !is_known || !node_.tokens.has(*token_)) {
    return Refused{is_known ? Refusal::wrong_proof : Refusal::unknown_token,
                   "token `" + said_.token_name + "` is not one that node `" + node_.options.name +
                       "` knows, or its secret is another one"};
  }
  const bool is_node = said_.stream_class == wire::StreamClass::node;
  if (is_node && !token_->rights.is_cluster()) {
    return Refused{Refusal::wrong_proof,
                   "token `" + said_.token_name + "` is none of a node of this cluster"};
  }
  wire::Welcome welcome{.rights = token_->rights.bits()};
  if (!is_open) welcome.proof = transcript_.prove(key, Transcript::Side::server, exporter);
  wire::encode_welcome(out, welcome);
  return {};
}

}  // namespace gd2fs::serve
