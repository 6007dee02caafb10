// Wire: the frames of protocol version 1, byte for byte.
//
// Little-endian. A stream is one TCP or Unix connection. A frame is a header, a table and a
// payload; the table describes, the payload is bytes of the cache. Lengths are checked before
// anything is allocated. Encoders append to a `Bytes`; decoders read from a span and answer nothing
// when it is malformed: they never read outside it, and they keep no pointers into it but where
// they say so.
//
//   connection  client HELLO, server CHALLENGE, client PROOF, server WELCOME and MAP (request 0)
//   request     client REQUEST (ids rise), server [DATA ...] RESPONSE with LAST
//   write       client REQUEST offer, server GRANT, client DATA ..., server RESPONSE with LAST;
//               with EAGER on the REQUEST, DATA follows at once and no GRANT is sent
//   one-sided   client PEER, server PEER; client KEY ...; REQUEST then names where bytes go,
//               and PLACED that they are there; SOURCE says where the bytes of an offer are
//   malformed   GOODBYE(reason) and close
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "error.h"
#include "limits.h"
#include "wire_frame.h"

namespace gd2fs::wire {

// ---- handshake -----------------------------------------------------------------------

// Capabilities: what a side can do. Unknown bits are ignored. SHM, RDMA, VIEW: wanted in HELLO,
// and granted for this very stream in CHALLENGE.
inline constexpr std::uint64_t SPLICE_HOLDS = 1;  // server: splices. client: says what it has read
inline constexpr std::uint64_t NO_VERIFY = 2;
inline constexpr std::uint64_t SHM = 4;  // reads are answered with LEASE
inline constexpr std::uint64_t RDMA =
    8;  // payload may travel beside the stream, by one-sided transfers
inline constexpr std::uint64_t VIEW = 32;  // ITEM_VIEW

enum class StreamClass : std::uint8_t { small = 0, bulk = 1, node = 2 };

struct Hello {
  std::uint16_t version_min = VERSION;
  std::uint16_t version_max = VERSION;
  std::uint64_t capabilities = 0;
  std::array<std::byte, 16> client_id{};
  std::array<std::byte, 16> nonce{};
  std::uint64_t map_epoch = 0;
  std::array<std::byte, 16> list_hash{};  // zero: no list known yet
  StreamClass stream_class = StreamClass::bulk;
  std::uint8_t token_slot = 0;  // always
  std::string cluster;
  std::string token_name;  // public; empty: none
};

struct Challenge {
  std::uint16_t version = VERSION;
  std::uint32_t block_bytes = BLOCK_BYTES;
  std::uint64_t capabilities = 0;
  std::array<std::byte, 16> node_id{};
  std::uint64_t boot = 0;
  std::array<std::byte, 16> nonce{};
  std::uint64_t map_epoch = 0;
  std::uint32_t requests_max = REQUESTS_MAX;
  std::uint32_t items_max = ITEMS_MAX;
  std::uint32_t eager_bytes_max = EAGER_BYTES_MAX;
  std::uint32_t payload_max = PAYLOAD_BYTES_MAX;
  std::uint64_t hold_bytes_max = 0;
  std::uint32_t idle_ms = IDLE_MS;
  std::uint32_t chunk_bytes = CHUNK_BYTES_DEFAULT;
};

/// HMAC-SHA256 of both sides' first words (token.h). Zero where there is no token: there is no
/// secret to prove.
using Proof = std::array<std::byte, 32>;

struct Welcome {
  Proof proof{};
  std::uint8_t rights = 0xff;  // 1 read, 2 write, 4 admin, 128 in every namespace
};

// Each encode_* writes one whole frame (header and table).
void encode_hello(Bytes& out, const Hello& hello);
void encode_challenge(Bytes& out, const Challenge& challenge);
void encode_proof(Bytes& out, const Proof& proof);
void encode_welcome(Bytes& out, const Welcome& welcome);
/// `reason`: one line, at most 400 bytes. `flags`: MORE when the same may work later, as it is.
void encode_goodbye(Bytes& out, std::string_view reason, std::uint8_t flags = 0);
std::optional<Hello> decode_hello(View table);
std::optional<Challenge> decode_challenge(View table);
std::optional<Proof> decode_proof(View table);
std::optional<Welcome> decode_welcome(View table);
std::string decode_goodbye(View table);

// ---- map -----------------------------------------------------------------------------

/// joining: its weight grows. draining: owns nothing new, and hands over what it has. gone: named
/// only in the first map without it.
enum class NodeState : std::uint8_t { joining = 0, active = 1, draining = 2, gone = 3 };
/// lease_expired: it answers about no record any more. taken_out: it may still believe that it is
/// a member.
enum class LeftBy : std::uint8_t { nothing = 0, lease_expired = 1, taken_out = 2 };
enum class Provider : std::uint8_t { fixed = 0, etcd = 1, kubernetes = 2 };

struct MapNode {
  std::array<std::byte, 16> id{};  // XXH3-128 of the name
  std::uint64_t boot = 0;          // 0: not known
  std::uint32_t weight = 1;
  NodeState state = NodeState::active;
  LeftBy left_by = LeftBy::nothing;
  std::string addresses;  // NAME=ADDR:PORT[+ADDR:PORT...]
};

/// How many copies a namespace has, other than the others.
struct NamespaceReplicas {
  std::string name;
  std::uint8_t replicas = 1;
};

/// Who belongs to the cluster, for as long as nothing changes. Epochs grow; their numbers may have
/// gaps between them.
struct Map {
  std::uint64_t epoch = 0;
  Provider provider = Provider::fixed;
  std::uint8_t replicas = 1;  // of every namespace that is not named below, 1 to REPLICAS_MAX
  std::array<std::byte, 16> list_hash{};
  std::uint32_t lease_ms = 0;  // of a membership; 0: there are no leases
  std::vector<MapNode> nodes;
  std::vector<NamespaceReplicas> namespaces;
};

void encode_map(Bytes& out, std::uint64_t request, const Map& map);
std::optional<Map> decode_map(View table);

// ---- requests ------------------------------------------------------------------------

enum class Op : std::uint8_t {
  exists = 1,
  get = 2,
  read = 3,
  meta = 4,
  offer = 5,
  create = 6,
  commit = 7,
  publish = 8,
  truncate = 9,
  unlink = 10,
  drop = 11,
  list = 12,
  advise = 13,
  ping = 14,
  drain = 15,      // this node shall hand over what it has, and leave
  sync = 16,       // is it where it outlives this node's process? If it can be: it shall be
  why = 20,        // what became of a page or a file
  configure = 21,  // what the node is set to: shown, or changed
  forget = 22,     // what is staged under this tag: its writer will never commit it
  replicate = 64,
  pull = 65,
  epoch = 66,
  is_listed = 67,
  move = 68,  // between nodes only
};

// Item flags.
inline constexpr std::uint16_t ITEM_PAGE = 1;
inline constexpr std::uint16_t ITEM_NO_VERIFY = 2;
inline constexpr std::uint16_t ITEM_VIEW = 4;
inline constexpr std::uint16_t ITEM_PIN = 8;
inline constexpr std::uint16_t ITEM_PROBE = 16;  // no LRU touch
inline constexpr std::uint16_t ITEM_IF_ABSENT = 32;
inline constexpr std::uint16_t ITEM_REPLACE = 128;  // COMMIT: the file becomes just this write
inline constexpr std::uint16_t ITEM_RANGE =
    256;  // GET: what the page has of these bytes, perhaps none
inline constexpr std::uint16_t ITEM_NAMESPACE = 64;   // DROP, LIST: the name is a whole namespace
inline constexpr std::uint16_t ITEM_REPLICAS = 512;   // CREATE: of a file that is there, only these
inline constexpr std::uint16_t ITEM_SHORT = 512;      // OFFER: an owner was passed over
inline constexpr std::uint16_t ITEM_DONTNEED = 1024;  // ADVISE: the copy here may go
// ADVISE: this range shall be in memory here; with ITEM_DONTNEED: out of it. ITEM_PIN: it shall be
// there, and stay; with ITEM_DONTNEED: it need not stay.
inline constexpr std::uint16_t ITEM_MEMORY = 2048;

// OFFER: the class of eviction that its writer wants, and one: in the four highest bits. 0: as the
// namespace has.
inline constexpr unsigned ITEM_CLASS_SHIFT = 12;
inline constexpr std::uint16_t class_flags(std::uint8_t eviction_class) noexcept {
  if (eviction_class >= EVICTION_CLASSES) return 0;
  return static_cast<std::uint16_t>((eviction_class + 1u) << ITEM_CLASS_SHIFT);
}
inline constexpr std::uint8_t class_of(std::uint16_t flags) noexcept {
  const unsigned number = flags >> ITEM_CLASS_SHIFT;
  const bool is_given = number >= 1 && number <= EVICTION_CLASSES;
  return static_cast<std::uint8_t>(is_given ? number - 1 : EVICTION_CLASSES);
}

/// The name of an item: a copy of its own, or a view of memory that outlives the item.
class Name {
 public:
  Name() = default;
  Name(std::string_view text);
  Name(const std::string& text) : Name(std::string_view(text)) {}
  Name(const char* text) : Name(std::string_view(text)) {}
  Name(const Name& other);
  Name(Name&& other) noexcept = default;
  Name& operator=(const Name& other) { return *this = Name(other); }
  Name& operator=(Name&& other) noexcept = default;
  /// Not a copy: `text` outlives the name and all its copies.
  static Name borrowed(std::string_view text) noexcept;

