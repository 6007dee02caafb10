#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cstring>
#include <random>

#include "name.h"
#include "wire.h"

using namespace gd2fs;
using namespace gd2fs::wire;

namespace {

View table_of(const Bytes& frame) {
  return View(frame).subspan(HEADER_BYTES, decode_header(frame)->table_bytes);
}

Header header_of(const Bytes& frame) { return *decode_header(frame); }

Request commit_request() {
  Request request{.head = {.op = Op::commit, .deadline_ms = 250, .map_epoch = 7, .trace = 9},
                  .items = {}};
  request.items.push_back(Item{.name = "/ns/a", .offset = 5, .length = 6, .gen = 1, .seen_seq = 2});
  request.items.push_back(Item{.name = "/ns/b", .tag = 44, .if_size = 3});
  return request;
}

}  // namespace

TEST_CASE("a frame carries its lengths and a check over header and table") {
  Bytes frame;
  encode_goodbye(frame, "wrong cluster");

  CHECK(header_of(frame).kind == Kind::goodbye);
  CHECK(check_matches(View(frame).first(HEADER_BYTES), table_of(frame)));
  CHECK(decode_goodbye(table_of(frame)) == "wrong cluster");
}

TEST_CASE("any flipped bit of header or table breaks the check") {
  Bytes frame;
  encode_request(frame, 77, EAGER, commit_request());

  for (std::size_t bit = 0; bit < frame.size() * 8; ++bit) {
    Bytes changed = frame;
    changed[bit / 8] ^= std::byte(1u << bit % 8);
    CHECK_FALSE(
        check_matches(View(changed).first(HEADER_BYTES), View(changed).subspan(HEADER_BYTES)));
  }
}

TEST_CASE("lengths over the limits are refused before anything is read") {
  Bytes frame;
  encode_ack(frame, Kind::ack, 1, 2);
  const std::uint32_t too_long = FRAME_BYTES_MAX + 1;
  std::memcpy(frame.data(), &too_long, sizeof too_long);  // the header's first field

  CHECK_FALSE(decode_header(frame));
}

TEST_CASE("payload is only allowed behind DATA") {
  Bytes frame;
  encode_ack(frame, Kind::ack, 1, 2);
  frame[0] = std::byte{1};

  CHECK_FALSE(decode_header(frame));
}

TEST_CASE("a request comes back as it was sent") {
  Bytes frame;
  encode_request(frame, 77, EAGER, commit_request());

  const auto request = decode_request(table_of(frame), header_of(frame).items);
  REQUIRE(request);
  CHECK(request->head.op == Op::commit);
  CHECK(request->head.deadline_ms == 250);
  REQUIRE(request->items.size() == 2);
  CHECK(request->items[0].name == "/ns/a");
  CHECK(request->items[0].seen_seq == 2);
  CHECK(request->items[1].name == "/ns/b");
  CHECK(request->items[1].if_size == 3);
}

TEST_CASE("an offer carries its writer's tags and classes, and no more tags than there may be") {
  wire::Request request;
  request.head.op = wire::Op::offer;
  request.items.resize(2);
  request.items[0].name = "/ns/a";
  request.items[0].flags = wire::class_flags(7) | wire::ITEM_NO_VERIFY;
  request.items[1].name = "/ns/b";
  request.body.assign(TAGS_BYTES_MAX, std::byte{'t'});
  wire::Bytes frame;
  wire::encode_request(frame, 1, 0, request);
  const auto table = std::span<const std::byte>(frame).subspan(HEADER_BYTES);

  const auto decoded = wire::decode_request(table, 2);

  REQUIRE(decoded);
  CHECK(wire::class_of(decoded->items[0].flags) == 7);
  CHECK((decoded->items[0].flags & wire::ITEM_NO_VERIFY) != 0);
  CHECK(wire::class_of(decoded->items[1].flags) == EVICTION_CLASSES);
  CHECK(decoded->body == request.body);

  wire::Bytes longer(table.begin(), table.end());
  longer.push_back(std::byte{'t'});
  const std::uint32_t tags_bytes = TAGS_BYTES_MAX + 1;
  std::memcpy(longer.data() + 20, &tags_bytes, sizeof tags_bytes);
  CHECK_FALSE(wire::decode_request(longer, 2));
}

TEST_CASE("an unknown op decodes to a request without items, to be answered INVALID") {
  Bytes frame;
  encode_request(frame, 1, 0, Request{.head = {.op = static_cast<Op>(200)}, .items = {}});

  const auto request = decode_request(table_of(frame), 0);
  REQUIRE(request);
  CHECK(request->items.empty());
}

