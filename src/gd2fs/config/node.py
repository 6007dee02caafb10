"""Node: what one node is told at its start."""

from __future__ import annotations

import ipaddress
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, Unpack

from gd2fs.address import PORT_DEFAULT
from gd2fs.config.access import Access, token_of
from gd2fs.config.cluster import check_cluster, cluster_name
from gd2fs.config.rdma import check_rdma, native_rdma, ucx_of, ucx_tls_of
from gd2fs.config.sockets import (
    SOCKET_BUFFER_BYTES,
    check_socket_buffer,
    congestion_of,
    socket_buffer_of,
)
from gd2fs.errors import InvalidRequest
from gd2fs.membership import (
    Peer,
    Replicas,
    check_node_name,
    host_of,
    parse_address,
    parse_peers,
    parse_replicas,
)
from gd2fs.membership.etcd_link import EtcdSettings
from gd2fs.membership.kubernetes_link import KubernetesSettings
from gd2fs.membership.state import LEASE_S_MAX, WEIGHT_DEFAULT, WEIGHT_MAX
from gd2fs.numa import NUMA
from gd2fs.nvme import Nvme, parse_places
from gd2fs.rules import RuleSet
from gd2fs.sizes import parse_bytes
from gd2fs.tls import NO_TLS, Tls
from gd2fs.token_watch import TokenPlaces
from gd2fs.tokens import Token

MOVE_RATE_DEFAULT = 1 << 30  # bytes a second
MOVE_RATE_MIN = 1 << 20
MEMORY_BYTES_MIN = 16 << 20  # less could not hold a handful of chunks
THREADS_MAX = 64
ZERO_COPY = ("auto", "on", "off")
ARENA_KINDS = ("auto", "hugetlb", "memfd", "thp", "plain")
SHM_KINDS = ("shared", "off")
LEASE_S_DEFAULT = 5
RAMP_S_DEFAULT = 10.0
RAMP_S_MAX = 86_400.0


