#include "../core/client.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "call.h"
#include "devices.h"
#include "fault.h"
#include "gil.h"
#include "modules.h"
#include "rdma.h"
#include "signals.h"
#include "tls.h"

namespace nb = nanobind;

namespace gd2fs::bindings {

namespace {

/// Only looked at as a place.
std::byte* at(std::uintptr_t address) { return reinterpret_cast<std::byte*>(address); }

std::string_view text_of(const nb::bytes& text) { return {text.c_str(), text.size()}; }

CallOptions options_of(std::uint32_t timeout_ms, std::uint64_t cookie) {
  CallOptions options;
  options.timeout_ms = timeout_ms;
  options.is_announced = cookie != 0 && cookie != COOKIE_WAITED;
  options.cookie = cookie;
  return options;
}

void refuse_other_count(std::size_t keys, std::size_t buffers) {
  if (keys == buffers) return;
  raise(FaultKind::invalid_request,
        std::to_string(buffers) + " buffers for " + std::to_string(keys) + " keys",
        "give one buffer, or one list of them, per key");
}

/// The file wins; nothing where neither is given.
TokenSourceRef token_of(const std::string& text, const std::string& file) {
  if (!file.empty()) {
    auto source = TokenSource::of_file(file);
    if (!source) raise(source.error());
    return std::move(*source);
  }
  if (text.empty()) return nullptr;
  auto token = parse_token(text);
  if (!token) raise(token.error());
  return std::make_shared<TokenSource>(std::move(*token));
}

void set_marks(CallOptions& options, std::uint8_t eviction_class, const nb::bytes& tags) {
  options.eviction_class = eviction_class;
  options.tags.assign(tags.c_str(), tags.size());
}

/// The client as Python holds it. Every method that starts an operation answers its Call.
class BoundClient {
 public:
  using CallPtr = std::unique_ptr<Call>;

  BoundClient(std::vector<std::string> seeds, std::string cluster, std::vector<std::string> local,
              std::uint32_t io_threads, std::uint32_t streams, std::uint32_t timeout_ms,
              std::uint32_t connect_ms, bool is_verifying, const std::string& transport,
              std::string congestion, std::size_t socket_buffer_bytes, const std::string& token,
              const std::string& token_file, const nb::dict& tls, const nb::dict& rdma,
              const nb::dict& devices) {
    auto chosen = parse_transport(transport);
    if (!chosen) raise(chosen.error());
    ClientOptions options;
    options.seeds = std::move(seeds);
    options.local = std::move(local);
    options.cluster = std::move(cluster);
    options.io_threads = io_threads;
    options.streams = streams;
    options.timeout_ms = timeout_ms;
    options.connect_ms = connect_ms;
    options.is_verifying = is_verifying;
    options.transport = *chosen;
    options.sockets = {std::move(congestion), socket_buffer_bytes};
    options.token = token_of(token, token_file);
    options.tls = tls_of(tls);
    options.rdma = rdma_of(rdma);
    options.devices = devices_of(devices);
    auto result = connect_without_gil(options);
    if (!result) raise(result.error());
    descriptor_ = (*result)->descriptor();
    client_ = std::make_shared<SharedClient>(std::move(*result));
  }
  ~BoundClient() { close(); }

  CallPtr get_pages(nb::bytes name_space, nb::handle keys, nb::handle into, bool is_probe,
                    std::uint32_t timeout_ms, std::uint64_t cookie) {
    std::vector<std::string> names = copy_keys(keys);
    Borrowed borrowed;
    borrowed.take_pages(into, Access::write);
    refuse_other_count(names.size(), borrowed.page_count());
    borrowed.refuse_overlap();
    CallOptions options = options_of(timeout_ms, cookie);
    options.is_probe = is_probe;
    return begin(
        std::move(borrowed),
        [&](Client& client, const Borrowed& memory) {
          return client.get_pages(text_of(name_space), names, {memory.pieces(), memory.counts()},
                                  options);
        },
        cookie);
  }

