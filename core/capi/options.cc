#include "options.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>

#include "../limits.h"
#include "../transport/interface.h"

namespace gd2fs::capi {

namespace {

constexpr std::uint32_t THREADS_MAX = 64;
constexpr std::size_t ADDRESSES_MAX = NODES_MAX;  // of one list
constexpr std::string_view CP_SCHEME = "gd2fs://";
constexpr std::string_view TCP_SCHEME = "tcp://";
constexpr std::string_view RDMA_SCHEME = "rdma://";
const char* const CP_HINT = "write `gd2fs://HOST:7527,gd2fs://HOST2:7527`";
const char* const DP_HINT =
    "write `tcp://LOCAL_IP,tcp://LOCAL_IP2`, or `rdma://` for each, or leave it out";

Error fault_of(std::string message, std::string hint) {
  return {std::move(message), std::move(hint), Status::invalid};
}

std::string quoted(std::string_view text) { return "`" + std::string(text) + "`"; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// Of a variable of the environment; nullptr: it is not set, or empty.
const char* value_of(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

/// Nothing for NULL and for an empty text.
std::vector<std::string_view> entries_of(const char* list) {
  std::vector<std::string_view> entries;
  const std::string_view text = list == nullptr ? std::string_view() : trimmed(list);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    entries.push_back(trimmed(text.substr(at, end - at)));
    at = end + 1;
  }
  return entries;
}

Error add_seed(std::string_view entry, std::vector<std::string>& seeds) {
  std::string_view address = entry;
  if (address.starts_with(CP_SCHEME)) address.remove_prefix(CP_SCHEME.size());
  const bool is_odd = address.find_first_of("/?#@ ") != std::string_view::npos;
  if (is_odd || !tcp::parse_host_port(std::string(address)))
    return fault_of("cp_address: " + quoted(entry) + " is not an address", CP_HINT);
  seeds.emplace_back(address);
  return {};
}

/// A local IP address as a socket address; without a family when it is none.
tcp::Address parse_ip(std::string_view text) {
  std::string host(text);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  in6_addr number;
  const bool is_ip = inet_pton(AF_INET, host.c_str(), &number) == 1 ||
                     inet_pton(AF_INET6, host.c_str(), &number) == 1;
  if (!is_ip) return {};
  auto found = tcp::resolve({host, 0});
  return found && !found->empty() ? found->front() : tcp::Address{};
}

/// One scheme in a list: RDMA is for all streams or for none.
Error fill_scheme(std::span<const std::string_view> local, ClientOptions& out) {
  const auto count = [&](std::string_view scheme) {
    return std::ranges::count_if(local, [&](auto each) { return each.starts_with(scheme); });
  };
  if (count(RDMA_SCHEME) == 0) return {};
  if (count(TCP_SCHEME) > 0)
    return fault_of("dp_address: both `tcp://` and `rdma://` are in the list", DP_HINT);
  out.transport = Transport::rdma;
  return {};
}

Error add_local(std::string_view entry, std::vector<std::string>& local) {
  std::string_view host = entry;
  for (const std::string_view scheme : {TCP_SCHEME, RDMA_SCHEME})
    if (host.starts_with(scheme)) host.remove_prefix(scheme.size());
  const tcp::Address address = parse_ip(host);
  if (address.family() == AF_UNSPEC)
    return fault_of("dp_address: " + quoted(entry) + " is not a local IP address", DP_HINT);
  if (tcp::is_loopback(address)) return {};  // no choice of a NIC
  local.push_back(tcp::host_text(address));
  return {};
}

Error fill_addresses(const xfer_gd2fs_options& options, ClientOptions& out) {
  const auto seeds = entries_of(options.cp_address);
  const auto local = entries_of(options.dp_address);
  if (seeds.empty()) return fault_of("cp_address names no node", CP_HINT);
  if (std::max(seeds.size(), local.size()) > ADDRESSES_MAX)
    return fault_of("a list has more than " + std::to_string(ADDRESSES_MAX) + " addresses",
                    "list fewer");
  for (const std::string_view entry : seeds)
    if (Error fault = add_seed(entry, out.seeds); !fault.message.empty()) return fault;
  for (const std::string_view entry : local)
    if (Error fault = add_local(entry, out.local); !fault.message.empty()) return fault;
  return fill_scheme(local, out);
}

/// A field, else the environment, else what `count` is already.
Error fill_count(const char* field, std::uint32_t asked, const char* variable,
                 std::uint32_t& count) {
  const char* text = std::getenv(variable);
  std::string where = field;
  if (asked != 0) {
    count = asked;
  } else if (text != nullptr && *text != '\0') {
    where = variable;
    const char* const end = text + std::strlen(text);
    const auto [stop, fault] = std::from_chars(text, end, count);
    if (fault != std::errc{} || stop != end)
      return fault_of(where + " is " + quoted(text) + ", not a number", "fix or unset it");
  }
  if (count >= 1 && count <= THREADS_MAX) return {};
  return fault_of(where + " is " + std::to_string(count),
                  "give 1 to " + std::to_string(THREADS_MAX));
}

Error fill_counts(const xfer_gd2fs_options& options, ClientOptions& out) {
  std::uint32_t memory_threads = 1;  // checked only: the I/O threads do their work
  Error fault =
      fill_count("iothread_count", options.iothread_count, "GD2FS_IOTHREADS", out.io_threads);
  if (fault.message.empty())
    fault =
        fill_count("conn_stream_count", options.conn_stream_count, "GD2FS_STREAMS", out.streams);
  if (fault.message.empty())
    fault =
        fill_count("memthread_count", options.memthread_count, "GD2FS_MEMTHREADS", memory_threads);
  return fault;
}

Error fill_transport(ClientOptions& out) {
  const char* const text = value_of("GD2FS_TRANSPORT");
  if (text == nullptr) return {};
  auto transport = parse_transport(text);
  if (!transport) return transport.error();
  const bool is_rdma = out.transport == Transport::rdma;  // by `dp_address`
  if (is_rdma && *transport != Transport::rdma && *transport != Transport::automatic)
    return fault_of("dp_address wants RDMA, and GD2FS_TRANSPORT " + quoted(text), "unset one");
  if (!is_rdma) out.transport = *transport;
  return {};
}

void fill_rdma(ucx::Options& ucx) {
  const auto fill = [](const char* variable, std::string& text) {
    if (const char* const given = value_of(variable)) text = given;
  };
  fill("GD2FS_UCX", ucx.library);
  fill("GD2FS_UCX_TLS", ucx.transports);
}

/// From the environment alone: a secret is nothing for a struct that programs print.
Error fill_token(ClientOptions& out) {
  if (const char* const file = value_of("GD2FS_TOKEN_FILE")) {
    auto source = TokenSource::of_file(file);
    if (!source) return source.error();
    out.token = std::move(*source);
    return {};
  }
  const char* const text = value_of("GD2FS_TOKEN");
  if (text == nullptr) return {};
  auto token = parse_token(text);
  if (!token) return fault_of("GD2FS_TOKEN: " + token.error().message, token.error().hint);
  out.token = std::make_shared<TokenSource>(std::move(*token));
  return {};
}

/// `1048576`, `512K`, `1MiB`: powers of 1024. Nothing when it is no size.
std::optional<std::size_t> parse_size(std::string_view text) {
  std::size_t size = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, fault] = std::from_chars(text.data(), end, size);
  std::string unit(stop, end);
  if (fault != std::errc{} || size > 64 * GiB) return {};
  if (unit.size() > 1 && unit.ends_with('B')) unit.pop_back();
  if (unit.size() > 1 && unit.ends_with('i')) unit.pop_back();
  if (unit == "K") return size * KiB;
  if (unit == "M") return size * MiB;
  if (unit == "G" && size <= 1024) return size * GiB;
  if (unit.empty() || unit == "B") return size;
  return {};
}

Error fill_sockets(tcp::SocketSettings& sockets) {
  if (const char* name = std::getenv("GD2FS_CONGESTION")) sockets.congestion = name;
  const char* const text = value_of("GD2FS_SOCKET_BUFFER");
  if (text == nullptr) return {};
  const auto size = parse_size(text);
  if (!size)
    return fault_of("GD2FS_SOCKET_BUFFER is " + quoted(text) + ", not a size",
                    "for example `1MiB`; or unset it");
  sockets.buffer_bytes = *size;
  return {};
}

/// `direct` or `bounce`; unset: direct.
Error fill_policy(const char* variable, bool& is_direct) {
  const char* const text = value_of(variable);
  if (text == nullptr) return {};
  is_direct = std::string_view(text) == "direct";
  if (is_direct || std::string_view(text) == "bounce") return {};
  return fault_of(std::string(variable) + " is " + quoted(text), "`direct` or `bounce`");
}

Error fill_devices(DeviceSettings& devices) {
  if (Error fault = fill_policy("GD2FS_LOAD_POLICY", devices.is_load_direct);
      !fault.message.empty())
    return fault;
  if (Error fault = fill_policy("GD2FS_SAVE_POLICY", devices.is_save_direct);
      !fault.message.empty())
    return fault;
  if (const char* const text = value_of("GD2FS_BOUNCE_SIZE")) {
    const auto size = parse_size(text);
    if (!size || *size < BOUNCE_BYTES_MIN || *size > BOUNCE_BYTES_MAX)
      return fault_of("GD2FS_BOUNCE_SIZE is " + quoted(text), "`1MiB` to `64GiB`; or unset it");
    devices.bounce_bytes = *size;
  }
  const char* const checks = value_of("GD2FS_LOAD_CHECKS");
  if (checks == nullptr) return {};
  const char* const end = checks + std::strlen(checks);
  const auto [stop, fault] = std::from_chars(checks, end, devices.checked_one_in);
  if (fault == std::errc{} && stop == end) return {};
  return fault_of("GD2FS_LOAD_CHECKS is " + quoted(checks), "one load in so many; 0: none");
}

void fill_tls(tls::Settings& tls) {
  const auto fill = [](const char* variable, std::string& text) {
    if (const char* const given = std::getenv(variable)) text = given;
  };
  fill("GD2FS_TLS_CA", tls.ca);
  fill("GD2FS_TLS_CERT", tls.cert);
  fill("GD2FS_TLS_KEY", tls.key);
  fill("GD2FS_TLS_NAME", tls.name);
}

}  // namespace

Result<ClientOptions> read_options(const xfer_gd2fs_options& options) {
  ClientOptions out;
  if (Error fault = fill_addresses(options, out); !fault.message.empty()) return fault;
  if (Error fault = fill_counts(options, out); !fault.message.empty()) return fault;
  if (Error fault = fill_transport(out); !fault.message.empty()) return fault;
  if (Error fault = fill_sockets(out.sockets); !fault.message.empty()) return fault;
  if (Error fault = fill_devices(out.devices); !fault.message.empty()) return fault;
  if (Error fault = fill_token(out); !fault.message.empty()) return fault;
  fill_tls(out.tls);
  fill_rdma(out.rdma.ucx);
  const bool is_tls_wanted = out.tls.is_on() || !out.tls.name.empty();
  if (is_tls_wanted && out.tls.ca.empty())
    return fault_of("GD2FS_TLS_CA is missing: without it there is no TLS",
                    "name the file of who signs the nodes' certificates");
  if (options.cluster_id == nullptr || *options.cluster_id == '\0')
    return fault_of("cluster_id names no cluster",
                    "give the name that its nodes were started with");
  out.cluster = options.cluster_id;
  if (options.timeout != 0) out.timeout_ms = options.timeout;
  return out;
}

}  // namespace gd2fs::capi
