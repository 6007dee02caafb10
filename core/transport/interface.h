// Interface: which of this machine's addresses lies in which subnet. Asked anew each time: cables
// and addresses come and go.
#pragma once

#include <string>
#include <vector>

#include "tcp.h"

namespace gd2fs::tcp {

/// One address of an interface that is up and not loopback.
struct Interface {
  std::string name;
  unsigned index = 0;
  Address address;
  std::size_t prefix_bits = 0;  // of its subnet

  bool has(const Address& other) const noexcept;
  /// Is `other` in the subnet, so that it is reached without a router?
  bool reaches(const Address& other) const noexcept;
};

std::vector<Interface> interfaces();

bool is_loopback(const Address& address) noexcept;
/// Leading bits that both have; 0 for different families.
std::size_t shared_bits(const Address& a, const Address& b) noexcept;

/// In which order one of a client's streams tries a node's addresses: those that share a subnet
/// with `local` first, then by shared leading bits; streams begin with different ones among equals.
/// `local` nullptr: all are equal.
std::vector<Address> order_for(const Address* local, std::size_t stream,
                               const std::vector<Address>& remote,
                               const std::vector<Interface>& interfaces);

}  // namespace gd2fs::tcp
