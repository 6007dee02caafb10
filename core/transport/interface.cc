#include "interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

namespace gd2fs::tcp {
namespace {

using Octets = std::span<const unsigned char>;

/// The address proper, in network order.
Octets octets_of(const Address& address) noexcept {
  // The family says which of the two structures the storage holds.
  if (address.family() == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    return {six->sin6_addr.s6_addr, sizeof six->sin6_addr.s6_addr};
  }
  if (address.family() != AF_INET) return {};
  const auto* four = reinterpret_cast<const sockaddr_in*>(&address.storage);
  return {reinterpret_cast<const unsigned char*>(&four->sin_addr), sizeof four->sin_addr};
}

Address address_from(const sockaddr& from) noexcept {
  Address address;
  address.bytes = from.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::memcpy(&address.storage, &from, address.bytes);  // getifaddrs gives whole structures
  return address;
}

std::size_t ones_of(const Address& mask) noexcept {
  std::size_t bits = 0;
  for (const unsigned char octet : octets_of(mask))
    bits += static_cast<std::size_t>(std::popcount(octet));
  return bits;
}

/// Shared bits as far as they tell something: within a subnet all are equally near.
std::size_t nearness(const Address& local, const Address& remote,
                     const std::vector<Interface>& interfaces) noexcept {
  const std::size_t shared = shared_bits(local, remote);
  for (const Interface& each : interfaces)
    if (each.has(local)) return std::min(shared, each.prefix_bits);
  return shared;
}

}  // namespace

bool Interface::has(const Address& other) const noexcept {
  const Octets own = octets_of(address);
  return address.family() == other.family() && shared_bits(address, other) == own.size() * 8;
}

bool Interface::reaches(const Address& other) const noexcept {
  return prefix_bits > 0 && shared_bits(address, other) >= prefix_bits;
}

std::vector<Interface> interfaces() {
  std::vector<Interface> out;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return out;
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
    const bool is_wanted = (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_LOOPBACK) == 0;
    if (!is_wanted || at->ifa_addr == nullptr || at->ifa_netmask == nullptr) continue;
    const sa_family_t family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Address mask = address_from(*at->ifa_netmask);
    mask.storage.ss_family = family;
    out.push_back(
        {at->ifa_name, if_nametoindex(at->ifa_name), address_from(*at->ifa_addr), ones_of(mask)});
  }
  freeifaddrs(first);
  return out;
}

bool is_loopback(const Address& address) noexcept {
  const Octets octets = octets_of(address);
  if (address.family() == AF_INET) return octets[0] == 127;
  if (address.family() != AF_INET6) return false;
  return octets.back() == 1 && std::all_of(octets.begin(), octets.end() - 1,
                                           [](unsigned char octet) { return octet == 0; });
}

std::size_t shared_bits(const Address& a, const Address& b) noexcept {
  if (a.family() != b.family()) return 0;
  const Octets left = octets_of(a);
  const Octets right = octets_of(b);
  std::size_t bits = 0;
  for (std::size_t at = 0; at < left.size(); ++at, bits += 8) {
    const auto differing = static_cast<unsigned char>(left[at] ^ right[at]);
    if (differing != 0) return bits + static_cast<std::size_t>(std::countl_zero(differing));
  }
  return bits;
}

std::vector<Address> order_for(const Address* local, std::size_t stream,
                               const std::vector<Address>& remote,
                               const std::vector<Interface>& interfaces) {
  std::vector<Address> order = remote;
  if (order.empty()) return order;
  const auto first = static_cast<std::ptrdiff_t>(stream % order.size());
  std::rotate(order.begin(), order.begin() + first, order.end());
  if (local == nullptr) return order;
  std::stable_sort(order.begin(), order.end(), [&](const Address& a, const Address& b) {
    return nearness(*local, a, interfaces) > nearness(*local, b, interfaces);
  });
  return order;
}

}  // namespace gd2fs::tcp