  CallPtr put_pages(nb::bytes name_space, nb::handle keys, nb::handle from, std::uint32_t ttl_s,
                    std::uint8_t eviction_class, nb::bytes tags, std::uint32_t timeout_ms,
                    std::uint64_t cookie) {
    std::vector<std::string> names = copy_keys(keys);
    Borrowed borrowed;
    borrowed.take_pages(from, Access::read);
    refuse_other_count(names.size(), borrowed.page_count());
    CallOptions options = options_of(timeout_ms, cookie);
    options.ttl_s = ttl_s;
    set_marks(options, eviction_class, tags);
    return begin(
        std::move(borrowed),
        [&](Client& client, const Borrowed& memory) {
          return client.put_pages(text_of(name_space), names, {memory.pieces(), memory.counts()},
                                  options);
        },
        cookie);
  }

  CallPtr exists(nb::bytes name_space, nb::handle keys, std::uint32_t timeout_ms,
                 std::uint64_t cookie) {
    std::vector<std::string> names = copy_keys(keys);
    CallOptions options = options_of(timeout_ms, cookie);
    options.is_probe = true;
    return begin(
        {},
        [&](Client& client, const Borrowed&) {
          return client.exists(text_of(name_space), names, options);
        },
        cookie);
  }

  CallPtr drop_pages(nb::bytes name_space, nb::handle keys, std::uint32_t timeout_ms,
                     std::uint64_t cookie) {
    std::vector<std::string> names = copy_keys(keys);
    return begin(
        {},
        [&](Client& client, const Borrowed&) {
          return client.drop_pages(text_of(name_space), names, options_of(timeout_ms, cookie));
        },
        cookie);
  }

  CallPtr list_pages(nb::bytes name_space, nb::bytes after, std::size_t count_max,
                     std::uint32_t timeout_ms, std::uint64_t cookie) {
    return begin({}, [&](Client& client, const Borrowed&) {
      return client.list_pages(text_of(name_space), text_of(after), count_max,
                               options_of(timeout_ms, cookie));
    });
  }

  CallPtr create(nb::bytes path, std::uint32_t chunk_bytes, std::uint32_t ttl_s,
                 std::uint32_t replicas, bool is_if_absent, std::uint32_t timeout_ms,
                 std::uint64_t cookie) {
    CallOptions options = options_of(timeout_ms, cookie);
    options.chunk_bytes = chunk_bytes;
    options.ttl_s = ttl_s;
    options.replicas = replicas;
    options.if_absent = is_if_absent;
    return begin(
        {}, [&](Client& client, const Borrowed&) { return client.create(text_of(path), options); });
  }

  CallPtr write(nb::bytes path, std::uint64_t offset, nb::handle from, std::uint64_t if_gen,
                std::uint8_t eviction_class, nb::bytes tags, std::uint32_t timeout_ms,
                std::uint64_t cookie) {
    Borrowed borrowed;
    borrowed.take(from, Access::read);
    CallOptions options = options_of(timeout_ms, cookie);
    options.if_gen = if_gen;
    set_marks(options, eviction_class, tags);
    return begin(
        std::move(borrowed),
        [&](Client& client, const Borrowed& memory) {
          return client.write(text_of(path), offset, memory.pieces(), options);
        },
        cookie);
  }

  CallPtr put(nb::bytes path, nb::handle from, std::uint32_t chunk_bytes, std::uint32_t ttl_s,
              std::uint32_t replicas, std::uint8_t eviction_class, nb::bytes tags,
              std::uint32_t timeout_ms, std::uint64_t cookie) {
    Borrowed borrowed;
    borrowed.take(from, Access::read);
    CallOptions options = options_of(timeout_ms, cookie);
    options.chunk_bytes = chunk_bytes;
    options.ttl_s = ttl_s;
    options.replicas = replicas;
    set_marks(options, eviction_class, tags);
    return begin(
        std::move(borrowed),
        [&](Client& client, const Borrowed& memory) {
          return client.put(text_of(path), memory.pieces(), options);
        },
        cookie);
  }

  CallPtr append(nb::bytes path, nb::handle from, std::uint8_t eviction_class, nb::bytes tags,
                 std::uint32_t timeout_ms, std::uint64_t cookie) {
    Borrowed borrowed;
    borrowed.take(from, Access::read);
    CallOptions options = options_of(timeout_ms, cookie);
    set_marks(options, eviction_class, tags);
    return begin(
        std::move(borrowed),
        [&](Client& client, const Borrowed& memory) {
          return client.append(text_of(path), memory.pieces(), options);
        },
        cookie);
  }