TEST_CASE("a HELLO names a token, or none, or is of a side that knows of none") {
  Bytes frame;
  encode_hello(frame, Hello{.cluster = "c0", .token_name = "main-1"});
  const auto with = decode_hello(table_of(frame));
  REQUIRE(with);
  CHECK(with->token_name == "main-1");

  frame.clear();
  encode_hello(frame, Hello{.cluster = "c0", .token_name = ""});
  const auto without = decode_hello(table_of(frame));
  REQUIRE(without);
  CHECK(without->token_name.empty());
  const View older = table_of(frame).first(table_of(frame).size() - 1);
  REQUIRE(decode_hello(older));
  CHECK(decode_hello(older)->cluster == "c0");

  Bytes cut(older.begin(), older.end());
  cut.push_back(std::byte{5});
  CHECK(!decode_hello(cut));
  cut.back() = std::byte{33};
  cut.resize(cut.size() + 33, std::byte{'x'});
  CHECK(!decode_hello(cut));
}

TEST_CASE("hello and challenge come back as they were sent") {
  Bytes frame;
  Hello said;
  said.stream_class = StreamClass::node;
  said.cluster = "c0";
  encode_hello(frame, said);
  const auto hello = decode_hello(table_of(frame));
  REQUIRE(hello);
  CHECK(hello->cluster == "c0");
  CHECK(hello->stream_class == StreamClass::node);

  Bytes answer;
  encode_challenge(answer, Challenge{.boot = 12, .chunk_bytes = 65536});
  const auto challenge = decode_challenge(table_of(answer));
  REQUIRE(challenge);
  CHECK(challenge->boot == 12);
  CHECK(challenge->chunk_bytes == 65536);
}

TEST_CASE("a map comes back as it was sent") {
  Map map;
  map.epoch = 5;
  map.provider = Provider::etcd;
  map.replicas = 2;
  map.lease_ms = 5000;
  map.namespaces.push_back({"kv", 3});
  map.nodes.push_back(MapNode{.boot = 9, .weight = 3, .addresses = "n0=127.0.0.1:1+127.0.0.2:1"});
  map.nodes[0].state = NodeState::gone;
  map.nodes[0].left_by = LeftBy::taken_out;
  Bytes frame;
  encode_map(frame, 0, map);

  const auto back = decode_map(table_of(frame));
  REQUIRE(back);
  REQUIRE(back->nodes.size() == 1);
  CHECK(back->nodes[0].addresses == map.nodes[0].addresses);
  CHECK(back->nodes[0].weight == 3);
  CHECK(back->nodes[0].state == NodeState::gone);
  CHECK(back->nodes[0].left_by == LeftBy::taken_out);
  CHECK(back->provider == Provider::etcd);
  CHECK(back->replicas == 2);
  CHECK(back->lease_ms == 5000);
  REQUIRE(back->namespaces.size() == 1);
  CHECK(back->namespaces[0].name == "kv");
  CHECK(back->namespaces[0].replicas == 3);
}

TEST_CASE("a map with no copies, or more than there may be, is no map") {
  for (const std::uint8_t replicas : {std::uint8_t{0}, std::uint8_t{REPLICAS_MAX + 1}}) {
    Map map;
    map.replicas = replicas;
    Bytes frame;
    encode_map(frame, 0, map);
    CHECK_FALSE(decode_map(table_of(frame)));

    Map other;
    other.namespaces.push_back({"kv", replicas});
    Bytes second;
    encode_map(second, 0, other);
    CHECK_FALSE(decode_map(table_of(second)));
  }
}

TEST_CASE("existence travels as one bit an item") {
  const std::vector<bool> present{true, false, true, true, false, false, true, false, true};
  Bytes frame;
  encode_exists_response(frame, 3, present);

  TableReader table(table_of(frame));
  const auto heads = decode_response(table, header_of(frame).items);
  REQUIRE(heads);
  CHECK(*decode_exists_body(table, heads->front().length) == present);
}

TEST_CASE("a DATA table must add up to its payload") {
  const DataTable table{
      .pieces = {DataPiece{.item = 1, .hashes = 2, .length = 65537, .offset = 4, .tag = 8}},
      .hashes = {11, 12}};
  Bytes frame;
  encode_data(frame, 9, 0, table, 100);

  CHECK(header_of(frame).payload_bytes() == 65537);
  REQUIRE(decode_data(table_of(frame), 1, 65537));
  CHECK(decode_data(table_of(frame), 1, 65537)->hashes == table.hashes);
  CHECK_FALSE(decode_data(table_of(frame), 1, 65536));
}

