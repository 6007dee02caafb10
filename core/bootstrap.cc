#include "bootstrap.h"

#include <poll.h>

#include <cerrno>

#include "introduction.h"
#include "io_thread.h"
#include "transport/tcp.h"

namespace gd2fs {

namespace {

constexpr const char* DENIED_HINT =
    "check the cluster's name, the token, and that client and nodes are of one release";

/// One frame without payload.
struct Frame {
  wire::Header header;
  wire::Bytes table;
};

Error timeout_error(std::uint32_t connect_ms) {
  return {"no answer within " + std::to_string(connect_ms) + " ms",
          "check that a GD2FS node listens there and that no firewall drops its packets"};
}

/// A blocking conversation on one channel until a deadline.
class Conversation {
 public:
  Conversation(Channel channel, std::int64_t until_ms, std::uint32_t connect_ms)
      : channel_(std::move(channel)), until_ms_(until_ms), connect_ms_(connect_ms) {}

  /// Nothing wrong: an empty message.
  Error say(wire::View bytes) {
    while (!bytes.empty()) {
      const iovec run{const_cast<std::byte*>(bytes.data()), bytes.size()};  // it is only read
      const ssize_t sent = channel_.send(std::span(&run, 1));
      if (sent > 0) {
        bytes = bytes.subspan(static_cast<std::size_t>(sent));
      } else if (Error fault = wait(POLLOUT, sent); !fault.message.empty()) {
        return fault;
      }
    }
    return {};
  }

  /// The next frame, which has to be of this kind.
  Result<Frame> hear(wire::Kind kind) {
    wire::Bytes bytes(HEADER_BYTES);
    if (Error fault = fill(bytes, 0); !fault.message.empty()) return fault;
    const auto header = wire::decode_header(bytes);
    if (!header || header->payload_bytes() != 0) return stranger();
    bytes.resize(HEADER_BYTES + header->table_bytes);
    if (Error fault = fill(bytes, HEADER_BYTES); !fault.message.empty()) return fault;
    const wire::View all(bytes);
    if (!wire::check_matches(all.first(HEADER_BYTES), all.subspan(HEADER_BYTES))) return stranger();
    Frame frame{*header, wire::Bytes(bytes.begin() + HEADER_BYTES, bytes.end())};
    if (header->kind == wire::Kind::goodbye)
      return Error{"refused: " + wire::decode_goodbye(frame.table), DENIED_HINT,
                   (header->flags & wire::MORE) != 0 ? Status::unavailable : Status::denied};
    if (header->kind != kind) return stranger();
    return frame;
  }

  wire::View exporter() const noexcept { return channel_.exporter(); }

  static Error stranger() {
    return {"what answers there is not a GD2FS node of this version", "check host and port"};
  }

 private:
  Error fill(wire::Bytes& bytes, std::size_t at) {
    while (at < bytes.size()) {
      const ssize_t received = channel_.receive(bytes.data() + at, bytes.size() - at);
      if (received > 0) {
        at += static_cast<std::size_t>(received);
      } else if (Error fault = wait(POLLIN, received); !fault.message.empty()) {
        return fault;
      }
    }
    return {};
  }

  Error wait(short events, ssize_t answer) {
    const bool is_again = answer < 0 && (errno == EAGAIN || errno == EINTR);
    if (!is_again) return end();
    if (!channel_.is_open()) events = POLLIN;  // what is to be said waits for the handshake
    if (channel_.has_unsent()) events |= POLLOUT;
    pollfd watched{channel_.fd(), events, 0};
    const std::int64_t left_ms = until_ms_ - now_ms();
    if (left_ms <= 0 || poll(&watched, 1, static_cast<int>(left_ms)) == 0)
      return timeout_error(connect_ms_);
    return {};
  }

  Error end() const {
    const tls::Fault fault = channel_.fault();
    if (fault.cause == tls::Cause::nothing)
      return {"the connection was closed", "look at the log of that node"};
    const bool is_final = fault.cause != tls::Cause::handshake;
    return {fault.message, fault.hint, is_final ? Status::denied : Status::unavailable};
  }