  CallPtr read(nb::bytes path, std::uint64_t offset, nb::handle into, std::uint32_t timeout_ms,
               std::uint64_t cookie) {
    Borrowed borrowed;
    borrowed.take(into, Access::write);
    borrowed.refuse_overlap();
    return begin(
        std::move(borrowed),
        [&](Client& client, const Borrowed& memory) {
          return client.read(text_of(path), offset, memory.pieces(),
                             options_of(timeout_ms, cookie));
        },
        cookie);
  }

  CallPtr stat(nb::bytes path, std::uint32_t timeout_ms, std::uint64_t cookie) {
    return begin(
        {},
        [&](Client& client, const Borrowed&) {
          return client.stat(text_of(path), options_of(timeout_ms, cookie));
        },
        cookie);
  }

  CallPtr truncate(nb::bytes path, std::uint64_t size, std::uint32_t timeout_ms,
                   std::uint64_t cookie) {
    return begin({}, [&](Client& client, const Borrowed&) {
      return client.truncate(text_of(path), size, options_of(timeout_ms, cookie));
    });
  }

  CallPtr unlink(nb::bytes path, std::uint32_t timeout_ms, std::uint64_t cookie) {
    return begin({}, [&](Client& client, const Borrowed&) {
      return client.unlink(text_of(path), options_of(timeout_ms, cookie));
    });
  }

  CallPtr list_files(nb::bytes prefix, nb::bytes after, std::size_t count_max,
                     std::uint32_t timeout_ms, std::uint64_t cookie) {
    return begin({}, [&](Client& client, const Borrowed&) {
      return client.list_files(text_of(prefix), text_of(after), count_max,
                               options_of(timeout_ms, cookie));
    });
  }

  CallPtr sync_file(nb::bytes path, std::uint32_t timeout_ms, std::uint64_t cookie) {
    return begin({}, [&](Client& client, const Borrowed&) {
      return client.sync_file(text_of(path), options_of(timeout_ms, cookie));
    });
  }

  CallPtr sync_pages(nb::bytes name_space, nb::handle keys, std::uint32_t timeout_ms,
                     std::uint64_t cookie) {
    std::vector<std::string> names = copy_keys(keys);
    return begin(
        {},
        [&](Client& client, const Borrowed&) {
          return client.sync_pages(text_of(name_space), names, options_of(timeout_ms, cookie));
        },
        cookie);
  }

  CallPtr advise(nb::bytes path, bool is_needed, std::uint32_t replicas, std::uint32_t timeout_ms,
                 std::uint64_t cookie) {
    const Advice advice = is_needed ? Advice::willneed : Advice::dontneed;
    return begin({}, [&](Client& client, const Borrowed&) {
      return client.advise(text_of(path), advice, replicas, options_of(timeout_ms, cookie));
    });
  }

  CallPtr advise_memory(nb::bytes path, int wish, std::uint64_t offset, std::uint64_t length,
                        std::uint64_t trace, std::uint32_t timeout_ms, std::uint64_t cookie) {
    CallOptions options = options_of(timeout_ms, cookie);
    options.trace = trace;
    return begin({}, [&](Client& client, const Borrowed&) {
      return client.advise_memory(text_of(path), static_cast<MemoryWish>(wish & 3), offset, length,
                                  options);
    });
  }

  CallPtr advise_pages(nb::bytes name_space, nb::handle keys, int wish, std::uint64_t trace,
                       std::uint32_t timeout_ms, std::uint64_t cookie) {
    const std::vector<std::string> names = copy_keys(keys);
    CallOptions options = options_of(timeout_ms, cookie);
    options.trace = trace;
    return begin({}, [&](Client& client, const Borrowed&) {
      return client.advise_pages(text_of(name_space), names, static_cast<MemoryWish>(wish & 3),
                                 options);
    });
  }

  CallPtr view_page(nb::bytes name_space, nb::handle key, bool is_verifying,
                    std::uint32_t timeout_ms, std::uint64_t cookie) {
    nb::list one;
    one.append(key);
    const std::vector<std::string> names = copy_keys(one);
    CallOptions options = options_of(timeout_ms, cookie);
    options.is_verifying = is_verifying;
    return begin({}, [&](Client& client, const Borrowed&) {
      return client.view_page(text_of(name_space), names.front(), options);
    });
  }

