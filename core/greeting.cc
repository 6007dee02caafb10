#include "greeting.h"

#include <sys/random.h>
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

}  // namespace

std::string hello_syntax_fault(wire::View table) {
  wire::TableReader reader(table);
  const std::uint32_t magic = reader.u32();
  if (magic != wire::MAGIC) {
    return "this is a GD2FS node: a stream begins with bytes " + hex(wire::MAGIC) + ", not " +
           hex(magic);
  }
  return "the HELLO is malformed: " + std::to_string(table.size()) + " B of table";
}

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

std::uint64_t arena_rights(const Node& node, const std::optional<local::Peer>& peer,
                           std::uint64_t wanted) {
  const bool is_ours = peer && peer->uid == geteuid();
  if (!is_ours || !node.options.is_shared || !node.store->arena().is_sealed()) return 0;
  return wanted & (wire::SHM | wire::VIEW);
}

wire::Challenge challenge_of(const Node& node) {
  wire::Challenge challenge;
  challenge.node_id = node.id;
  challenge.boot = node.options.boot;
  challenge.map_epoch = node.view()->map.epoch;
  challenge.capabilities = node.splice_fault.empty() ? wire::SPLICE_HOLDS : 0;
  // Nothing travels before the rule has spoken.
  if (node.judge.is_sitting()) challenge.eager_bytes_max = 0;
  challenge.hold_bytes_max = node.hold_budget.stream_bytes_max;
  // 16 bytes come whole or not at all; without them the nonce is zero, and there is no token to
  // steal.
  static_cast<void>(!getrandom(challenge.nonce.data(), challenge.nonce.size(), 0));
  return challenge;
}

}  // namespace gd2fs::serve
