"""Links: the network interfaces of a machine, with their addresses, as /proc and /sys tell them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gd2fs.doctor.machine import Machine

NET = "/sys/class/net"
UP_FLAG = 0x1  # IFF_UP
GATEWAY_FLAG = 0x2  # RTF_GATEWAY
REJECT_FLAG = 0x200  # RTF_REJECT
OWN = "/32 host LOCAL"

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Link:
    """One interface.

    Attributes:
        name: As `ip link` shows it.
        mtu: Largest packet, in bytes.
        speed_mbit: Megabits a second; 0: not known, as of virtual ones.
        duplex: ``full``, ``half``, or else.
        is_up: It is switched on, and has a carrier as far as it tells.
        networks: That it reaches without a router.
        queues: Of packets that come in.
        numa_node: That it is attached to; -1: not known, or only one.
        device: Where it is below /sys/devices; empty for virtual ones.
    """

    name: str
    mtu: int
    speed_mbit: int
    duplex: str
    is_up: bool
    networks: tuple[Network, ...]
    queues: int
    numa_node: int
    device: str


def links_of(machine: Machine) -> list[Link]:
    """All interfaces but loopback, in the order of their names."""
    networks = _networks(machine)
    return [
        _link(machine, name, networks.get(name, ()))
        for name in machine.names(NET)
        if name != "lo" and machine.exists(f"{NET}/{name}/mtu")
    ]


def own_addresses(machine: Machine) -> set[Address]:
    """Every address of this machine."""
    found: set[Address] = set()
    last = ""
    for line in machine.text("/proc/net/fib_trie").splitlines():
        if line.strip() == OWN:
            found.add(ipaddress.ip_address(last))
        last = line.split()[-1] if "|--" in line else last
    for line in machine.text("/proc/net/if_inet6").splitlines():
        found.add(ipaddress.ip_address(bytes.fromhex(line.split()[0])))
    return found


def links_for(machine: Machine, hosts: Iterable[str]) -> list[Link]:
    """The interfaces that serve ``hosts``; for none, or a wildcard, all that have a network."""
    links = [each for each in links_of(machine) if each.networks]
    addresses = [address for host in hosts if (address := address_of(host)) is not None]
    if not addresses or any(each.is_unspecified for each in addresses):
        return [each for each in links if each.is_up]
    return [each for each in links if any(_reaches(each, address) for address in addresses)]


def address_of(host: str) -> Address | None:
    """None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def shared_networks(links: Sequence[Link]) -> list[tuple[Network, list[str]]]:
    """IPv4 networks that several interfaces are in: those of IPv6 ask each address by itself."""
    found: dict[Network, list[str]] = {}
    for link in links:
        for network in (each for each in link.networks if each.version == 4):
            found.setdefault(network, []).append(link.name)
    return [(network, names) for network, names in found.items() if len(names) > 1]


def _reaches(link: Link, address: Address) -> bool:
    return any(address in network for network in link.networks)


def _link(machine: Machine, name: str, networks: tuple[Network, ...]) -> Link:
    folder = f"{NET}/{name}"
    flags = int(machine.text(f"{folder}/flags") or "1", 16)
    is_down = machine.text(f"{folder}/operstate") in ("down", "lowerlayerdown", "notpresent")
    device = machine.real(f"{folder}/device") if machine.exists(f"{folder}/device") else ""
    return Link(
        name=name,
        mtu=machine.number(f"{folder}/mtu") or 0,
        speed_mbit=max(machine.number(f"{folder}/speed") or 0, 0),
        duplex=machine.text(f"{folder}/duplex"),
        is_up=bool(flags & UP_FLAG) and not is_down,
        networks=networks,
        queues=sum(each.startswith("rx-") for each in machine.names(f"{folder}/queues")),
        numa_node=_number(machine.number(f"{folder}/device/numa_node"), -1),
        device=device,
    )


def _number(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _networks(machine: Machine) -> dict[str, tuple[Network, ...]]:
    found: dict[str, list[Network]] = {}
    for line in machine.text("/proc/net/route").splitlines()[1:]:
        name, target, _, flags, _, _, _, mask = line.split()[:8]
        if not int(flags, 16) & (GATEWAY_FLAG | REJECT_FLAG) and mask != "00000000":
            found.setdefault(name, []).append(_network(target, mask))
    for line in machine.text("/proc/net/if_inet6").splitlines():
        address, _, bits, _, _, name = line.split()
        own = ipaddress.IPv6Interface((bytes.fromhex(address), int(bits, 16)))
        if not own.ip.is_link_local:
            found.setdefault(name, []).append(own.network)
    return {name: tuple(dict.fromkeys(networks)) for name, networks in found.items()}


def _network(target: str, mask: str) -> Network:
    """As /proc/net/route writes them: hexadecimal, the first byte last."""
    bits = int.from_bytes(bytes.fromhex(mask), "little").bit_count()
    return ipaddress.IPv4Network((bytes.fromhex(target)[::-1], bits))
