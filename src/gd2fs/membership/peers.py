"""Peers: who belongs to the cluster, from a list that every node is given alike.

A node is placed by its name; its addresses only say where to reach it. Two nodes
with unequal lists would place the same chunk in different homes, so the hash of
the list travels in every handshake and unequal lists refuse each other.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gd2fs.errors import InvalidRequest
from gd2fs.membership.replicas import ONE_COPY, Replicas

NODES_MAX = 1024  # of one cluster, as core/limits.h says
NODE_NAME_BYTES_MAX = 128
ADDRESSES_PER_NODE_MAX = 16
LIST_HASH_BYTES = 16
PORT_MAX = 65_535

_SYNTAX = "write `[NAME=]ADDR:PORT[+ADDR:PORT],...`, for example `a=10.0.0.1:7527,b=10.0.0.2:7527`"


@dataclass(frozen=True, slots=True)
class Peer:
    """One node of the list: its name, the addresses to reach it by, its share of the chunks."""

    name: str
    addresses: tuple[str, ...]
    weight: int = 1

    def __str__(self) -> str:
        where = "+".join(self.addresses)
        return where if self.name == self.addresses[0] else f"{self.name}={where}"


def parse_peers(text: str) -> list[Peer]:
    """Read ``[NAME=]ADDR:PORT[+ADDR:PORT],...``; the name is the first address by default.

    Raises:
        InvalidRequest: The syntax is broken, a name or address comes twice, or there are too many.
    """
    entries = [entry.strip() for entry in text.split(",")]
    if not any(entries):
        raise InvalidRequest("the list of peers is empty", hint=_SYNTAX)
    if len(entries) > NODES_MAX:
        raise InvalidRequest(
            f"{len(entries)} peers are more than {NODES_MAX}", hint="make a second cluster"
        )
    peers = [_parse_peer(entry) for entry in entries]
    _refuse_twins("node name", (peer.name for peer in peers))
    _refuse_twins("address", (address for peer in peers for address in peer.addresses))
    return peers


def parse_address(text: str) -> tuple[str, int]:
    """Split ``ADDR:PORT`` (``[ADDR]:PORT`` for IPv6) into host and port, 0 to 65535.

    Raises:
        InvalidRequest: There is no host, or no such port.
    """
    host, colon, port = text.rpartition(":")
    is_bare_ipv6 = ":" in host and not (host.startswith("[") and host.endswith("]"))
    if not colon or not host or is_bare_ipv6 or not port.isascii() or not port.isdigit():
        raise InvalidRequest(
            f"`{text}` is not ADDR:PORT", hint="for example `10.0.0.1:7527` or `[fd00::1]:7527`"
        )
    if int(port) > PORT_MAX:
        raise InvalidRequest(
            f"port {port} in `{text}` is over {PORT_MAX}", hint="take a port of 1 to 65535"
        )
    return host, int(port)


def host_of(address: str) -> str:
    """The host of ``ADDR:PORT``, without brackets. Raises InvalidRequest: it is not that."""
    return parse_address(address)[0].strip("[]")


def list_hash(peers: Iterable[Peer], replicas: Replicas = ONE_COPY) -> bytes:
    """Name the list by 16 bytes that no order of nodes or of a node's addresses changes.

    How many copies the nodes keep is part of it: nodes that disagree would place differently.
    """
    lines = sorted(
        f"{peer.name}={'+'.join(sorted(peer.addresses))}*{peer.weight}\n" for peer in peers
    )
    if replicas != ONE_COPY:
        lines.append(f"replicas {replicas}\n")
    return hashlib.blake2b("".join(lines).encode(), digest_size=LIST_HASH_BYTES).digest()


def find_self(peers: Sequence[Peer], *, name: str | None, addresses: Iterable[str]) -> Peer:
    """Pick the entry that is this node: by ``name`` if given, else by one of ``addresses``.

    Raises:
        InvalidRequest: No entry matches, or two do.
    """
    own = set(addresses)
    found = [
        peer for peer in peers if (peer.name == name if name else own.intersection(peer.addresses))
    ]
    if len(found) == 1:
        return found[0]
    wanted = f"named `{name}`" if name else f"at {' or '.join(sorted(own))}"
    listed = format_peers(peers)
    if found:
        raise InvalidRequest(
            f"two entries of `--peers {listed}` are {wanted}", hint="say which with `--name NAME`"
        )
    raise InvalidRequest(
        f"no entry of `--peers {listed}` is {wanted}",
        hint="`--peers` names every node, this one included; say which it is with `--name NAME`",
    )


def format_peers(peers: Iterable[Peer]) -> str:
    """Write a list as ``parse_peers`` reads it, in the order of the names."""
    return ",".join(str(peer) for peer in sorted(peers, key=lambda peer: peer.name))


def _parse_peer(entry: str) -> Peer:
    name, equals, where = entry.rpartition("=")
    addresses = tuple(where.split("+"))
    if (equals and not name) or not where:
        raise InvalidRequest(f"`{entry}` is not a peer", hint=_SYNTAX)
    if len(addresses) > ADDRESSES_PER_NODE_MAX:
        raise InvalidRequest(
            f"`{entry}` has more than {ADDRESSES_PER_NODE_MAX} addresses", hint="list fewer"
        )
    for address in addresses:
        if parse_address(address)[1] == 0:
            raise InvalidRequest(
                f"port 0 in `{entry}` cannot be reached", hint="give every peer its real port"
            )
    return Peer(check_node_name(name or addresses[0]), addresses)


def check_node_name(name: str) -> str:
    """Return ``name`` when it may name a node: 1 to 128 printable bytes, none of ``= , + * ``."""
    is_plain = name.isprintable() and not set(name) & set("=,+* ")
    if not name or not is_plain or len(name.encode()) > NODE_NAME_BYTES_MAX:
        raise InvalidRequest(
            f"`{name}` cannot name a node",
            hint=f"1 to {NODE_NAME_BYTES_MAX} printable bytes, none of `= , + *` or space",
        )
    return name


def _refuse_twins(noun: str, values: Iterable[str]) -> None:
    twins = [value for value, count in Counter(values).items() if count > 1]
    if twins:
        raise InvalidRequest(
            f"{noun} `{twins[0]}` is listed twice", hint="every node is listed once, with its own"
        )