TEST_CASE("a read names the memory that its bytes go to, all of it and no more") {
  Request body;
  body.head.op = Op::read;
  body.items = {{.name = "/ns/a", .length = 100}, {.name = "/ns/b", .length = 50}};
  body.sinks = {{.key = 3, .length = 120, .at = 4096}, {.key = 4, .length = 30, .at = 1}};
  Bytes frame;
  encode_request(frame, 1, 0, body);

  const auto got = decode_request(table_of(frame), header_of(frame).items);
  REQUIRE(got);
  REQUIRE(got->sinks.size() == 2);
  CHECK(got->sinks[0].key == 3);
  CHECK(got->sinks[0].length == 120);
  CHECK(got->sinks[1].at == 1);
  CHECK(got->items[1].name == "/ns/b");

  for (const std::uint32_t wrong : {29u, 31u, 0u}) {
    body.sinks[1].length = wrong;
    Bytes other;
    encode_request(other, 1, 0, body);
    CHECK_FALSE(decode_request(table_of(other), header_of(other).items));
  }
}

TEST_CASE("lengths of items that wrap are no length for sinks") {
  Request body;
  body.head.op = Op::get;
  body.items = {{.name = "a", .length = ~std::uint64_t{0}}, {.name = "b", .length = 11}};
  body.sinks = {{.key = 1, .length = 10, .at = 0}};
  Bytes frame;
  encode_request(frame, 1, 0, body);

  CHECK_FALSE(decode_request(table_of(frame), header_of(frame).items));
}

TEST_CASE("a source has sinks as long as its pieces") {
  Source source{.data = {.pieces = {{.item = 2, .hashes = 2, .length = 65537, .offset = 65536}},
                         .hashes = {11, 12}},
                .sinks = {{.key = 9, .length = 65000, .at = 77}, {.key = 9, .length = 537}}};
  Bytes frame;
  encode_source(frame, 5, source, 100);

  CHECK(header_of(frame).consumed == 100);
  const auto got = decode_source(table_of(frame), header_of(frame).items);
  REQUIRE(got);
  CHECK(got->data.hashes == source.data.hashes);
  CHECK(got->sinks[0].at == 77);
  CHECK(got->sinks[1].length == 537);
  CHECK_FALSE(decode_source(table_of(frame), 0));
  source.sinks.pop_back();
  Bytes other;
  encode_source(other, 5, source, 100);
  CHECK_FALSE(decode_source(table_of(other), header_of(other).items));
}

TEST_CASE("a key names memory that does not wrap, and forgets it without bytes") {
  Bytes frame;
  encode_key(frame, {.number = 7, .at = 4096, .length = 8192, .packed = Bytes(5, std::byte{1})});
  const auto key = decode_key(table_of(frame));
  REQUIRE(key);
  CHECK(key->number == 7);
  CHECK(key->length == 8192);
  CHECK(key->packed.size() == 5);

  Bytes wrapping, none;
  encode_key(wrapping, {.number = 7, .at = ~std::uint64_t{0}, .length = 2});
  CHECK_FALSE(decode_key(table_of(wrapping)));
  encode_key(none, {.number = 7});
  CHECK(decode_key(table_of(none))->packed.empty());
}

TEST_CASE("random tables never decode outside their bytes") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20'000; ++round) {
    Bytes bytes(random() % 300);
    for (std::byte& byte : bytes) byte = std::byte(random() % 4 == 0 ? random() : 0);
    const auto items = static_cast<std::uint16_t>(random() % 8);
    TableReader table(bytes);
    CHECK((decode_response(table, items) || bytes.size() < items * 32u));
    decode_map(bytes), decode_request(bytes, items), decode_data(bytes, items, random() % 70'000);
    decode_hello(bytes), decode_grant(bytes, items);
    decode_key(bytes), decode_placed(bytes, items), decode_source(bytes, items);
  }
}

TEST_CASE("paths keep to their rules") {
  CHECK(path_fault("/ns/file").empty());
  CHECK(path_fault("/ns/a/b.c").empty());
  for (const char* path :
       {"", "ns/file", "/ns", "/", "/ns/", "//file", "/ns//b", "/ns/../b", "/ns/./b", "/../b"})
    CHECK_FALSE(path_fault(path).empty());
  CHECK_FALSE(path_fault("/ns/" + std::string(PATH_BYTES_MAX, 'x')).empty());
  CHECK_FALSE(path_fault(std::string("/ns/a\0b", 7)).empty());
}

TEST_CASE("a page's name keeps namespace and key apart") {
  const std::string name = page_name("ns", std::string("k\0y", 3));

  CHECK(is_valid_name(name, true));
  CHECK(namespace_of(name, true) == "ns");
  CHECK_FALSE(is_valid_name("ns", true));
  CHECK_FALSE(is_valid_name(page_name("a/b", "key"), true));
  CHECK_FALSE(is_valid_name(page_name("ns", ""), true));
  CHECK(namespace_of("/ns/a/b", false) == "ns");
}