  Channel channel_;
  std::int64_t until_ms_;
  std::uint32_t connect_ms_;
};

Result<wire::Map> greet(Conversation& with, wire::Hello hello, const TokenSourceRef& source) {
  Introduction introduction(source);
  wire::Bytes frame;
  introduction.hello(frame, std::move(hello));
  if (Error fault = with.say(frame); !fault.message.empty()) return fault;
  auto challenge = with.hear(wire::Kind::challenge);
  if (!challenge) return challenge.error();
  const auto terms = wire::decode_challenge(challenge->table);
  if (!terms || terms->version != wire::VERSION) return Conversation::stranger();
  frame.clear();
  introduction.proof(frame, challenge->table, with.exporter());
  if (Error fault = with.say(frame); !fault.message.empty()) return fault;
  auto welcome = with.hear(wire::Kind::welcome);
  if (!welcome) return welcome.error();
  if (!introduction.takes_welcome(welcome->table, with.exporter()))
    return Error{UNPROVEN_NODE, DENIED_HINT, Status::denied};
  auto answer = with.hear(wire::Kind::map);
  if (!answer) return answer.error();
  auto map = wire::decode_map(answer->table);
  if (!map || map->nodes.empty()) return Conversation::stranger();
  return std::move(*map);
}

Result<wire::Map> ask(const tcp::Address& address, const ClientOptions& options, wire::Hello hello,
                      std::unique_ptr<tls::Session> session) {
  if (session != nullptr) hello.capabilities &= ~wire::SPLICE_HOLDS;
  const std::int64_t until_ms = now_ms() + options.connect_ms;
  auto socket =
      tcp::connect_within(address, nullptr, static_cast<int>(options.connect_ms), options.sockets);
  if (!socket) return socket.error();
  Conversation conversation(Channel(std::move(*socket), std::move(session)), until_ms,
                            options.connect_ms);
  return greet(conversation, hello, options.token);
}

}  // namespace

bool say_after_greeting(Channel channel, const wire::Hello& hello, const TokenSourceRef& token,
                        wire::View frame, std::uint32_t timeout_ms) {
  Conversation conversation(std::move(channel), now_ms() + timeout_ms, timeout_ms);
  return static_cast<bool>(greet(conversation, hello, token)) &&
         conversation.say(frame).message.empty();
}

Result<Bootstrapped> bootstrap(const ClientOptions& options, const wire::Hello& hello,
                               const tls::ContextPtr& secured) {
  if (options.seeds.empty())
    return Error{"no node is named to connect to", "name at least one seed as `HOST:PORT`"};
  Error all;
  const auto note = [&](const std::string& seed, const Error& fault) {
    const std::string same = "cannot connect to " + seed + ": ";
    const bool is_twice = fault.message.starts_with(same);
    all.message += (all.message.empty() ? "cannot reach " : "; ") + seed + ": " +
                   fault.message.substr(is_twice ? same.size() : 0);
    if (!fault.hint.empty()) all.hint = fault.hint;
    if (fault.status == Status::denied) all.status = Status::denied;
  };
  for (const std::string& seed : options.seeds) {
    auto target = tcp::parse_host_port(seed);
    if (!target) {
      note(seed, target.error());
      continue;
    }
    auto addresses = tcp::resolve(*target);
    if (!addresses) {
      note(seed, addresses.error());
      continue;
    }
    for (const tcp::Address& address : *addresses) {
      auto session = secured == nullptr ? nullptr : secured->connect({target->host});
      auto map = ask(address, options, hello, std::move(session));
      if (map) return Bootstrapped{std::move(*map), tcp::host_text(address), target->host};
      note(seed, map.error());
    }
  }
  if (all.hint.empty()) all.hint = "start a node there, or name one that runs";
  return all;
}

}  // namespace gd2fs