  operator std::string_view() const noexcept { return text_; }
  std::size_t size() const noexcept { return text_.size(); }
  bool empty() const noexcept { return text_.empty(); }
  friend bool operator==(const Name& name, std::string_view text) { return name.text_ == text; }

 private:
  std::string_view text_;
  std::unique_ptr<char[]> own_;
};

inline constexpr std::uint8_t PRIORITY_MOVE = 1;  // OFFER: from where else it is kept

/// The sink of an OFFER: how many copies there shall be in the low byte; above, with PRIORITY_MOVE,
/// how long the piece has not been used, in steps of IDLE_STEP_MS.
inline constexpr std::uint64_t IDLE_STEP_MS = 16;
inline constexpr std::uint32_t offer_sink(std::uint8_t replicas, std::uint64_t idle_ms) noexcept {
  const std::uint64_t steps = (idle_ms + IDLE_STEP_MS - 1) / IDLE_STEP_MS;
  return replicas | static_cast<std::uint32_t>(steps < 0xff'ffff ? steps : 0xff'ffff) << 8;
}

struct RequestHead {
  Op op = Op::ping;
  std::uint8_t priority = 0;
  std::uint32_t deadline_ms = 0;  // remaining; 0: none
  std::uint64_t map_epoch = 0;
  std::uint64_t trace = 0;
};

/// One item of any request. Which fields travel depends on the op (`item_bytes`):
/// LIST: item 0 names the prefix or the namespace, an item 1 the name after which to go on.
///   8 B   EXISTS DROP LIST UNLINK PING DRAIN WHY CONFIGURE REPLICATE   name, flags
///         WHY, CONFIGURE: one item. CONFIGURE: the name is JSON; its keys: docs/reference/
///         configuration.md.
///   48 B  GET READ OFFER META CREATE PUBLISH IS_LISTED ADVISE PULL EPOCH
///         chunk, offset, length, tag, sink, ttl_s. META: offset and length name the range whose
///         segments are wanted. CREATE: length = chunk bytes, sink = replicas; with
///         ITEM_REPLICAS tag = gen, 0: whichever. PUBLISH: offset = seq of the commit.
///         GET, READ: offset in the piece or chunk, length = most bytes wanted.
///         ADVISE: the pieces of that tag (0: all) that touch the range (length 0: the whole chunk)
///         shall have `sink` copies; with ITEM_DONTNEED: one less. ITEM_MEMORY, ITEM_PIN: likewise
///         of what is in memory, and of exactly this range.
///         OFFER: where in the chunk, sink = replicas (offer_sink). Replicas: copies that there
///         shall be, 0: as the namespace has.
///         PULL, EPOCH: tag = boot of the node that is meant, 0: any; PULL: offset = how many of
///         the record's ranges are known already. EPOCH: the name, of a list's node, says that this
///         one has begun anew; offset = its boot.
///   64 B  COMMIT TRUNCATE   gen, seen_seq, tag, offset, length, if_size, ttl_s. TRUNCATE: length =
///         the new size. COMMIT with ITEM_REPLACE: gen 0: whatever is there; if_size = chunk
///         bytes, offset = replicas, and the length may be 0.
struct Item {
  Name name;  // a path, or `namespace NUL key` with ITEM_PAGE
  std::uint16_t flags = 0;
  std::uint64_t chunk = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t tag = 0;  // 0: the latest
  std::uint32_t sink = 0;
  std::uint32_t ttl_s = 0;  // 0: none
  std::uint64_t gen = 0;
  std::uint64_t seen_seq = 0;
  std::uint64_t if_size = ~std::uint64_t{0};
};

/// Memory of the client, as the node reaches it: within a registration that a KEY has named.
struct Sink {
  std::uint32_t key = 0;
  std::uint32_t length = 0;
  std::uint64_t at = 0;  // in the client's process
};

struct Request {
  RequestHead head;
  std::vector<Item> items;
  std::shared_ptr<const char[]> names{};  // what borrowed names of the items lie in; or nothing
  Bytes body{};  // REPLICATE: a part of an attempt (record_parts.h). OFFER: the caller's tags
  // GET, READ: where the bytes go, in order, together as long as the items; nothing: on the stream.
  std::vector<Sink> sinks{};
};

/// 8, 48 or 64; 0 for an unknown op.
std::size_t item_bytes(Op op) noexcept;
inline constexpr std::size_t SINK_BYTES = 16;
/// How many table bytes a request of this shape takes (equal neighbouring names are not shared).
std::size_t request_table_bytes(Op op, std::size_t items, std::size_t names_bytes) noexcept;
/// One REQUEST frame. The caller keeps within ITEMS_MAX and TABLE_BYTES_MAX (asserted).
void encode_request(Bytes& out, std::uint64_t request, std::uint8_t flags, const Request& body);
/// `items` comes from the frame's header. Nothing when malformed. An unknown op answers a Request
/// without items.
std::optional<Request> decode_request(View table, std::uint16_t items);

// ---- responses -----------------------------------------------------------------------

/// CREATE, META, COMMIT, TRUNCATE answer gen, seq, length = the file's size, detail = its chunk
/// bytes (retry_ms with RETRY); META: tier 1 = more segments follow, ask again after the last one.
/// META of no file, CONFLICT of a COMMIT with ITEM_REPLACE: gen and seq to base a new one on.
/// EPOCH: seq = the node's epoch, length = how many ms it waits for others. PULL: seq 1: parts
/// follow. REPLICATE: ok, have (this part, go on), miss (send all of it), retry (not yet), or why
/// not.
/// GET: length = the whole page's length, gen = its tag. DROP: length = how many were there.
/// ADVISE: length = the bytes that are where they shall be, or were dropped; have: this node is an
/// owner and keeps them.
struct ResponseItem {
  std::uint16_t item = 0;
  Status status = Status::ok;
  std::uint8_t tier = 0;     // 0 memory
  std::uint32_t detail = 0;  // retry_ms, errno; LIST: 1 when more entries follow
  std::uint64_t length = 0;
  std::uint64_t gen = 0;  // or tag
  std::uint64_t seq = 0;
};

/// A range of one chunk and the tag of the write that filled it. A segment may be a part of its
/// piece.
struct Segment {
  std::uint64_t chunk = 0;
  std::uint32_t offset = 0;  // in the chunk
  std::uint32_t length = 0;
  std::uint64_t tag = 0;
  std::uint64_t seq = 0;
};

struct MetaBody {
  std::uint64_t size = 0;
  std::uint32_t ttl_s = 0;
  std::uint32_t replicas = 0;  // of the file's pieces; 0: as its namespace has
  std::vector<Segment> segments;
};

struct ListEntry {
  std::string name;  // a path, or a key when pages are listed
  std::uint64_t bytes = 0;
};

/// What PING answers: how this node is.
struct NodeStatus {
  std::uint64_t boot = 0;
  std::uint64_t epoch = 0;
  std::uint64_t arena_bytes = 0;
  std::uint64_t arena_free_bytes = 0;
  NodeState state = NodeState::active;
  std::string name;
  std::string rung;
  std::string zero_copy;         // "on", or "off: " and why
  bool is_sealed = false;        // readers on its host may map its arena
  std::uint64_t moves_left = 0;  // pieces that are yet to be looked at, or to go elsewhere
  std::uint64_t moves_left_bytes = 0;
  std::uint64_t records_left = 0;     // records of files likewise
  std::uint64_t disk_bytes = 0;       // that it may take of its disks; 0: it has no such tier
  std::uint64_t disk_live_bytes = 0;  // of what can be read there
  std::uint64_t cold_bytes = 0;       // of these, what is not in memory
  std::string disk_fault;             // what is wrong with the disks; empty: nothing
  std::string transport;              // not on the wire: how the client that asked reaches it
  std::string fault;                  // not on the wire: why it did not answer
};

/// RESPONSE frames: the response items, then what the op adds:
///   META    per item, in order: u64 size | u32 segments | u32 ttl_s | u32 replicas | u32 0 |
///   segments of 32 B
///   WHY, CONFIGURE   one response item, then JSON
///   EXISTS  one response item (length = count of bits), then the bits, item i in bit i % 8 of byte
///   i / 8 LIST    one response item (length = count), then per entry: u64 bytes | u16 name_bytes |
///   name PING    one response item, then NodeStatus
void encode_response(Bytes& out, std::uint64_t request, std::span<const ResponseItem> items,
                     std::uint8_t flags = LAST);
void encode_meta_response(Bytes& out, std::uint64_t request, std::span<const ResponseItem> items,
                          std::span<const MetaBody> bodies);
void encode_exists_response(Bytes& out, std::uint64_t request, const std::vector<bool>& present);
void encode_list_response(Bytes& out, std::uint64_t request, std::span<const ListEntry> entries,
                          bool more);
/// `part`: of a record (record_parts.h), behind the item.
void encode_pull_response(Bytes& out, std::uint64_t request, const ResponseItem& item, View part);
/// `text`: what WHY and CONFIGURE answer, behind the item.
void encode_text_response(Bytes& out, std::uint64_t request, const ResponseItem& item,
                          std::string_view text);
void encode_ping_response(Bytes& out, std::uint64_t request, const NodeStatus& status);

std::optional<std::vector<ResponseItem>> decode_response(TableReader& table, std::uint16_t items);
std::optional<MetaBody> decode_meta_body(TableReader& table);
std::optional<std::vector<bool>> decode_exists_body(TableReader& table, std::uint64_t count);
std::optional<std::vector<ListEntry>> decode_list_body(TableReader& table, std::uint64_t count);
std::optional<NodeStatus> decode_ping_body(TableReader& table);

// ---- bytes ---------------------------------------------------------------------------

/// A run of an item's bytes in a DATA frame. Its blocks are counted from its own first byte, the
/// last may be short: hashes == blocks_of(length). A sender starts a new piece where the stored
/// grid demands it (after an edge block).
struct DataPiece {
  std::uint16_t item = 0;
  std::uint16_t hashes = 0;  // 0: not summed (NO_VERIFY)
  std::uint32_t length = 0;
  std::uint64_t offset = 0;  // in the item
  std::uint64_t tag = 0;
};

struct DataTable {
  std::vector<DataPiece> pieces;
  std::vector<std::uint64_t> hashes;  // of all pieces, in order
};

inline constexpr std::size_t blocks_of(std::uint64_t bytes) noexcept {
  return static_cast<std::size_t>((bytes + BLOCK_BYTES - 1) / BLOCK_BYTES);
}

/// Header and table of a DATA frame; the payload follows on the socket.
void encode_data(Bytes& out, std::uint64_t request, std::uint8_t flags, const DataTable& table,
                 std::uint64_t consumed);
/// Into a table that is used again and again. False, unless hashes and lengths add up to the table
/// and to `payload_bytes`; then `out` means nothing.
bool decode_data(View table, std::uint16_t items, std::size_t payload_bytes, DataTable& out);
std::optional<DataTable> decode_data(View table, std::uint16_t items, std::size_t payload_bytes);

/// Where payload lies in the arena, which the reader has mapped.
struct LeaseRun {
  std::uint64_t at = 0;  // in the arena
  std::uint64_t length = 0;
};

/// Bytes of a read that the reader takes out of the arena itself.
struct Lease {
  /// 0: they count as payload of the stream, and stay in place until the reader has counted them
  /// as consumed. Else they stay until RELEASE names this number.
  std::uint64_t id = 0;
  DataTable data;
  std::vector<LeaseRun> runs;  // together as long as the pieces
};

/// One LEASE frame. It has no payload on the socket.
void encode_lease(Bytes& out, std::uint64_t request, const Lease& lease, std::uint64_t consumed);
/// Nothing unless hashes and runs fill the table, and every run lies within `arena_bytes`.
std::optional<Lease> decode_lease(View table, std::uint16_t items, std::uint64_t arena_bytes);

/// The LEASE frame of request 0, whose first byte carries the arena's descriptor.
void encode_arena(Bytes& out, std::uint64_t arena_bytes);
std::optional<std::uint64_t> decode_arena(View table, std::uint16_t items);

void encode_release(Bytes& out, std::span<const std::uint64_t> leases, std::uint64_t consumed);
std::optional<std::vector<std::uint64_t>> decode_release(View table);

// ---- one-sided transfers -------------------------------------------------------------

/// PEER: a client's worker address; answered by why the node does not reach it, or nothing.
void encode_peer(Bytes& out, View address);
void encode_peer_answer(Bytes& out, std::string_view reason);
/// Of either. Nothing when it is too long.
std::optional<View> decode_peer(View table);

/// KEY: memory that the client has registered, for requests that follow. `packed` empty: it is
/// named no more.
struct Key {
  std::uint32_t number = 0;
  std::uint64_t at = 0, length = 0;
  Bytes packed{};
};
void encode_key(Bytes& out, const Key& key);
std::optional<Key> decode_key(View table);

/// PLACED: these pieces are in the client's memory. The table of a DATA frame, without payload.
void encode_placed(Bytes& out, std::uint64_t request, const DataTable& table);
std::optional<DataTable> decode_placed(View table, std::uint16_t items);

/// SOURCE: the node shall take these pieces of an offer out of the client's memory.
struct Source {
  DataTable data;
  std::vector<Sink> sinks;  // together as long as the pieces
};
void encode_source(Bytes& out, std::uint64_t request, const Source& source, std::uint64_t consumed);
std::optional<Source> decode_source(View table, std::uint16_t items);

struct Grant {
  std::uint16_t item = 0;
  Status status = Status::ok;  // ok, have, full, retry
  std::uint32_t retry_ms = 0;
  std::uint64_t length = 0;
};

void encode_grant(Bytes& out, std::uint64_t request, std::span<const Grant> grants);
std::optional<std::vector<Grant>> decode_grant(View table, std::uint16_t items);

void encode_ack(Bytes& out, Kind kind, std::uint64_t request, std::uint64_t consumed,
                std::uint8_t flags = 0);  // ack, acked, cancel

}  // namespace gd2fs::wire
