"""Affinity: the own addresses that a client of one GPU should use."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence

from gd2fs.topology.device import Gpu, Nic
from gd2fs.topology.nearest import Topology

Addresses = Mapping[str, Sequence[str]]  # of each interface


def addresses_near(
    topology: Topology, gpu: Gpu, count: int, addresses: Addresses
) -> tuple[str, ...]:
    """An address of each of the ``count`` nearest NICs that have one, nearest first; 0: of all.

    One for each NIC: two would not make it faster. IPv4 goes before IPv6. NICs below one bond have
    its address, once.
    """
    reachable = [nic for nic in topology.nics if _address_of(nic, addresses)]
    nearest = topology.nearest_nics(gpu, count, among=reachable)
    return tuple(dict.fromkeys(_address_of(nic, addresses) for nic in nearest))


def interface_addresses() -> dict[str, list[str]]:
    """Of this machine's interfaces that are up, but for loopback."""
    from gd2fs import _core

    found: dict[str, list[str]] = {}
    for name, address in _core.interface_addresses():
        found.setdefault(name, []).append(address)
    return found


def names_above(nic: Nic) -> set[str]:
    """The interfaces that its bytes may go by: its own, and those on top of them."""
    return {name for each in nic.interfaces for name in (each.name, *each.uppers)}


def _address_of(nic: Nic, addresses: Addresses) -> str:
    """Of its first interface that has one, itself or by what lies on top of it; empty without."""
    names = [name for each in nic.interfaces for name in (each.name, *each.uppers)]
    usable = [
        address
        for name in names
        for text in addresses.get(name, ())
        if not (address := ipaddress.ip_address(text)).is_link_local
    ]
    return str(min(usable, key=lambda address: address.version)) if usable else ""
