#include "worker.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace gd2fs::serve {
namespace {

constexpr int EVENTS_MAX = 64;
constexpr int TICK_MS = 100;
constexpr std::size_t SCRATCH_BYTES = 256 * KiB;
constexpr std::size_t ACCEPTS_MAX = 64;  // of one listener in one round

// What an event is about: 0 the bell, then listeners, then connections.
constexpr std::uint64_t BELL_ID = 0;
constexpr std::uint64_t CONNECTION_ID_MIN = 1 << 16;
constexpr std::uint64_t TRANSFERS_BIT = std::uint64_t{1} << 63;  // beside a connection's id

}  // namespace

Worker::Worker(Node& node, Janitor& janitor, const numa::Node* near)
    : node_(node),
      janitor_(janitor),
      near_(near),
      tally_(node.tallies.open()),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      bell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      scratch_(SCRATCH_BYTES),
      next_id_(CONNECTION_ID_MIN) {
  watch(bell_.get(), EPOLLIN, BELL_ID);
}

Worker::~Worker() { stop(); }

bool Worker::watch(int fd, std::uint32_t events, std::uint64_t id) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void Worker::listen_on(tcp::Descriptor listener, Accepted accepted) {
  accepted_ = std::move(accepted);
  listeners_.push_back(std::move(listener));
  watch(listeners_.back().get(), EPOLLIN, listeners_.size());
}

void Worker::start() {
  thread_ = std::thread([this] {
    if (near_ != nullptr) numa::run_on(*near_);
    loop();
  });
}

void Worker::stop() {
  if (!thread_.joinable()) return;
  post([] {});
  thread_.join();
}

void Worker::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(task));
  }
  const std::uint64_t one = 1;
  static_cast<void>(!write(bell_.get(), &one, sizeof one));  // full: it rings already
}

void Worker::tell_map() {
  post([this] {
    for (const auto& [id, connection] : connections_) {
      connection->tell_map();
      make_ready(*connection);
    }
  });
}

void Worker::look_at_tokens() {
  post([this] {
    for (const auto& [id, connection] : connections_) {
      connection->look_at_tokens();
      make_ready(*connection);
    }
  });
}

void Worker::adopt(tcp::Descriptor socket, std::string host) {
  load_.fetch_add(1, std::memory_order_relaxed);
  // std::function must be copyable: the descriptor travels in shared ownership.
  auto shared = std::make_shared<tcp::Descriptor>(std::move(socket));
  post([this, shared, host = std::move(host)] { open(std::move(*shared), host); });
}

void Worker::open(tcp::Descriptor socket, std::string host) {
  const std::uint64_t id = next_id_++;
  const bool is_local = local::peer_of(socket.get()).has_value();  // never leaves this machine
  auto session = node_.tls == nullptr || is_local ? nullptr : node_.tls->accept();
  auto connection = std::make_unique<Connection>(
      *this, Channel(std::move(socket), std::move(session)), std::move(host), id);
  constexpr std::uint32_t EVENTS = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  if (!watch(connection->fd(), EVENTS, id)) {
    load_.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  Connection& opened = *connections_.emplace(id, std::move(connection)).first->second;
  make_ready(opened);
}

Connection* Worker::find(std::uint64_t id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second.get();
}

void Worker::make_ready(Connection& connection) {
  if (connection.is_ready) return;
  connection.is_ready = true;
  ready_.push_back(connection.id());
}

void Worker::watch_transfers(const Connection& connection, int descriptor) {
  watch(descriptor, EPOLLIN, connection.id() | TRANSFERS_BIT);
}

void Worker::forget_transfers(int descriptor) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
}

void Worker::loop() {
  while (!node_.is_stopping.load(std::memory_order_relaxed)) {
    wait();
    run_posted();
    run_turns();
    tick();
  }
  listeners_.clear();
  connections_.clear();
}

void Worker::wait() {
  const bool is_idle = connections_.empty() && !is_paused_ && node_.views.is_empty();
  const int timeout_ms = !ready_.empty() ? 0 : is_idle ? -1 : TICK_MS;
  std::array<epoll_event, EVENTS_MAX> events;
  const int count = epoll_wait(epoll_.get(), events.data(), EVENTS_MAX, timeout_ms);
  for (int index = 0; index < count; ++index) {
    const epoll_event& event = events[static_cast<std::size_t>(index)];
    const std::uint64_t id = event.data.u64;
    if (id == BELL_ID) {
      std::uint64_t rings = 0;
      static_cast<void>(!::read(bell_.get(), &rings, sizeof rings));
    } else if (id < CONNECTION_ID_MIN) {
      accept_all(id - 1);
    } else if (Connection* connection = find(id & ~TRANSFERS_BIT)) {
      if ((id & TRANSFERS_BIT) == 0) connection->on_events(event.events);
      make_ready(*connection);
    }
  }
}

void Worker::accept_all(std::size_t listener) {
  for (std::size_t count = 0; count < ACCEPTS_MAX; ++count) {
    tcp::Address peer;
    tcp::Descriptor socket = tcp::accept_from(listeners_[listener].get(), peer);
    if (socket) {
      accepted_(std::move(socket), peer);
      continue;
    }
    if (errno == ECONNABORTED || errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) pause_listening(true);
    return;
  }
}

/// A listener that cannot be accepted from stays readable: without a pause this thread would spin.
void Worker::pause_listening(bool is_paused) {
  is_paused_ = is_paused;
  for (std::size_t index = 0; index < listeners_.size(); ++index) {
    epoll_event event{};
    event.events = is_paused ? 0u : static_cast<std::uint32_t>(EPOLLIN);
    event.data.u64 = index + 1;
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listeners_[index].get(), &event);
  }
}

void Worker::run_posted() {
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(posted_);
  }
  for (const auto& task : tasks) task();
}

void Worker::run_turns() {
  std::vector<std::uint64_t> turns;
  turns.swap(ready_);
  for (const std::uint64_t id : turns) {
    Connection* connection = find(id);
    if (connection == nullptr) continue;
    connection->is_ready = false;
    const bool is_more = connection->turn(turns.size() == 1);
    if (connection->is_closed()) {
      connections_.erase(id);
      load_.fetch_sub(1, std::memory_order_relaxed);
    } else if (is_more) {
      make_ready(*connection);
    }
  }
}

void Worker::tick() {
  const std::int64_t now_ms = boottime_ms();
  if (now_ms - ticked_ms_ < TICK_MS) return;
  ticked_ms_ = now_ms;
  if (is_paused_) pause_listening(false);
  node_.views.reap();
  for (auto each = connections_.begin(); each != connections_.end();) {
    each->second->tick(now_ms);
    if (each->second->is_closed()) {
      each = connections_.erase(each);
      load_.fetch_sub(1, std::memory_order_relaxed);
    } else {
      ++each;
    }
  }
}

}  // namespace gd2fs::serve
