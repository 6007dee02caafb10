// Unix: stream sockets of one host, under abstract names that both sides derive from the map.
//
// An abstract name belongs to a network namespace: a node that is not of this host, or in another
// container's network, is simply not found there, and TCP is used.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "../error.h"
#include "tcp.h"

namespace gd2fs::local {

/// Who is at the other end of a Unix socket, as the kernel noted it when it was connected.
struct Peer {
  uid_t uid = 0;
  pid_t pid = 0;
};

/// The name of a node's socket: of its cluster, the hash of the list, and its entry of the map.
std::string socket_name(std::string_view cluster, const std::array<std::byte, 16>& list_hash,
                        std::string_view map_entry);

/// A listening socket under an abstract name. It is gone with its descriptor.
Result<tcp::Descriptor> listen_at(const std::string& name);
/// A connection, or nothing (errno): nobody listens there, or its queue is full. Never waits.
tcp::Descriptor connect_to(const std::string& name);

/// Nothing when `fd` is no Unix socket.
std::optional<Peer> peer_of(int fd);
/// A descriptor of the process that connected a Unix socket, which becomes readable when it ends;
/// empty when that cannot be had.
tcp::Descriptor process_of(int fd);

/// Sends bytes, the first of which carries `descriptor` when that is not -1. As `sendmsg`.
ssize_t send_with(int fd, const struct iovec* runs, std::size_t count, int descriptor);
/// Receives bytes, and a descriptor when one comes with them. As `recvmsg`.
ssize_t receive_with(int fd, void* into, std::size_t bytes, tcp::Descriptor& descriptor);

}  // namespace gd2fs::local