  CallPtr view_file(nb::bytes path, std::uint64_t offset, std::uint64_t length, bool is_verifying,
                    std::uint32_t timeout_ms, std::uint64_t cookie) {
    CallOptions options = options_of(timeout_ms, cookie);
    options.is_verifying = is_verifying;
    return begin({}, [&](Client& client, const Borrowed&) {
      return client.view_file(text_of(path), offset, length, options);
    });
  }

  CallPtr clear(nb::bytes name_space, std::uint32_t timeout_ms, std::uint64_t cookie) {
    return begin({}, [&](Client& client, const Borrowed&) {
      return client.clear(text_of(name_space), options_of(timeout_ms, cookie));
    });
  }

  CallPtr ping(std::uint32_t timeout_ms, std::uint64_t cookie) {
    return begin({}, [&](Client& client, const Borrowed&) {
      return client.ping(options_of(timeout_ms, cookie));
    });
  }

  CallPtr drain(nb::bytes node_name, std::uint32_t timeout_ms, std::uint64_t cookie) {
    return begin({}, [&](Client& client, const Borrowed&) {
      return client.drain(text_of(node_name), options_of(timeout_ms, cookie));
    });
  }

  CallPtr ask_nodes(nb::bytes text, bool is_about_settings, bool is_page, std::string only,
                    std::uint32_t timeout_ms, std::uint64_t cookie) {
    const NodeQuestion question{is_about_settings, std::string(text_of(text)), is_page,
                                std::move(only)};
    return begin({}, [&](Client& client, const Borrowed&) {
      return client.ask_nodes(question, options_of(timeout_ms, cookie));
    });
  }

  /// By its address: memory of a GPU has no buffer of Python's. The caller keeps it.
  void register_memory(std::uintptr_t address, std::size_t bytes) {
    Error fault;
    {
      GilReleased released;
      client_->with([&](Client& client) { fault = client.register_memory({at(address), bytes}); });
    }
    if (!fault.message.empty()) raise(fault);
  }
  bool deregister_memory(std::uintptr_t address, std::size_t bytes) {
    bool was_registered = false;
    GilReleased released;
    client_->with([&](Client& client) {
      was_registered = client.deregister_memory({at(address), bytes});
    });
    return was_registered;
  }
  std::string direct_lack(std::uintptr_t address, std::size_t bytes) {
    std::string lack;
    GilReleased released;
    client_->with([&](Client& client) { lack = client.direct_lack({at(address), bytes}); });
    return lack;
  }

  int fileno() const {
    if (descriptor_ < 0) raise(FaultKind::closed, "the client is closed", "make a new client");
    return descriptor_;
  }

  nb::list finished(std::size_t count_max) {
    std::vector<OperationRef> operations;
    {
      GilReleased released;
      client_->with([&](Client& client) { operations = client.finished(count_max); });
    }
    nb::list cookies;
    for (const OperationRef& operation : operations) cookies.append(operation->cookie());
    return cookies;
  }

  /// epoch, hash of the list, the nodes as `NAME=ADDR:PORT[+ADDR:PORT...]`
  nb::tuple map() {
    wire::Map map;
    {
      GilReleased released;
      client_->with([&](Client& client) { map = client.map(); });
    }
    nb::list nodes;
    for (const wire::MapNode& node : map.nodes) {
      nodes.append(nb::str(node.addresses.c_str(), node.addresses.size()));
    }
    return nb::make_tuple(map.epoch, nb::bytes(map.list_hash.data(), map.list_hash.size()), nodes);
  }

  nb::dict cluster() {
    wire::Map map;
    {
      GilReleased released;
      client_->with([&](Client& client) { map = client.map(); });
    }
    constexpr const char* PROVIDERS[] = {"static", "etcd", "kubernetes"};
    nb::dict cluster;
    cluster["epoch"] = map.epoch;
    cluster["provider"] =
        PROVIDERS[std::min<std::size_t>(static_cast<std::size_t>(map.provider), 2)];
    cluster["replicas"] = map.replicas;
    cluster["lease_ms"] = map.lease_ms;
    nb::dict namespaces;
    for (const auto& each : map.namespaces)
      namespaces[nb::bytes(each.name.data(), each.name.size())] = each.replicas;
    cluster["namespaces"] = namespaces;
    nb::list nodes;
    for (const wire::MapNode& node : map.nodes) {
      nodes.append(nb::make_tuple(nb::str(node.addresses.c_str(), node.addresses.size()), node.boot,
                                  node.weight, static_cast<int>(node.state),
                                  static_cast<int>(node.left_by)));
    }
    cluster["nodes"] = nodes;
    return cluster;
  }