class _AsSaid(TypedDict, total=False):
    """Options that a node is told as they are said; those left out are as `NodeConfig` has them."""

    name: str | None
    arena: str
    admin: str | None
    threads: int
    zero_copy: str
    shm: str
    numa: str
    rdma: str
    etcd: EtcdSettings | None
    kubernetes: KubernetesSettings | None
    lease_s: int
    ramp_s: float
    weight: int
    state_dir: str | None
    rule: str | None
    tenants: str | None
    insecure: bool
    tls: Tls


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """What one node is told at its start, checked.

    ``listen`` and ``advertise`` are ``ADDR:PORT``; without ``peers``, ``etcd`` or ``kubernetes`` it
    is alone. ``lease_s``, ``ramp_s`` and ``weight`` are for the latter two. ``replicas`` None: one
    copy, or what the cluster keeps. Without tokens it serves only this machine, unless it is
    ``insecure``.
    """

    cluster: str
    listen: tuple[str, ...] = (f"127.0.0.1:{PORT_DEFAULT}",)
    memory_bytes: int = 1 << 30
    peers: tuple[Peer, ...] = ()
    name: str | None = None
    advertise: tuple[str, ...] = ()
    arena: str = "auto"
    admin: str | None = None
    threads: int = 2
    zero_copy: str = "auto"
    shm: str = "shared"
    numa: str = "auto"
    rdma: str = "auto"
    ucx: str = ""
    ucx_tls: str = ""
    congestion: str = ""
    socket_buffer_bytes: int = SOCKET_BUFFER_BYTES
    move_bytes_per_s: int = MOVE_RATE_DEFAULT
    replicas: Replicas | None = None
    etcd: EtcdSettings | None = None
    kubernetes: KubernetesSettings | None = None
    lease_s: int = LEASE_S_DEFAULT
    ramp_s: float = RAMP_S_DEFAULT
    weight: int = WEIGHT_DEFAULT
    state_dir: str | None = None
    nvme: Nvme = field(default_factory=Nvme)
    rules: RuleSet = field(default_factory=RuleSet)
    rule: str | None = None
    is_traced: bool = False
    token_file: str | None = None
    token: Token | None = field(default=None, repr=False)
    tenants: str | None = None
    insecure: bool = False
    tls: Tls = NO_TLS

    def __post_init__(self) -> None:
        check_cluster(self.cluster)
        check_socket_buffer(self.socket_buffer_bytes)
        check_rdma(self.rdma)
        self.tls.check_node()
        self._check_membership()
        if self.move_bytes_per_s < MOVE_RATE_MIN:
            raise InvalidRequest(
                f"moves of {self.move_bytes_per_s} bytes a second are too slow",
                hint=f"`--move-rate {MOVE_RATE_MIN >> 20}MiB` is the least",
            )
        if self.shm not in SHM_KINDS:
            raise InvalidRequest(f"`--shm` is `{self.shm}`", hint="`shared` or `off`")
        if self.numa not in NUMA:
            raise InvalidRequest(f"`--numa` is `{self.numa}`", hint="`auto` or `off`")
        for address in (*self.listen, *self.advertise, *([self.admin] if self.admin else [])):
            parse_address(address)
        if self.memory_bytes < MEMORY_BYTES_MIN:
            raise InvalidRequest(
                f"{self.memory_bytes} bytes of memory are too few",
                hint=f"`--memory {MEMORY_BYTES_MIN >> 20}MiB` is the least",
            )
        if not 1 <= self.threads <= THREADS_MAX:
            raise InvalidRequest(
                f"{self.threads} threads", hint=f"`--threads` is 1 to {THREADS_MAX}"
            )
        if self.name is not None:
            check_node_name(self.name)
        if self.zero_copy not in ZERO_COPY:
            raise InvalidRequest(
                f"`{self.zero_copy}` is no way to copy", hint=f"one of {', '.join(ZERO_COPY)}"
            )
        self._check_arena()
        self._check_tokens()

    @property
    def access(self) -> Access:
        """What its own clients show to other nodes, and whom they take for one."""
        return Access(self.token, self.token_file, self.tls.as_client())

    @property
    def native_rdma(self) -> dict[str, str]:
        """What it has to do with RDMA, as the native server takes it."""
        return native_rdma(self.rdma, self.ucx, self.ucx_tls)

    @property
    def token_places(self) -> TokenPlaces:
        """Where its tokens come from."""
        return TokenPlaces(
            Path(self.token_file) if self.token_file else None,
            self.token,
            Path(self.tenants) if self.tenants else None,
        )

    @classmethod
    def parse(
        cls,
        *,
        cluster: str | None,
        listen: str,
        memory: str,
        peers: str | None,
        advertise: str | None,
        ucx: str | None = None,
        ucx_tls: str | None = None,
        congestion: str | None = None,
        socket_buffer: str | None = None,
        move_rate: str | None = None,
        replicas: str | None = None,
        nvme: str | None = None,
        nvme_rate: str | None = None,
        nvme_write: str = "back",
        nvme_keep: str = "inclusive",
        rules: RuleSet | None = None,
        token_file: str | None = None,
        environment: Mapping[str, str] = os.environ,
        **as_said: Unpack[_AsSaid],
    ) -> NodeConfig:
        """Read the words of the command line. ``cluster``, ``congestion``, ``socket_buffer``,
        ``ucx`` and ``ucx_tls`` fall back to ``GD2FS_`` with their names, ``token_file`` to
        ``GD2FS_TOKEN_FILE``, else ``GD2FS_TOKEN``.

        Raises:
            InvalidRequest: A word breaks its syntax or is out of range.
        """
        token, own_file = token_of(None, token_file, environment)
        return cls(
            cluster=cluster_name(cluster, environment),
            listen=parse_listen(listen),
            memory_bytes=parse_bytes(memory),
            peers=tuple(parse_peers(peers)) if peers is not None else (),
            advertise=parse_listen(advertise) if advertise else (),
            ucx=ucx_of(ucx, environment),
            ucx_tls=ucx_tls_of(ucx_tls, environment),
            congestion=congestion_of(congestion, environment),
            socket_buffer_bytes=socket_buffer_of(socket_buffer, environment),
            move_bytes_per_s=parse_bytes(move_rate) if move_rate else MOVE_RATE_DEFAULT,
            replicas=parse_replicas(replicas) if replicas is not None else None,
            nvme=_nvme(nvme, nvme_rate, nvme_write, nvme_keep),
            rules=rules or RuleSet(),
            is_traced=_is_traced(environment),
            token_file=own_file,
            token=token,
            **as_said,
        )

    def _check_tokens(self) -> None:
        has_token = not self.token_places.is_open
        if self.tenants and not has_token:
            raise InvalidRequest(
                "there are `--tenants`, and no token of the cluster",
                hint="nodes need one of their own: pass `--token-file FILE`",
            )
        if has_token or self.insecure:
            return
        for address in (*self.listen, *([self.admin] if self.admin else [])):
            if not is_loopback(address):
                raise InvalidRequest(
                    f"other machines reach {address}, and this node has no token",
                    hint="`gd2fs token new NAME --out FILE`, `--token-file FILE`; or `--insecure`",
                )

    def _check_membership(self) -> None:
        ways = {"peers": self.peers, "etcd": self.etcd, "kubernetes": self.kubernetes}
        given = [f"`--{name}`" for name, way in ways.items() if way]
        if len(given) > 1:
            raise InvalidRequest(
                f"both {given[0]} and {given[1]} are given", hint="a cluster has one of them"
            )
        if (self.etcd or self.kubernetes) and not self.name and not self.state_dir:
            raise InvalidRequest(
                "this node has no name", hint="pass `--name NAME`, or `--state-dir` to keep one in"
            )
        if not 1 <= self.lease_s <= LEASE_S_MAX:
            raise InvalidRequest(f"a lease of {self.lease_s} s", hint=f"1 to {LEASE_S_MAX} s")
        if not (math.isfinite(self.ramp_s) and 0 <= self.ramp_s <= RAMP_S_MAX):
            raise InvalidRequest(f"a ramp of {self.ramp_s} s", hint=f"0 to {RAMP_S_MAX:.0f} s")
        if not 1 <= self.weight <= WEIGHT_MAX:
            raise InvalidRequest(f"a weight of {self.weight}", hint=f"1 to {WEIGHT_MAX}")

    def _check_arena(self) -> None:
        is_file = self.arena.startswith("file:") and len(self.arena) > len("file:")
        if self.arena not in ARENA_KINDS and not is_file:
            raise InvalidRequest(
                f"`{self.arena}` is no kind of arena",
                hint=f"one of {', '.join(ARENA_KINDS)} or file:PATH",
            )


def is_loopback(address: str) -> bool:
    """Is ``ADDR:PORT`` one that only this machine reaches? Of a name: is it ``localhost``?"""
    host = host_of(address)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _nvme(places: str | None, rate: str | None, write: str, keep: str) -> Nvme:
    """The disk tier as the command line says it. Raises InvalidRequest."""
    return Nvme(
        places=parse_places(places, parse_bytes) if places else (),
        write_bytes_per_s=parse_bytes(rate) if rate else 0,
        write=write,
        keep=keep,
    )


def parse_listen(text: str) -> tuple[str, ...]:
    """Read ``tcp://ADDR:PORT[,tcp://ADDR:PORT]``; the scheme may be left out.

    Raises:
        InvalidRequest: Another scheme, or not ADDR:PORT.
    """
    addresses = tuple(part.strip().removeprefix("tcp://") for part in text.split(","))
    for address in addresses:
        if "://" in address:
            raise InvalidRequest(
                f"`{address}` is not an address of TCP", hint="write `tcp://ADDR:PORT`"
            )
        parse_address(address)
    return addresses


def _is_traced(environment: Mapping[str, str]) -> bool:
    """Does OpenTelemetry know where traces go?"""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    names = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return any(environment.get(name) for name in names)
