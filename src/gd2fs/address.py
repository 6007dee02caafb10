"""Address: where a cluster is reached, which local addresses to use, and which file is meant.

control plane   gd2fs://HOST[:PORT],[gd2fs://]HOST[:PORT],...      any live one serves
data plane      tcp://LOCAL_IP,tcp://LOCAL_IP,...                  the client's own addresses;
                rdma://LOCAL_IP,...                                and payload by RDMA alone
file            gd2fs://HOST[:PORT],HOST[:PORT]/dir/file?cluster=NAME
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, unquote

from gd2fs.errors import InvalidRequest
from gd2fs.membership import parse_address

PORT_DEFAULT = 7527
ADDRESSES_MAX = 1024  # of one list: as many as a cluster has nodes
SCHEME = "gd2fs://"

_CP_HINT = "write `gd2fs://HOST:7527,HOST2:7527`"
_DP_HINT = "write `tcp://LOCAL_IP,tcp://LOCAL_IP2`, or `rdma://` for each, or leave it out"
_DP_SCHEMES = ("tcp", "rdma")


@dataclass(frozen=True, slots=True)
class FileAddress:
    """A file of some cluster: control-plane addresses (``HOST:PORT``), path, cluster or None."""

    cp: tuple[str, ...]
    path: str
    cluster: str | None = None

    def __str__(self) -> str:
        query = f"?cluster={quote(self.cluster, safe='')}" if self.cluster is not None else ""
        return f"{SCHEME}{','.join(self.cp)}{quote(self.path)}{query}"


def parse_cp(cp: str | Sequence[str]) -> tuple[str, ...]:
    """Read control-plane addresses into ``HOST:PORT`` each. Scheme and port may be left out.

    Raises:
        InvalidRequest: The list is empty or too long, or an entry is not an address.
    """
    entries = _entries(cp)
    if not entries:
        raise InvalidRequest("no control-plane address is given", hint=_CP_HINT)
    return tuple(_host_port(entry.removeprefix(SCHEME)) for entry in entries)


def parse_dp(dp: str | Sequence[str]) -> tuple[str, ...]:
    """Read the client's own addresses. Loopback ones are left out: they are no choice of a NIC.

    Raises:
        InvalidRequest: Another scheme than tcp and rdma, both of them, or not an IP address.
    """
    entries = _entries(dp)
    addresses = [_local_address(entry) for entry in entries]
    if len({_scheme_of(entry) for entry in entries} - {""}) > 1:
        raise InvalidRequest("both `tcp://` and `rdma://` are in the list", hint=_DP_HINT)
    return tuple(str(address) for address in addresses if not address.is_loopback)


def wants_rdma(dp: str | Sequence[str]) -> bool:
    """Whether a list of the client's own addresses asks for RDMA."""
    return any(_scheme_of(entry) == "rdma" for entry in _entries(dp))


def absent_dp(addresses: Sequence[str]) -> list[str]:
    """Those of the client's own addresses that cannot be bound to now, each with its reason."""
    absent = []
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.bind((address, 0))
        except OSError as cause:
            absent.append(f"tcp://{address}: {cause.strerror or cause}")
    return absent


def parse_file_address(uri: str) -> FileAddress:
    """Read ``gd2fs://HOST:PORT,HOST:PORT/dir/file?cluster=NAME``.

    Raises:
        InvalidRequest: Another scheme, no host, no path, or a query with other names.
    """
    if not uri.startswith(SCHEME):
        raise InvalidRequest(f"`{uri}` does not start with `{SCHEME}`", hint=_CP_HINT)
    address, _, query = uri.removeprefix(SCHEME).partition("?")
    hosts, slash, path = address.partition("/")
    if not slash or not path:
        raise InvalidRequest(f"`{uri}` names no file", hint="add `/dir/file` after the hosts")
    return FileAddress(parse_cp(hosts), "/" + unquote(path), _cluster_of(uri, query))


def _cluster_of(uri: str, query: str) -> str | None:
    fields = parse_qs(query, keep_blank_values=True)
    clusters = fields.pop("cluster", [])
    if fields or len(clusters) > 1 or clusters == [""]:
        raise InvalidRequest(f"`{uri}` has a query that is not understood", hint="`?cluster=NAME`")
    return clusters[0] if clusters else None


def _entries(addresses: str | Sequence[str]) -> list[str]:
    if not isinstance(addresses, str):
        addresses = ",".join(addresses)
    entries = [entry.strip() for entry in addresses.split(",")]
    if entries == [""]:
        return []
    if len(entries) > ADDRESSES_MAX:
        raise InvalidRequest(
            f"{len(entries)} addresses are more than {ADDRESSES_MAX}", hint="list fewer"
        )
    return entries


def _host_port(entry: str) -> str:
    has_port = ":" in entry and not entry.endswith("]")
    host, port = parse_address(entry if has_port else f"{entry}:{PORT_DEFAULT}")
    if port == 0 or any(character in host for character in "/?#@ "):
        raise InvalidRequest(f"`{entry}` is not HOST:PORT", hint=_CP_HINT)
    return f"{host}:{port}"


def _scheme_of(entry: str) -> str:
    return entry.rpartition("://")[0]


def _local_address(entry: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    scheme, separator, host = entry.rpartition("://")
    if separator and scheme not in _DP_SCHEMES:
        raise InvalidRequest(f"`{entry}` has an unknown scheme", hint=_DP_HINT)
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError as cause:
        raise InvalidRequest(f"`{entry}` is not a local IP address", hint=_DP_HINT) from cause