  nb::tuple counts() {
    ClientCounts counts;
    {
      GilReleased released;
      client_->with([&](Client& client) { counts = client.counts(); });
    }
    return nb::make_tuple(counts.hedged, counts.hedges_won, counts.bounced_in_bytes,
                          counts.bounced_out_bytes, counts.bounce_faults, counts.direct_in_bytes,
                          counts.direct_out_bytes, counts.checked_bytes, counts.direct_refused);
  }

  void close() {
    descriptor_ = -1;
    if (!client_) return;
    GilReleased released;
    client_->close();
  }

 private:
  static Result<std::unique_ptr<Client>> connect_without_gil(const ClientOptions& options) {
    GilReleased released;
    SignalsBlocked blocked;
    return Client::connect(options);
  }

  CallPtr begin(Borrowed borrowed, const Call::Start& start, std::uint64_t cookie = 0) {
    auto call = std::make_unique<Call>(client_, std::move(borrowed));
    call->start(start, cookie == COOKIE_WAITED);
    return call;
  }

  std::shared_ptr<SharedClient> client_;
  int descriptor_ = -1;
};

/// The arguments that every operation takes last.
auto class_arg() { return nb::arg("eviction_class") = EVICTION_CLASSES; }
auto tags_arg() { return nb::arg("tags") = nb::bytes("", 0); }
auto timeout_arg() { return nb::arg("timeout_ms") = 0; }
auto cookie_arg() { return nb::arg("cookie") = 0; }

void bind_pages(nb::class_<BoundClient>& client) {
  client
      .def("get_pages", &BoundClient::get_pages, nb::arg("namespace"), nb::arg("keys").none(),
           nb::arg("into").none(), nb::kw_only(), nb::arg("is_probe") = false, timeout_arg(),
           cookie_arg())
      .def("put_pages", &BoundClient::put_pages, nb::arg("namespace"), nb::arg("keys").none(),
           nb::arg("values").none(), nb::kw_only(), nb::arg("ttl_s") = 0, class_arg(), tags_arg(),
           timeout_arg(), cookie_arg())
      .def("exists", &BoundClient::exists, nb::arg("namespace"), nb::arg("keys").none(),
           nb::kw_only(), timeout_arg(), cookie_arg())
      .def("sync_pages", &BoundClient::sync_pages, nb::arg("namespace"), nb::arg("keys").none(),
           nb::kw_only(), timeout_arg(), cookie_arg())
      .def("drop_pages", &BoundClient::drop_pages, nb::arg("namespace"), nb::arg("keys").none(),
           nb::kw_only(), timeout_arg(), cookie_arg())
      .def("list_pages", &BoundClient::list_pages, nb::arg("namespace"), nb::kw_only(),
           nb::arg("after"), nb::arg("count_max"), timeout_arg(), cookie_arg());
}

void bind_files(nb::class_<BoundClient>& client) {
  client
      .def("create", &BoundClient::create, nb::arg("path"), nb::kw_only(),
           nb::arg("chunk_bytes") = 0, nb::arg("ttl_s") = 0, nb::arg("replicas") = 0,
           nb::arg("is_if_absent") = false, timeout_arg(), cookie_arg())
      .def("write", &BoundClient::write, nb::arg("path"), nb::arg("offset"),
           nb::arg("buffers").none(), nb::kw_only(), nb::arg("if_generation") = 0, class_arg(),
           tags_arg(), timeout_arg(), cookie_arg())
      .def("put", &BoundClient::put, nb::arg("path"), nb::arg("buffers").none(), nb::kw_only(),
           nb::arg("chunk_bytes") = 0, nb::arg("ttl_s") = 0, nb::arg("replicas") = 0, class_arg(),
           tags_arg(), timeout_arg(), cookie_arg())
      .def("append", &BoundClient::append, nb::arg("path"), nb::arg("buffers").none(),
           nb::kw_only(), class_arg(), tags_arg(), timeout_arg(), cookie_arg())
      .def("read", &BoundClient::read, nb::arg("path"), nb::arg("offset"), nb::arg("into").none(),
           nb::kw_only(), timeout_arg(), cookie_arg())
      .def("stat", &BoundClient::stat, nb::arg("path"), nb::kw_only(), timeout_arg(), cookie_arg())
      .def("truncate", &BoundClient::truncate, nb::arg("path"), nb::arg("size"), nb::kw_only(),
           timeout_arg(), cookie_arg())
      .def("unlink", &BoundClient::unlink, nb::arg("path"), nb::kw_only(), timeout_arg(),
           cookie_arg())
      .def("list_files", &BoundClient::list_files, nb::arg("prefix"), nb::kw_only(),
           nb::arg("after"), nb::arg("count_max"), timeout_arg(), cookie_arg());
}

void bind_views(nb::class_<BoundClient>& client) {
  client
      .def("sync_file", &BoundClient::sync_file, nb::arg("path"), nb::kw_only(), timeout_arg(),
           cookie_arg())
      .def("advise", &BoundClient::advise, nb::arg("path"), nb::arg("is_needed"),
           nb::arg("replicas"), nb::kw_only(), timeout_arg(), cookie_arg())
      .def("advise_memory", &BoundClient::advise_memory, nb::arg("path"), nb::arg("wish"),
           nb::arg("offset"), nb::arg("length"), nb::kw_only(), nb::arg("trace") = 0, timeout_arg(),
           cookie_arg())
      .def("advise_pages", &BoundClient::advise_pages, nb::arg("namespace"), nb::arg("keys"),
           nb::arg("wish"), nb::kw_only(), nb::arg("trace") = 0, timeout_arg(), cookie_arg())
      .def("view_page", &BoundClient::view_page, nb::arg("namespace"), nb::arg("key").none(),
           nb::kw_only(), nb::arg("is_verifying") = false, timeout_arg(), cookie_arg())
      .def("view_file", &BoundClient::view_file, nb::arg("path"), nb::arg("offset"),
           nb::arg("length"), nb::kw_only(), nb::arg("is_verifying") = false, timeout_arg(),
           cookie_arg());
}

}  // namespace

void bind_client(nb::module_& module) {
  nb::class_<BoundClient> client(module, "Client",
                                 "The native client: each method starts an operation.");
  client.def(nb::init<std::vector<std::string>, std::string, std::vector<std::string>,
                      std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, bool,
                      const std::string&, std::string, std::size_t, const std::string&,
                      const std::string&, const nb::dict&, const nb::dict&, const nb::dict&>(),
             nb::arg("seeds"), nb::arg("cluster"), nb::kw_only(),
             nb::arg("local") = std::vector<std::string>{}, nb::arg("io_threads") = 2,
             nb::arg("streams") = 2, nb::arg("timeout_ms") = 5'000, nb::arg("connect_ms") = 1'000,
             nb::arg("is_verifying") = true, nb::arg("transport") = "auto",
             nb::arg("congestion") = "",
             nb::arg("socket_buffer_bytes") = tcp::SocketSettings{}.buffer_bytes,
             nb::arg("token") = "", nb::arg("token_file") = "", nb::arg("tls") = nb::dict(),
             nb::arg("rdma") = nb::dict(), nb::arg("devices") = nb::dict());
  bind_pages(client);
  bind_files(client);
  bind_views(client);
  client
      .def("clear", &BoundClient::clear, nb::arg("namespace"), nb::kw_only(), timeout_arg(),
           cookie_arg())
      .def("ping", &BoundClient::ping, nb::kw_only(), timeout_arg(), cookie_arg())
      .def("drain", &BoundClient::drain, nb::arg("node_name"), nb::kw_only(), timeout_arg(),
           cookie_arg())
      .def("ask_nodes", &BoundClient::ask_nodes, nb::arg("text"), nb::kw_only(),
           nb::arg("is_about_settings") = false, nb::arg("is_page") = false, nb::arg("only") = "",
           timeout_arg(), cookie_arg())
      .def("register_memory", &BoundClient::register_memory, nb::arg("address"), nb::arg("bytes"))
      .def("direct_lack", &BoundClient::direct_lack, nb::arg("address"), nb::arg("bytes"))
      .def("deregister_memory", &BoundClient::deregister_memory, nb::arg("address"),
           nb::arg("bytes"))
      .def("fileno", &BoundClient::fileno)
      .def("map", &BoundClient::map)
      .def("cluster", &BoundClient::cluster)
      .def("counts", &BoundClient::counts)
      .def("finished", &BoundClient::finished, nb::arg("count_max"))
      .def("close", &BoundClient::close);
}

}  // namespace gd2fs::bindings
