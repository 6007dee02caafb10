// Tokens: what is one, what proves it, and what a stream may do that has proven it.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <filesystem>
#include <fstream>

#include "raw_peer.h"
#include "rights.h"
#include "strangers.h"

namespace gd2fs::testing {
namespace {

const std::string SECRET = "abcdefghijklmnopqrstuvwxyz0123456789-_AB";
const std::string OTHER_SECRET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_ab";

Token token_of(const std::string& name, const std::string& secret = SECRET) {
  return {name, key_of_secret(secret)};
}

/// A cluster's token `main`, and tenants that may read, write and do everything in `a`.
ServerOptions guarded_options() {
  ServerOptions options = options_of(64 * MiB);
  options.tokens = {{token_of("main"), Rights::of_cluster()},
                    {token_of("reader"), Rights(Right::read, {"a"})},
                    {token_of("writer"), Rights(Right::write, {"a"})},
                    {token_of("admin"), Rights(Right::admin, {"a"})},
                    {token_of("watcher"), Rights(Right::read, {})}};
  options.map.namespaces = {{"a", 1}, {"b", 1}};
  return options;
}

RawPeer greeted_as(const Server& server, const std::string& name,
                   wire::StreamClass kind = wire::StreamClass::bulk) {
  RawPeer peer(server);
  wire::Hello hello = RawPeer::hello();
  hello.stream_class = kind;
  peer.greet(hello, token_of(name));
  return peer;
}

/// HELLO and PROOF of a token, and what the node says then.
std::string refusal_of(const Server& server, const Token& token,
                       wire::StreamClass kind = wire::StreamClass::bulk) {
  RawPeer peer(server);
  Introduction introduction(std::make_shared<TokenSource>(token));
  wire::Hello hello = RawPeer::hello();
  hello.stream_class = kind;
  Bytes out;
  introduction.hello(out, hello);
  peer.send(out);
  const Frame challenge = peer.receive();
  REQUIRE(challenge.header.kind == Kind::challenge);
  out.clear();
  introduction.proof(out, challenge.table);
  peer.send(out);
  return peer.farewell();
}

std::uint64_t refused_for(const Server& server, Refusal reason) {
  return server.counts().refused_for[static_cast<std::size_t>(reason)];
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

wire::Item page_of(const std::string& name_space, const std::string& key,
                   std::uint64_t length = 0) {
  wire::Item item = page(key, length);
  item.name = page_name(name_space, key);
  return item;
}

TEST_CASE("a token is a name and a secret, and no message repeats the secret") {
  auto token = parse_token(" main-1." + SECRET + "\n");
  REQUIRE(token);
  CHECK(token->name == "main-1");
  CHECK(token->key == key_of_secret(SECRET));

  for (const std::string& text :
       {std::string(), SECRET, "." + SECRET, "Main." + SECRET, "main." + SECRET.substr(20),
        "main." + SECRET + "/", "main." + std::string(300, 'x'),
        std::string(33, 'm') + "." + SECRET}) {
    const auto none = parse_token(text);
    REQUIRE_MESSAGE(!none, text);
    CHECK(!contains(none.error().message + none.error().hint, SECRET.substr(20)));
  }
}

TEST_CASE("a proof is of one side, one key and one conversation") {
  using Side = Transcript::Side;
  const TokenKey key = key_of_secret(SECRET);
  const Bytes hello = random_bytes(90, 1), challenge = random_bytes(88, 2);
  Transcript both, swapped, moved;
  both.add(hello), both.add(challenge);
  swapped.add(challenge), swapped.add(hello);
  Bytes longer = hello, shorter(challenge.begin() + 1, challenge.end());
  longer.push_back(challenge.front());
  moved.add(longer), moved.add(shorter);
  const wire::Proof proof = both.prove(key, Side::client);

  CHECK(both.prove(key, Side::client) == proof);
  CHECK(both.prove(key, Side::server) != proof);
  CHECK(both.prove(key_of_secret(OTHER_SECRET), Side::client) != proof);
  CHECK(both.prove(key, Side::client, random_bytes(32, 3)) != proof);
  CHECK(swapped.prove(key, Side::client) != proof);
  CHECK(moved.prove(key, Side::client) != proof);
}

TEST_CASE("a file's first token is shown, and a new one once the file has changed") {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("gd2fs-token-" + std::to_string(getpid())))
          .string();
  const auto write = [&](const std::string& text) {
    std::ofstream(path + ".new") << text;
    std::filesystem::rename(path + ".new", path);
  };
  write("# in use\nmain-2." + SECRET + "\nmain-1." + OTHER_SECRET + "\n");
  auto source = TokenSource::of_file(path);
  REQUIRE(source);
  CHECK((*source)->current() == token_of("main-2"));

  write("main-3." + OTHER_SECRET);
  CHECK((*source)->current() == token_of("main-3", OTHER_SECRET));
  write("half-writ");
  CHECK((*source)->current() == token_of("main-3", OTHER_SECRET));
  std::filesystem::remove(path);
  CHECK((*source)->current() == token_of("main-3", OTHER_SECRET));
  CHECK(!TokenSource::of_file(path));
}

TEST_CASE("only what is known is let in, and each refusal is counted by its reason") {
  auto server = start_node(guarded_options());

  CHECK(greeted_as(*server, "main").rights == 0xff);
  CHECK(greeted_as(*server, "reader").rights == 1);
  CHECK(greeted_as(*server, "watcher").rights == 0x81);
  const std::string wrong = refusal_of(*server, token_of("main", OTHER_SECRET));
  const std::string unknown = refusal_of(*server, token_of("nobody"));
  CHECK(contains(wrong, "is not one that node `a` knows, or its secret is another one"));
  CHECK(contains(unknown, "is not one that node `a` knows, or its secret is another one"));
  CHECK(contains(refusal_of(*server, token_of("admin"), wire::StreamClass::node),
                 "none of a node of this cluster"));
  RawPeer without(*server);
  Bytes out;
  wire::encode_hello(out, RawPeer::hello());
  without.send(out);
  CHECK(contains(without.farewell(), "wants a token"));

  CHECK(refused_for(*server, Refusal::wrong_proof) == 2);
  CHECK(refused_for(*server, Refusal::unknown_token) == 1);
  CHECK(refused_for(*server, Refusal::no_token) == 1);
  CHECK(server->counts().refused == 4);
}

TEST_CASE("a proof counts in its own conversation only") {
  auto server = start_node(guarded_options());
  Introduction introduction(std::make_shared<TokenSource>(token_of("main")));
  Bytes hello, proof;
  introduction.hello(hello, RawPeer::hello());
  RawPeer first(*server);
  first.send(hello);
  introduction.proof(proof, first.receive().table);
  first.send(proof);
  REQUIRE(first.receive().header.kind == Kind::welcome);

  RawPeer again(*server);
  again.send(hello);
  REQUIRE(again.receive().header.kind == Kind::challenge);
  again.send(proof);

  CHECK(contains(again.farewell(), "its secret is another one"));
  CHECK(refused_for(*server, Refusal::wrong_proof) == 1);
}

TEST_CASE("the client's own proof is none of the node") {
  Introduction introduction(std::make_shared<TokenSource>(token_of("main")));
  Bytes out, challenge, proof, welcome;
  introduction.hello(out, RawPeer::hello());
  wire::encode_challenge(challenge, wire::Challenge{});
  introduction.proof(proof, wire::View(challenge).subspan(HEADER_BYTES));
  const auto said = wire::decode_proof(wire::View(proof).subspan(HEADER_BYTES));
  wire::encode_welcome(welcome, wire::Welcome{.proof = *said});

  CHECK(!introduction.takes_welcome(wire::View(welcome).subspan(HEADER_BYTES)));
  CHECK(!introduction.takes_welcome({}));
}

TEST_CASE("a node without tokens knows none, and a client with one does not take it for its own") {
  auto server = start_node();
  RawPeer peer(*server);
  Bytes out;
  Introduction introduction(std::make_shared<TokenSource>(token_of("main")));
  introduction.hello(out, RawPeer::hello());
  peer.send(out);

  CHECK(contains(peer.farewell(), "has no token, the other side shows one"));
  CHECK(!introduction.takes_welcome(random_bytes(33, 1)));
}

TEST_CASE("other tokens close the streams of those that are gone, and let the new ones in") {
  ServerOptions options = guarded_options();
  auto server = start_node(options);
  RawPeer stays = greeted_as(*server, "main");
  RawPeer goes = greeted_as(*server, "writer");
  RawPeer changes = greeted_as(*server, "reader");

  options.tokens = {{token_of("next"), Rights::of_cluster()},
                    {token_of("main"), Rights::of_cluster()},
                    {token_of("reader"), Rights(Right::read, {"b"})}};
  server->set_tokens(options.tokens);

  CHECK(contains(goes.farewell(), "not valid any more"));
  CHECK(contains(changes.farewell(), "has other rights"));
  CHECK(stays.answer(Op::ping, {}).status == Status::ok);
  CHECK(greeted_as(*server, "next").rights == 0xff);
  CHECK(contains(refusal_of(*server, token_of("writer")), "is not one that node"));
}

// ---- rights --------------------------------------------------------------------------

struct Asked {
  Op op;
  wire::Item item;
  Right right;  // that it takes; none: everybody may
};

wire::Item named(const std::string& name, std::uint16_t flags = 0) {
  wire::Item item;
  item.name = name;
  item.flags = flags;
  item.length = 100;
  item.tag = 7;
  return item;
}

std::vector<Asked> all_of(const std::string& space) {
  const std::string path = "/" + space + "/f";
  const std::string key = page_name(space, "k");
  constexpr auto PAGE = wire::ITEM_PAGE, WHOLE = wire::ITEM_NAMESPACE, MEMORY = wire::ITEM_MEMORY,
                 LESS = wire::ITEM_DONTNEED, PIN = wire::ITEM_PIN;
  const auto flags = [](auto... each) { return static_cast<std::uint16_t>((each | ...)); };
  return {{Op::exists, named(key, PAGE), Right::read},
          {Op::exists, named(path), Right::read},
          {Op::get, named(key, PAGE), Right::read},
          {Op::get, named(key), Right::read},
          {Op::read, named(path), Right::read},
          {Op::meta, named(path), Right::read},
          {Op::list, named(space, flags(PAGE, WHOLE)), Right::read},
          {Op::list, named("/" + space + "/"), Right::read},
          {Op::why, named(path), Right::read},
          {Op::why, named(key, PAGE), Right::read},
          {Op::offer, named(key, PAGE), Right::write},
          {Op::offer, named(path), Right::write},
          {Op::create, named(path), Right::write},
          {Op::commit, named(path), Right::write},
          {Op::publish, named(path), Right::write},
          {Op::forget, named(path), Right::write},
          {Op::truncate, named(path), Right::write},
          {Op::unlink, named(path), Right::write},
          {Op::drop, named(key, PAGE), Right::write},
          {Op::drop, named(path), Right::write},
          {Op::drop, named(space, WHOLE), Right::write},
          {Op::sync, named(key, PAGE), Right::write},
          {Op::create, named(path, wire::ITEM_REPLICAS), Right::admin},
          {Op::advise, named(path, MEMORY), Right::read},
          {Op::advise, named(key, flags(PAGE, MEMORY)), Right::read},
          {Op::advise, named(key, flags(PAGE, MEMORY, LESS)), Right::write},
          {Op::advise, named(key, flags(PAGE, PIN)), Right::admin},
          {Op::advise, named(key, flags(PAGE, PIN, MEMORY)), Right::admin},
          {Op::advise, named(path), Right::admin}};
}

bool allows(const Rights& rights, Op op, const wire::Item& item) {
  wire::Request request;
  request.head.op = op;
  request.items = {item};
  return serve::is_allowed(rights, request);
}

TEST_CASE("a tenant may do what its right takes in its namespaces, and nothing in others") {
  const std::string own = "own", other = "other";
  for (const Right right : {Right::read, Right::write, Right::admin}) {
    const Rights rights(right, {own, "second"});
    for (const Asked& each : all_of(own))
      CHECK_MESSAGE(allows(rights, each.op, each.item) == (right >= each.right),
                    static_cast<int>(each.op) << " flags " << each.item.flags);
    for (const Asked& each : all_of(other))
      CHECK_MESSAGE(!allows(rights, each.op, each.item), static_cast<int>(each.op));
    CHECK(allows(rights, Op::ping, {}));
    for (const Op op : {Op::drain, Op::configure, Op::pull, Op::replicate, Op::move})
      CHECK_MESSAGE(!allows(rights, op, named(own)), static_cast<int>(op));
  }
}

TEST_CASE("one item of another namespace refuses the whole request") {
  wire::Request request;
  request.head.op = Op::exists;
  request.items = {page_of("a", "k"), page_of("b", "k"), page_of("a", "l")};

  CHECK(!serve::is_allowed(Rights(Right::admin, {"a"}), request));
  CHECK(serve::is_allowed(Rights(Right::admin, {"a", "b"}), request));
  CHECK(serve::is_allowed(Rights(Right::read, {}), request));
}

TEST_CASE("names that are none, or that two readings differ about, are nobody's") {
  const Rights rights(Right::admin, {"a"});
  const std::string nul(1, '\0');
  const std::vector<std::string> names = {"",
                                          "/",
                                          "b" + nul + "k",
                                          "/b/a",
                                          "/ab/f",
                                          "ab",
                                          "xa" + nul + "k",
                                          "b/a/f",
                                          "/b" + nul + "/a/f",
                                          "b" + nul + "/a/",
                                          "/b/a" + nul};
  for (const std::string& name : names)
    for (const std::uint16_t flags : {std::uint16_t{0}, wire::ITEM_PAGE, wire::ITEM_NAMESPACE})
      for (const Op op : {Op::get, Op::read, Op::offer, Op::meta, Op::drop, Op::list})
        CHECK_MESSAGE(!allows(rights, op, named(name, flags)),
                      static_cast<int>(op) << " `" << name << "` flags " << flags);
}

TEST_CASE("a listing of a namespace meets none that begins alike") {
  wire::Request request;
  request.head.op = Op::list;
  request.head.priority = wire::PRIORITY_MOVE;
  request.items = {named("/a")};

  serve::confine(Rights(Right::read, {"a"}), request);

  CHECK(request.items.front().name == "/a/");
  CHECK(request.head.priority == 0);
}

TEST_CASE("nothing of another namespace is told: by no op, and by no answer") {
  auto server = start_node(guarded_options());
  RawPeer cluster = greeted_as(*server, "main");
  const Bytes bytes = random_bytes(5'000, 3);
  wire::Item there = page_of("b", "there", bytes.size());
  REQUIRE(cluster.put(there, bytes) == Status::ok);
  wire::Item own = page_of("a", "own", bytes.size());
  REQUIRE(cluster.put(own, bytes) == Status::ok);
  RawPeer peer = greeted_as(*server, "admin");

  for (const Asked& each : all_of("b")) {
    const auto answers = peer.answers(peer.ask(each.op, {each.item}));
    REQUIRE(answers.size() == 1);
    CHECK_MESSAGE(answers[0].status == Status::denied, static_cast<int>(each.op));
    CHECK(answers[0].length == 0);
    CHECK(answers[0].gen == 0);
  }
  CHECK(peer.put(page_of("b", "mine"), bytes) == Status::denied);
  for (const Op op : {Op::drain, Op::configure})
    CHECK(peer.answer(op, named("{}")).status == Status::denied);
  CHECK(peer.answers(peer.ask(Op::pull, {named("/b/f")})).at(0).status == Status::invalid);
  CHECK(peer.fetch(Op::get, {own}).bodies.at(0) == bytes);
  CHECK(cluster.fetch(Op::get, {there}).bodies.at(0) == bytes);
  CHECK(server->counts().denied > all_of("b").size());
}

TEST_CASE("a tenant learns of the node what it needs, and of other namespaces not their names") {
  auto server = start_node(guarded_options());
  RawPeer tenant = greeted_as(*server, "reader"), watcher = greeted_as(*server, "watcher");
  const auto status_of = [](RawPeer& peer) {
    const Frame frame = peer.response(peer.ask(Op::ping, {}));
    wire::TableReader table(frame.table);
    REQUIRE(wire::decode_response(table, frame.header.items)->at(0).status == Status::ok);
    return *wire::decode_ping_body(table);
  };

  const wire::NodeStatus shown = status_of(tenant);
  CHECK(shown.name == "a");
  CHECK(shown.arena_bytes == 0);
  CHECK(shown.arena_free_bytes == 0);
  CHECK(status_of(watcher).arena_free_bytes > 0);
  REQUIRE(tenant.map.namespaces.size() == 1);
  CHECK(tenant.map.namespaces[0].name == "a");
  CHECK(watcher.map.namespaces.size() == 2);
}

TEST_CASE("what made room for others is not told") {
  ServerOptions options = guarded_options();
  options.store.arena.bytes = 16 * MiB;
  auto server = start_node(options);
  RawPeer cluster = greeted_as(*server, "main");
  const Bytes bytes = random_bytes(1 * MiB, 4);
  REQUIRE(cluster.put(page_of("a", "mine"), bytes) == Status::ok);
  for (int at = 0; at < 40; ++at) cluster.put(page_of("b", std::to_string(at)), bytes);
  const auto why = [](RawPeer& peer) {
    wire::Item item = page_of("a", "mine");
    const Frame frame = peer.response(peer.ask(Op::why, {item}));
    std::string text;
    for (const std::byte each : frame.table) text += static_cast<char>(each);
    return text;
  };

  CHECK(contains(why(cluster), "\"for_whom\":\"b\""));
  RawPeer tenant = greeted_as(*server, "reader");
  const std::string told = why(tenant);
  CHECK(contains(told, "\"cause\":\"evicted\""));
  CHECK(contains(told, "\"for_whom\":\"\""));
}

TEST_CASE("how the node is may be asked, in just these words, by who reads everything") {
  const std::string report = R"({"do": "report"})";
  const auto request_of = [](std::vector<std::string> texts) {
    wire::Request request;
    request.head.op = Op::configure;
    for (const std::string& text : texts) request.items.push_back(named(text));
    return request;
  };
  const Rights watcher(Right::read, {}), tenant(Right::admin, {"a"}), admin(Right::admin, {});
  CHECK(serve::is_allowed(watcher, request_of({report})));
  CHECK(serve::is_allowed(watcher, request_of({R"({"do": "curves"})"})));
  CHECK(!serve::is_allowed(tenant, request_of({R"({"do": "curves"})"})));
  CHECK(serve::is_allowed(Rights(Right::write, {}), request_of({report})));
  CHECK(!serve::is_allowed(tenant, request_of({report})));
  for (const char* text :
       {R"({"do": "show"})", R"({"do": "facts"})", R"({"do":"report"})", "report",
        R"({"do": "report", "do": "set"})", R"({"do": "report"} )", R"({"do": "trace"})", ""}) {
    CHECK_MESSAGE(!serve::is_allowed(watcher, request_of({text})), text);
    CHECK(serve::is_allowed(admin, request_of({text})));
  }
  CHECK(!serve::is_allowed(watcher, request_of({report, report})));
  CHECK(!serve::is_allowed(watcher, request_of({})));
  wire::Request other = request_of({report});
  other.head.op = Op::drain;
  CHECK(!serve::is_allowed(watcher, other));
}

TEST_CASE("of tokens the first one with the rights of the cluster is shown, and one of each name") {
  serve::TokenBook book({{token_of("tenant"), Rights(Right::read, {"a"})},
                         {token_of("second"), Rights::of_cluster()},
                         {token_of("first"), Rights::of_cluster()},
                         {token_of("second", OTHER_SECRET), Rights(Right::read, {"a"})}});
  CHECK(book.own() == token_of("second"));
  CHECK(book.find("second")->rights.is_cluster());
  CHECK(book.find("tenan") == nullptr);
  CHECK(book.find("") == nullptr);
  CHECK(!book.has({token_of("second", OTHER_SECRET), Rights(Right::read, {"a"})}));

  book.set({{token_of("tenant"), Rights(Right::read, {"a"})}});

  CHECK(!book.own());
  CHECK(!book.is_open());
}

// ---- strangers -----------------------------------------------------------------------

TEST_CASE("a source has few strangers, and all sources together have room for a new one") {
  serve::Strangers strangers;
  std::size_t refused = 0;
  for (std::size_t at = 0; at < UNAUTHENTICATED_MAX + 10; ++at)
    refused += strangers.enter("one", 0) == Refusal::too_many ? 1 : 0;
  CHECK(refused == 10);

  for (std::size_t source = 0; strangers.count() < STRANGERS_MAX; ++source)
    for (std::size_t at = 0; at < UNAUTHENTICATED_MAX; ++at)
      if (strangers.enter("flood " + std::to_string(source), 0)) break;
  CHECK(strangers.enter("flood 0", 0) == Refusal::too_many);
  CHECK(!strangers.enter("new", 0));
  CHECK(strangers.enter("new", 0) == Refusal::too_many);
  for (std::size_t source = 0; source < 2 * STRANGERS_MAX; ++source)
    strangers.enter("other " + std::to_string(source), 0);
  CHECK(strangers.count() == 2 * STRANGERS_MAX);

  strangers.leave("one", false);
  CHECK(strangers.count() == 2 * STRANGERS_MAX - 1);
}

TEST_CASE("who comes to nothing too often waits, and who proves itself never does") {
  serve::Strangers strangers;
  for (std::size_t at = 0; at < 3 * STRANGERS_BURST; ++at) {
    REQUIRE(!strangers.enter("good", 0));
    strangers.leave("good", true);
  }
  for (std::size_t at = 0; at < STRANGERS_BURST; ++at) {
    REQUIRE(!strangers.enter("bad", 0));
    strangers.leave("bad", false);
  }

  CHECK(strangers.enter("bad", 1) == Refusal::rate);
  CHECK(!strangers.enter("good", 1));
  CHECK(!strangers.enter("bad", 1'000));
}

TEST_CASE(
    "a flood from ever new sources shuts out none that is new, and forgets none that is here") {
  serve::Strangers strangers;
  REQUIRE(!strangers.enter("stays", 0));
  for (std::size_t source = 0; source < 3 * SOURCES_MAX; ++source) {
    const std::string name = std::to_string(source);
    REQUIRE(!strangers.enter(name, static_cast<std::int64_t>(source) / 64));
    strangers.leave(name, false);
  }

  CHECK(strangers.count() == 1);
  strangers.leave("stays", false);
  CHECK(strangers.count() == 0);
}

TEST_CASE("a flood at one moment shuts out none that is new") {
  serve::Strangers strangers;
  for (std::size_t source = 0; source < 3 * SOURCES_MAX; ++source) {
    const std::string name = std::to_string(source);
    REQUIRE(!strangers.enter(name, 7));
    strangers.leave(name, false);
  }
}

}  // namespace
}  // namespace gd2fs::testing
