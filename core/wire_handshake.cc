#include "wire.h"

#include <cassert>
#include <cstring>

namespace gd2fs::wire {

namespace {

constexpr std::size_t GOODBYE_BYTES_MAX = 400;

template <std::size_t N>
std::array<std::byte, N> read_array(TableReader& table) {
  std::array<std::byte, N> value{};
  const View bytes = table.bytes(N);
  if (bytes.size() == N) std::memcpy(value.data(), bytes.data(), N);  // sizes are equal
  return value;
}

}  // namespace

void encode_hello(Bytes& out, const Hello& hello) {
  assert(hello.cluster.size() <= CLUSTER_BYTES_MAX);
  assert(hello.token_name.size() <= TOKEN_NAME_BYTES_MAX);
  FrameWriter frame(out, Kind::hello, 0);
  frame.u32(MAGIC);
  frame.u16(hello.version_min);
  frame.u16(hello.version_max);
  frame.u64(hello.capabilities);
  frame.bytes(hello.client_id);
  frame.bytes(hello.nonce);
  frame.u64(hello.map_epoch);
  frame.bytes(hello.list_hash);
  frame.u8(static_cast<std::uint8_t>(hello.stream_class));
  frame.u8(hello.token_slot);
  frame.u16(static_cast<std::uint16_t>(hello.cluster.size()));
  frame.text(hello.cluster);
  frame.u8(static_cast<std::uint8_t>(hello.token_name.size()));
  frame.text(hello.token_name);
  frame.finish(0, 0, 0);
}

std::optional<Hello> decode_hello(View bytes) {
  if (bytes.size() > HELLO_BYTES_MAX) return {};
  TableReader table(bytes);
  Hello hello;
  if (table.u32() != MAGIC) return {};
  hello.version_min = table.u16();
  hello.version_max = table.u16();
  hello.capabilities = table.u64();
  hello.client_id = read_array<16>(table);
  hello.nonce = read_array<16>(table);
  hello.map_epoch = table.u64();
  hello.list_hash = read_array<16>(table);
  const std::uint8_t stream_class = table.u8();
  hello.token_slot = table.u8();
  const std::uint16_t cluster_bytes = table.u16();
  hello.cluster = table.text(cluster_bytes);
  // A side that knows of no tokens ends here.
  const std::uint8_t token_bytes = table.left() > 0 ? table.u8() : std::uint8_t{0};
  hello.token_name = table.text(token_bytes);
  if (!table.ok() || cluster_bytes > CLUSTER_BYTES_MAX || stream_class > 2) return {};
  if (token_bytes > TOKEN_NAME_BYTES_MAX) return {};
  hello.stream_class = static_cast<StreamClass>(stream_class);
  return hello;
}

void encode_challenge(Bytes& out, const Challenge& challenge) {
  FrameWriter frame(out, Kind::challenge, 0);
  frame.u16(challenge.version);
  frame.u16(0);
  frame.u32(challenge.block_bytes);
  frame.u64(challenge.capabilities);
  frame.bytes(challenge.node_id);
  frame.u64(challenge.boot);
  frame.bytes(challenge.nonce);
  frame.u64(challenge.map_epoch);
  frame.u32(challenge.requests_max);
  frame.u32(challenge.items_max);
  frame.u32(challenge.eager_bytes_max);
  frame.u32(challenge.payload_max);
  frame.u64(challenge.hold_bytes_max);
  frame.u32(challenge.idle_ms);
  frame.u32(challenge.chunk_bytes);
  frame.finish(0, 0, 0);
}

std::optional<Challenge> decode_challenge(View bytes) {
  TableReader table(bytes);
  Challenge challenge;
  challenge.version = table.u16();
  table.u16();
  challenge.block_bytes = table.u32();
  challenge.capabilities = table.u64();
  challenge.node_id = read_array<16>(table);
  challenge.boot = table.u64();
  challenge.nonce = read_array<16>(table);
  challenge.map_epoch = table.u64();
  challenge.requests_max = table.u32();
  challenge.items_max = table.u32();
  challenge.eager_bytes_max = table.u32();
  challenge.payload_max = table.u32();
  challenge.hold_bytes_max = table.u64();
  challenge.idle_ms = table.u32();
  challenge.chunk_bytes = table.u32();
  if (!table.ok()) return {};
  return challenge;
}

void encode_proof(Bytes& out, const Proof& proof) {
  FrameWriter frame(out, Kind::proof, 0);
  frame.bytes(proof);
  frame.finish(0, 0, 0);
}

std::optional<Proof> decode_proof(View bytes) {
  TableReader table(bytes);
  const Proof proof = read_array<32>(table);
  if (!table.ok()) return {};
  return proof;
}

void encode_welcome(Bytes& out, const Welcome& welcome) {
  FrameWriter frame(out, Kind::welcome, 0);
  frame.bytes(welcome.proof);
  frame.u8(welcome.rights);
  frame.finish(0, 0, 0);
}

std::optional<Welcome> decode_welcome(View bytes) {
  TableReader table(bytes);
  Welcome welcome;
  welcome.proof = read_array<32>(table);
  welcome.rights = table.u8();
  if (!table.ok()) return {};
  return welcome;
}

void encode_goodbye(Bytes& out, std::string_view reason, std::uint8_t flags) {
  FrameWriter frame(out, Kind::goodbye, 0, static_cast<std::uint8_t>(LAST | flags));
  frame.text(reason.substr(0, GOODBYE_BYTES_MAX));
  frame.finish(0, 0, 0);
}

std::string decode_goodbye(View bytes) {
  TableReader table(bytes);
  return std::string(table.text(std::min(bytes.size(), GOODBYE_BYTES_MAX)));
}

namespace {

bool is_replicas(std::uint8_t count) { return count >= 1 && count <= REPLICAS_MAX; }

}  // namespace

void encode_map(Bytes& out, std::uint64_t request, const Map& map) {
  assert(map.nodes.size() <= NODES_MAX && map.namespaces.size() <= MAP_NAMESPACES_MAX);
  FrameWriter frame(out, Kind::map, request, request == 0 ? 0 : LAST);
  frame.u64(map.epoch);
  frame.u16(static_cast<std::uint16_t>(map.nodes.size()));
  frame.u8(static_cast<std::uint8_t>(map.provider));
  frame.u8(map.replicas);
  frame.bytes(map.list_hash);
  frame.u32(map.lease_ms);
  frame.u16(static_cast<std::uint16_t>(map.namespaces.size()));
  frame.u16(0);
  for (const MapNode& node : map.nodes) {
    frame.bytes(node.id);
    frame.u64(node.boot);
    frame.u32(node.weight);
    frame.u8(static_cast<std::uint8_t>(node.state));
    frame.u8(static_cast<std::uint8_t>(node.left_by));
    frame.u16(static_cast<std::uint16_t>(node.addresses.size()));
    frame.text(node.addresses);
  }
  for (const NamespaceReplicas& each : map.namespaces) {
    frame.u8(each.replicas);
    frame.u8(static_cast<std::uint8_t>(each.name.size()));
    frame.text(each.name);
  }
  frame.finish(0, 0, 0);
}

std::optional<Map> decode_map(View bytes) {
  TableReader table(bytes);
  Map map;
  map.epoch = table.u64();
  const std::uint16_t nodes = table.u16();
  map.provider = static_cast<Provider>(table.u8());
  map.replicas = table.u8();
  map.list_hash = read_array<16>(table);
  map.lease_ms = table.u32();
  const std::uint16_t namespaces = table.u16();
  table.u16();
  if (!table.ok() || nodes > NODES_MAX || namespaces > MAP_NAMESPACES_MAX) return {};
  if (!is_replicas(map.replicas)) return {};
  for (std::uint16_t index = 0; index < nodes; ++index) {
    MapNode node;
    node.id = read_array<16>(table);
    node.boot = table.u64();
    node.weight = table.u32();
    node.state = static_cast<NodeState>(table.u8());
    node.left_by = static_cast<LeftBy>(table.u8());
    node.addresses = table.text(table.u16());
    if (!table.ok() || node.state > NodeState::gone) return {};
    map.nodes.push_back(std::move(node));
  }
  for (std::uint16_t index = 0; index < namespaces; ++index) {
    NamespaceReplicas each;
    each.replicas = table.u8();
    each.name = table.text(table.u8());
    if (!table.ok() || !is_replicas(each.replicas)) return {};
    map.namespaces.push_back(std::move(each));
  }
  return map;
}

}  // namespace gd2fs::wire
