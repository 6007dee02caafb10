// Proxy: stands between a client and a node and does what networks do: stalls, cuts, corrupts.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "transport/tcp.h"

namespace gd2fs {

class Proxy {
 public:
  enum class Mode { pass, stall, corrupt };

  Proxy() {
    auto address = tcp::resolve({"127.0.0.1", 0});
    listener_ = std::move(*tcp::listen_at(address->front()));
    address_ = tcp::address_text(tcp::local_address(listener_.get()));
    acceptor_ = std::thread([this] { accept_all(); });
  }

  ~Proxy() {
    is_over_ = true;
    set(Mode::pass);
    cut();
    acceptor_.join();
    for (std::thread& pump : pumps_) pump.join();
  }

  const std::string& address() const { return address_; }
  /// Until then whoever connects is turned away.
  void forward_to(const std::string& target) {
    const std::lock_guard lock(mutex_);
    target_ = target;
  }

  void set(Mode mode) {
    const std::lock_guard lock(mutex_);
    mode_ = mode;
    changed_.notify_all();
  }
  /// Stalls once so many bytes more have gone from the node to the client.
  void stall_after(std::int64_t bytes) { bytes_to_stall_ = bytes; }
  bool is_stalled() const { return mode_ == Mode::stall; }
  /// Closes every connection.
  void cut() {
    const std::lock_guard lock(mutex_);
    for (const auto& link : links_)
      for (const tcp::Descriptor* end : {&link->client, &link->node})
        shutdown(end->get(), SHUT_RDWR);
  }

 private:
  struct Link {
    tcp::Descriptor client;
    tcp::Descriptor node;
  };

  std::string target() {
    const std::lock_guard lock(mutex_);
    return target_;
  }

  void accept_all() {
    while (!is_over_) {
      pollfd watched{listener_.get(), POLLIN, 0};
      if (poll(&watched, 1, 20) != 1) continue;
      tcp::Address peer;
      auto link = std::make_unique<Link>();
      link->client = tcp::accept_from(listener_.get(), peer);
      const std::string text = target();
      if (text.empty()) continue;
      auto node =
          tcp::connect_within(tcp::resolve(*tcp::parse_host_port(text))->front(), nullptr, 500);
      if (!link->client || !node) continue;
      link->node = std::move(*node);
      const std::lock_guard lock(mutex_);
      Link* open = link.get();
      links_.push_back(std::move(link));
      pumps_.emplace_back([this, open] { pump(open->client.get(), open->node.get(), false); });
      pumps_.emplace_back([this, open] { pump(open->node.get(), open->client.get(), true); });
    }
  }

  void pump(int from, int to, bool is_to_client) {
    std::vector<char> bytes(64 * KiB);
    std::mt19937 random(1);
    while (!is_over_) {
      pollfd watched{from, POLLIN, 0};
      if (poll(&watched, 1, 20) != 1) continue;
      const ssize_t count = recv(from, bytes.data(), bytes.size(), 0);
      if (count <= 0) break;
      if (is_to_client && bytes_to_stall_ > 0 && (bytes_to_stall_ -= count) <= 0) set(Mode::stall);
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return mode_ != Mode::stall; });
      const bool is_hit = mode_ == Mode::corrupt && is_to_client && count > 16'000;
      lock.unlock();
      if (is_hit) bytes[random() % static_cast<std::size_t>(count)] ^= 1;
      if (!send_all(to, bytes.data(), static_cast<std::size_t>(count))) break;
    }
    shutdown(from, SHUT_RDWR);
    shutdown(to, SHUT_RDWR);
  }

  bool send_all(int to, const char* bytes, std::size_t left) {
    while (left > 0 && !is_over_) {
      const ssize_t sent = send(to, bytes, left, MSG_NOSIGNAL);
      if (sent > 0) {
        bytes += sent;
        left -= static_cast<std::size_t>(sent);
        continue;
      }
      pollfd watched{to, POLLOUT, 0};
      if (sent < 0 && errno != EAGAIN) return false;
      poll(&watched, 1, 20);
    }
    return left == 0;
  }

  std::string address_;
  std::string target_;
  tcp::Descriptor listener_;
  std::atomic<bool> is_over_{false};
  std::atomic<Mode> mode_{Mode::pass};
  std::atomic<std::int64_t> bytes_to_stall_{0};
  std::mutex mutex_;  // Guards: target_, links_, pumps_, and the wait for another mode.
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::thread> pumps_;
  std::thread acceptor_;
};

}  // namespace gd2fs
