#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "kept_arena.h"
#include "raw_peer.h"

namespace gd2fs::testing {
namespace {

struct Meta {
  wire::ResponseItem answer;
  wire::MetaBody body;
};

Meta meta_of(RawPeer& peer, const std::string& path) {
  const auto id = peer.ask(Op::meta, {file_piece(path, 0, 0, FILE_BYTES_MAX, 0)});
  const Frame frame = peer.response(id);
  wire::TableReader table(frame.table);
  const auto answers = wire::decode_response(table, frame.header.items);
  return {answers->at(0), *wire::decode_meta_body(table)};
}

wire::Item commit_item(const std::string& path, const wire::ResponseItem& seen, std::uint64_t tag,
                       std::uint64_t offset, std::uint64_t length) {
  wire::Item item;
  item.name = path;
  item.gen = seen.gen;
  item.seen_seq = seen.seq;
  item.tag = tag;
  item.offset = offset;
  item.length = length;
  return item;
}

std::vector<wire::ListEntry> list(RawPeer& peer, std::vector<wire::Item> items, bool& is_more) {
  const Frame frame = peer.response(peer.ask(Op::list, std::move(items)));
  wire::TableReader table(frame.table);
  const auto answers = wire::decode_response(table, frame.header.items);
  is_more = answers->at(0).detail == 1;
  return *wire::decode_list_body(table, answers->at(0).length);
}

wire::Item named(const std::string& name, std::uint16_t flags = 0) {
  wire::Item item;
  item.name = name;
  item.flags = flags;
  return item;
}

TEST_CASE("a file's life: create, write, commit, publish, read, truncate, unlink") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  const std::string path = "/ns/file";
  const Bytes bytes = random_bytes(300'000, 1);

  const auto made = peer.answer(Op::create, file_piece(path, 0, 0, 1 * MiB, 0));
  REQUIRE(made.status == Status::ok);
  CHECK(made.detail == 1 * MiB);
  REQUIRE(peer.put(file_piece(path, 0, 0, 0, 11), bytes) == Status::ok);

  SUBCASE("an uncommitted piece is read by its tag alone") {
    CHECK(peer.fetch(Op::read, {file_piece(path, 0, 5, 10, 0)}).answers[0].status == Status::miss);
    CHECK(peer.fetch(Op::read, {file_piece(path, 0, 5, 10, 11)}).answers[0].status == Status::ok);
  }
  SUBCASE("commit, publish, read, truncate and unlink") {
    const auto done = peer.answer(Op::commit, commit_item(path, made, 11, 0, bytes.size()));
    REQUIRE(done.status == Status::ok);
    CHECK(done.length == bytes.size());
    REQUIRE(peer.answer(Op::publish, file_piece(path, 0, done.seq, 0, 11)).status == Status::ok);
    const auto read = peer.fetch(Op::read, {file_piece(path, 0, 0, bytes.size(), 0)});
    CHECK(read.bodies[0] == bytes);
    CHECK(read.answers[0].gen == 11);

    const Meta meta = meta_of(peer, path);
    CHECK(meta.answer.detail == 1 * MiB);
    CHECK(meta.body.size == bytes.size());
    REQUIRE(meta.body.segments.size() == 1);
    CHECK(meta.body.segments[0].tag == 11);

    const auto stale = peer.answer(Op::commit, commit_item(path, made, 12, 0, 10));
    CHECK(stale.status == Status::conflict);

    wire::Item cut = commit_item(path, done, 0, 0, 1'000);
    CHECK(peer.answer(Op::truncate, cut).status == Status::ok);
    CHECK(meta_of(peer, path).body.size == 1'000);

    CHECK(peer.answer(Op::unlink, named(path)).status == Status::ok);
    CHECK(meta_of(peer, path).answer.status == Status::gone);
    CHECK(peer.answer(Op::unlink, named(path)).status == Status::gone);
    CHECK(server->counts().store.pieces == 0);
  }
}

TEST_CASE("what its writer forgets is gone at once; what is live, and others' tags, stay") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  const std::string path = "/ns/file";
  const Bytes bytes = random_bytes(100'000, 1);
  const auto made = peer.answer(Op::create, file_piece(path, 0, 0, 1 * MiB, 0));
  for (const std::uint64_t tag : {11, 12, 13})
    REQUIRE(peer.put(file_piece(path, 0, 0, 0, tag), bytes) == Status::ok);
  const auto done = peer.answer(Op::commit, commit_item(path, made, 12, 0, bytes.size()));
  REQUIRE(peer.answer(Op::publish, file_piece(path, 0, done.seq, 0, 12)).status == Status::ok);
  const std::uint64_t staged = server->counts().store.staged_bytes;

  CHECK(peer.answer(Op::forget, file_piece(path, 0, 0, 0, 11)).status == Status::ok);
  CHECK(peer.answer(Op::forget, file_piece(path, 0, 0, 0, 11)).status == Status::miss);
  CHECK(peer.answer(Op::forget, file_piece(path, 0, 0, 0, 12)).status == Status::miss);

  CHECK(server->counts().store.staged_bytes == staged / 2);
  const auto by_tag = [&](std::uint64_t tag) {
    return peer.fetch(Op::read, {file_piece(path, 0, 0, bytes.size(), tag)}).answers[0].status;
  };
  CHECK(by_tag(11) == Status::miss);
  CHECK(by_tag(12) == Status::ok);
  CHECK(by_tag(13) == Status::ok);
}

TEST_CASE("a put that comes late buries nothing that was written since it began") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  const std::string path = "/ns/put";
  const auto put_item = [&](const wire::ResponseItem& base, std::uint64_t tag) {
    wire::Item item = commit_item(path, base, tag, 0, 100);
    item.flags = wire::ITEM_REPLACE;
    item.if_size = 1 * MiB;
    return item;
  };
  const auto before = meta_of(peer, path).answer;
  REQUIRE(before.status == Status::gone);
  const auto first = peer.answer(Op::commit, put_item(before, 21));
  REQUIRE(first.status == Status::ok);

  CHECK(peer.answer(Op::commit, put_item(before, 22)).status == Status::conflict);
  const auto second = peer.answer(Op::commit, put_item(first, 23));
  CHECK(second.status == Status::ok);
  CHECK(peer.answer(Op::commit, put_item(first, 24)).status == Status::conflict);
  CHECK(peer.answer(Op::unlink, named(path)).status == Status::ok);
  CHECK(peer.answer(Op::commit, put_item(second, 25)).status == Status::conflict);
  CHECK(peer.answer(Op::commit, put_item(before, 26)).status == Status::conflict);
  CHECK(meta_of(peer, path).answer.status == Status::gone);
}

TEST_CASE("create answers what is there, or conflict when it must be absent") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  const auto first = peer.answer(Op::create, file_piece("/ns/f", 0, 0, 0, 0));
  const auto again = peer.answer(Op::create, file_piece("/ns/f", 0, 0, 0, 0));
  wire::Item absent = file_piece("/ns/f", 0, 0, 0, 0);
  absent.flags = wire::ITEM_IF_ABSENT;

  CHECK(first.detail == CHUNK_BYTES_DEFAULT);
  CHECK(again.gen == first.gen);
  CHECK(peer.answer(Op::create, absent).status == Status::conflict);
  CHECK(peer.answer(Op::create, file_piece("/ns/g", 0, 0, 1'000, 0)).status == Status::invalid);
}

TEST_CASE("bad names are invalid for every op that takes one") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server, wire::StreamClass::node);

  for (const Op op : {Op::meta, Op::create, Op::commit, Op::truncate, Op::unlink, Op::publish,
                      Op::forget, Op::is_listed, Op::drop, Op::read, Op::offer}) {
    const auto answer = peer.answer(op, file_piece("no/path", 0, 0, 10, 1));
    CHECK_MESSAGE(answer.status == Status::invalid, "op " << static_cast<int>(op));
  }
  CHECK(peer.answer(Op::get, named("no separator", wire::ITEM_PAGE)).status == Status::invalid);
}

TEST_CASE("exists tells one bit an item, pages and files alike") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  REQUIRE(peer.put(page("here"), random_bytes(10, 1)) == Status::ok);
  peer.answer(Op::create, file_piece("/ns/f", 0, 0, 0, 0));

  const Frame frame = peer.response(
      peer.ask(Op::exists, {page("here"), page("not"), named("/ns/f"), named("/ns/g")}));
  wire::TableReader table(frame.table);
  const auto answers = wire::decode_response(table, frame.header.items);

  CHECK(*wire::decode_exists_body(table, answers->at(0).length) ==
        std::vector<bool>{true, false, true, false});
}

TEST_CASE("lists are cut to a frame and go on after the last name") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  constexpr std::size_t COUNT = 600;
  const std::string padding(700, 'x');
  for (std::size_t index = 0; index < COUNT; ++index) {
    const std::string path = "/ns/" + std::to_string(1'000 + index) + padding;
    REQUIRE(peer.answer(Op::create, file_piece(path, 0, 0, 0, 0)).status == Status::ok);
  }

  std::vector<std::string> names;
  bool is_more = true;
  while (is_more) {
    std::vector<wire::Item> items = {named("/ns/")};
    if (!names.empty()) items.push_back(named(names.back()));
    const auto entries = list(peer, items, is_more);
    REQUIRE(!entries.empty());
    for (const auto& entry : entries) names.push_back(entry.name);
  }

  CHECK(names.size() == COUNT);
  CHECK(std::is_sorted(names.begin(), names.end()));
}

TEST_CASE("pages of a namespace are listed by key, and cleared with its files") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);
  for (const char* key : {"c", "a", "b"}) {
    REQUIRE(peer.put(page(key), random_bytes(1'000, 1)) == Status::ok);
  }
  peer.answer(Op::create, file_piece("/pages/f", 0, 0, 0, 0));
  const wire::Item all = named("pages", wire::ITEM_PAGE | wire::ITEM_NAMESPACE);

  bool is_more = true;
  const auto entries = list(peer, {all}, is_more);
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].name == "a");
  CHECK(entries[0].bytes == 1'000);
  CHECK(!is_more);
  const auto rest = list(peer, {all, named(page_name("pages", "a"), wire::ITEM_PAGE)}, is_more);
  CHECK(rest.size() == 2);

  const auto cleared = peer.answer(Op::drop, named("pages", wire::ITEM_NAMESPACE));
  CHECK(cleared.status == Status::ok);
  CHECK(cleared.length == 4);
  CHECK(list(peer, {all}, is_more).empty());
}

TEST_CASE("ping tells the node") {
  auto server = start_node();
  RawPeer peer = RawPeer::greeted(*server);

  const Frame frame = peer.response(peer.ask(Op::ping, {}));
  wire::TableReader table(frame.table);
  REQUIRE(wire::decode_response(table, frame.header.items).has_value());
  const auto status = wire::decode_ping_body(table);

  CHECK(status->name == "a");
  CHECK(status->boot == 42);
  CHECK(status->rung == "plain");
  CHECK(status->arena_bytes == 64 * MiB);
}

TEST_CASE("what a vanished writer staged is freed, or published when its commit is listed") {
  auto server = start_node();
  const std::uint64_t before = server->counts().store.free_bytes;
  const std::string path = "/ns/file";
  const Bytes bytes = random_bytes(100'000, 2);
  RawPeer watcher = RawPeer::greeted(*server, wire::StreamClass::node);
  const auto made = watcher.answer(Op::create, file_piece(path, 0, 0, 0, 0));
  {
    RawPeer writer = RawPeer::greeted(*server);
    REQUIRE(writer.put(file_piece(path, 0, 0, 0, 21), bytes) == Status::ok);
    if (before == 0) return;
  }
  CHECK(eventually([&] { return server->counts().store.free_bytes == before; }));
  CHECK(watcher.answer(Op::is_listed, file_piece(path, 0, 0, 0, 21)).status == Status::miss);
  {
    RawPeer writer = RawPeer::greeted(*server);
    REQUIRE(writer.put(file_piece(path, 0, 0, 0, 22), bytes) == Status::ok);
    const auto done = writer.answer(Op::commit, commit_item(path, made, 22, 0, bytes.size()));
    REQUIRE(done.status == Status::ok);
  }
  CHECK(eventually([&] {
    const auto read = watcher.fetch(Op::read, {file_piece(path, 0, 0, bytes.size(), 0)});
    return read.answers[0].status == Status::ok && read.bodies[0] == bytes;
  }));
  const auto listed = watcher.answer(Op::is_listed, file_piece(path, 0, 0, 0, 22));
  CHECK(listed.status == Status::ok);
  CHECK(listed.seq > 0);
}

/// A file whose home is the first of the two nodes of a map.
std::string path_at_first(const wire::Map& map) {
  const PlacedNode nodes[] = {{map.nodes[0].id, 1}, {map.nodes[1].id, 1}};
  for (std::size_t index = 0;; ++index) {
    std::string path = "/ns/f" + std::to_string(index);
    if (placement_first(nodes, path, 0) == 0) return path;
  }
}

TEST_CASE("a node asks the home of a file, on another node, whether a tag is listed") {
  ServerOptions options = options_of(64 * MiB, "home");
  auto home = start_node(options);
  const wire::Map map = map_of({{"home", home->addresses()[0]}, {"owner", "127.0.0.1:1"}});
  const std::string path = path_at_first(map);
  options = options_of(64 * MiB, "owner");
  options.map = map;
  auto owner = start_node(options);
  RawPeer at_home = RawPeer::greeted(*home);
  const auto made = at_home.answer(Op::create, file_piece(path, 0, 0, 0, 0));
  const auto listed = at_home.answer(Op::commit, commit_item(path, made, 31, 0, 1'000));
  REQUIRE(listed.status == Status::ok);
  {
    RawPeer writer = RawPeer::greeted(*owner);
    REQUIRE(writer.put(file_piece(path, 0, 0, 0, 31), random_bytes(1'000, 3)) == Status::ok);
    REQUIRE(writer.put(file_piece(path, 0, 0, 0, 32), random_bytes(1'000, 4)) == Status::ok);
  }

  CHECK(eventually([&] { return owner->counts().store.pieces == 1; }));
  CHECK(eventually([&] { return owner->counts().store.staged_bytes == 0; }));
  RawPeer reader = RawPeer::greeted(*owner);
  const auto read = reader.fetch(Op::read, {file_piece(path, 0, 0, 1'000, 0)});
  CHECK(read.answers[0].gen == 31);
  CHECK(read.answers[0].seq == listed.seq);
}

TEST_CASE("a node that comes back settles at once what its former process had staged") {
  const KeptArena kept(64 * MiB);
  ServerOptions options = options_of(64 * MiB, "home");
  auto home = start_node(options);
  const std::string address = home->addresses()[0];
  const wire::Map map = map_of({{"home", address}, {"owner", "127.0.0.1:1"}});
  const std::string path = path_at_first(map);
  options = options_of(64 * MiB, "owner");
  options.map = map;
  options.store.arena = {64 * MiB, Rung::file, kept.path()};
  RawPeer at_home = RawPeer::greeted(*home);
  const auto made = at_home.answer(Op::create, file_piece(path, 0, 0, 0, 0));
  const auto listed = at_home.answer(Op::commit, commit_item(path, made, 31, 0, 1'000));
  REQUIRE(listed.status == Status::ok);
  auto owner = start_node(options);
  {
    // Its streams are still open when the node ends: nobody is asked by the former process.
    RawPeer writer = RawPeer::greeted(*owner);
    REQUIRE(writer.put(file_piece(path, 0, 0, 0, 31), random_bytes(1'000, 3)) == Status::ok);
    REQUIRE(writer.put(file_piece(path, 0, 0, 0, 32), random_bytes(1'000, 4)) == Status::ok);
    owner = nullptr;
  }

  owner = start_node(options);

  CHECK(eventually([&] { return owner->counts().store.staged_bytes == 0; }));
  CHECK(owner->counts().store.pieces == 1);
  RawPeer reader = RawPeer::greeted(*owner);
  const auto read = reader.fetch(Op::read, {file_piece(path, 0, 0, 1'000, 0)});
  CHECK(read.answers[0].gen == 31);
  CHECK(read.answers[0].seq == listed.seq);
}

}  // namespace
}  // namespace gd2fs::testing
