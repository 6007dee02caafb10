// Raw server: the other end of every ceiling. It has a node's kind of memory and a node's sockets,
// and none of a node's work.
//
// One thread per bulk connection, as fast as blocking calls go; one epoll loop for small answers.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "../arena.h"
#include "bare_loop.h"
#include "raw_socket.h"

namespace gd2fs::bench {

class RawServer {
 public:
  /// Touches all of the memory before it returns.
  static Result<std::unique_ptr<RawServer>> start(const ArenaOptions& memory);
  ~RawServer();

  /// `HOST:PORT` and `@NAME` of bulk transfers.
  const std::string& tcp_address() const { return tcp_address_; }
  const std::string& unix_address() const { return unix_address_; }
  /// The same of small answers.
  const std::string& bare_tcp_address() const { return bare_->tcp_address(); }
  const std::string& bare_unix_address() const { return bare_->unix_address(); }
  std::string rung_name() const { return arena_.rung_name(); }
  /// Whether memory of this kind can be lent to a socket here, tried at the start.
  bool can_vmsplice() const { return can_vmsplice_; }

 private:
  struct Line {
    tcp::Descriptor socket;
    std::thread thread;
  };

  explicit RawServer(Arena arena) : arena_(std::move(arena)) {}
  Result<bool> listen();
  void accept_all();
  void serve(int fd) const;
  bool obey(const RawOrder& order, int fd, Splicer& splicer) const;

  Arena arena_;
  std::unique_ptr<BareLoop> bare_;
  std::string tcp_address_, unix_address_;
  bool can_vmsplice_ = false;
  tcp::Descriptor tcp_, unix_, stop_;
  std::thread acceptor_;
  std::list<Line> lines_;  // the acceptor's until it is joined
};

}  // namespace gd2fs::bench
