"""Config: settings, checked once at the start. The only place that reads the environment."""

from __future__ import annotations

import ipaddress
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gd2fs.address import PORT_DEFAULT, parse_cp, parse_dp
from gd2fs.errors import InvalidRequest
from gd2fs.membership import (
    Peer,
    Replicas,
    check_node_name,
    parse_address,
    parse_peers,
    parse_replicas,
)
from gd2fs.membership.etcd_link import EtcdSettings, parse_endpoints
from gd2fs.membership.kubernetes_link import ACCOUNT, KubernetesSettings
from gd2fs.membership.kubernetes_names import PLAIN
from gd2fs.membership.state import LEASE_S_MAX, WEIGHT_DEFAULT, WEIGHT_MAX
from gd2fs.nvme import Nvme, parse_places
from gd2fs.rules import RuleSet
from gd2fs.sizes import parse_bytes
from gd2fs.tls import NO_TLS, Tls, tls_of
from gd2fs.token_watch import TokenPlaces
from gd2fs.tokens import Token, parse_token

IO_THREADS_MAX = 64
STREAMS_MAX = 64
TRANSPORTS = ("auto", "shm", "unix", "tcp")
TIMEOUT_S_MAX = 86_400.0
SOCKET_BUFFER_BYTES = 1 << 20  # larger ones fall out of the processor's cache
SOCKET_BUFFER_BYTES_MIN = 64 << 10
SOCKET_BUFFER_BYTES_MAX = 256 << 20


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """How a client reaches its cluster.

    Attributes:
        cp: Nodes to ask first, ``HOST:PORT``; any live one serves.
        cluster: The cluster's name; a node of another one refuses the client.
        dp: Local addresses to bind streams to; empty is the system's choice.
        io_threads: Threads that move bytes, 1 to 64.
        streams: Connections to each node, 1 to 64.
        timeout_s: Deadline of a call, over 0 to 86,400.
        verify: Sum every block here: of a read it is checked in the caller's memory, of a write the
            sum goes with it. Without, nodes sum what arrives, and reads stand on their word.
        transport: How nodes are talked to: ``auto``, ``shm``, ``unix`` or ``tcp``.
        congestion: How sockets share the network, by the kernel's name; empty is cubic, else reno.
        socket_buffer_bytes: Of each direction of a socket, 64 KiB to 256 MiB.
        token: What it shows to nodes; nobody's text has its secret.
        token_file: Instead of it, a file whose first token is shown, as it is at each connection.
        tls: Of streams over TCP. On when ``ca`` is given; ``cert`` and ``key`` are its own.
    """

    cp: tuple[str, ...]
    cluster: str
    dp: tuple[str, ...] = ()
    io_threads: int = 2
    streams: int = 2
    timeout_s: float = 5.0
    verify: bool = True
    transport: str = "auto"
    congestion: str = ""
    socket_buffer_bytes: int = SOCKET_BUFFER_BYTES
    token: Token | None = field(default=None, repr=False)
    token_file: str | None = None
    tls: Tls = NO_TLS

    def __post_init__(self) -> None:
        _check_cluster(self.cluster)
        check_socket_buffer(self.socket_buffer_bytes)
        self.tls.check_client()
        if self.transport not in TRANSPORTS:
            raise InvalidRequest(
                f"`{self.transport}` is no transport", hint=f"one of {', '.join(TRANSPORTS)}"
            )
        _check_count("io_threads", self.io_threads, IO_THREADS_MAX)
        _check_count("streams", self.streams, STREAMS_MAX)
        check_timeout(self.timeout_s)


def client_config(
    cp: str | Sequence[str] | None = None,
    *,
    cluster: str | None = None,
    dp: str | Sequence[str] | None = None,
    io_threads: int | None = None,
    streams: int | None = None,
    timeout_s: float | None = None,
    verify: bool = True,
    transport: str | None = None,
    congestion: str | None = None,
    socket_buffer: int | str | None = None,
    token: Token | str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    tls: Tls | None = None,
    environment: Mapping[str, str] = os.environ,
) -> ClientConfig:
    """Fill what is not given from ``GD2FS_CPADDR``, ``GD2FS_CLUSTER``, ``GD2FS_DPADDR``,
    ``GD2FS_IOTHREADS``, ``GD2FS_STREAMS``, ``GD2FS_TIMEOUT_S``, ``GD2FS_TRANSPORT``,
    ``GD2FS_CONGESTION``, ``GD2FS_SOCKET_BUFFER``, ``GD2FS_TLS_CA``, ``_CERT``, ``_KEY``, ``_NAME``,
    and ``GD2FS_TOKEN_FILE``, else ``GD2FS_TOKEN``. An empty ``token`` is none, whatever the
    environment says.

    Raises:
        InvalidRequest: Something is missing, or is not what it should be.
    """
    if cp is None:
        cp = environment.get("GD2FS_CPADDR", "")
    if not cp:
        raise InvalidRequest(
            "no node is named", hint="pass `--cp gd2fs://ADDR:PORT`, or set `GD2FS_CPADDR`"
        )
    shown, shown_file = _token(token, token_file, environment)
    return ClientConfig(
        cp=parse_cp(cp),
        cluster=environment.get("GD2FS_CLUSTER", "") if cluster is None else cluster,
        dp=parse_dp(environment.get("GD2FS_DPADDR", "") if dp is None else dp),
        io_threads=_count(environment, "GD2FS_IOTHREADS", 2) if io_threads is None else io_threads,
        streams=_count(environment, "GD2FS_STREAMS", 2) if streams is None else streams,
        timeout_s=_number(environment, "GD2FS_TIMEOUT_S", 5.0) if timeout_s is None else timeout_s,
        verify=verify,
        transport=environment.get("GD2FS_TRANSPORT", "") or "auto"
        if transport is None
        else transport,
        congestion=_congestion(congestion, environment),
        socket_buffer_bytes=_socket_buffer(socket_buffer, environment),
        token=shown,
        token_file=shown_file,
        tls=tls_of(None, None, None, None, environment=environment) if tls is None else tls,
    )


def check_memthreads(given: int | None, environment: Mapping[str, str] = os.environ) -> int:
    """Threads that copy memory: ``given``, else ``GD2FS_MEMTHREADS``, else 1.

    Raises:
        InvalidRequest: It is not 1 to 64.
    """
    count = _count(environment, "GD2FS_MEMTHREADS", 1) if given is None else given
    _check_count("memthreads", count, IO_THREADS_MAX)
    return count


def check_socket_buffer(size: int) -> int:
    """Return ``size`` when a socket may have buffers of so many bytes. Raises InvalidRequest."""
    if not SOCKET_BUFFER_BYTES_MIN <= size <= SOCKET_BUFFER_BYTES_MAX:
        raise InvalidRequest(
            f"a socket buffer of {size} bytes", hint="give 64KiB to 256MiB, `1MiB` is the default"
        )
    return size


def _congestion(given: str | None, environment: Mapping[str, str]) -> str:
    return environment.get("GD2FS_CONGESTION", "") if given is None else given


def _socket_buffer(given: int | str | None, environment: Mapping[str, str]) -> int:
    size = environment.get("GD2FS_SOCKET_BUFFER") if given is None else given
    if not size:
        return SOCKET_BUFFER_BYTES if size != 0 else check_socket_buffer(0)
    return parse_bytes(size) if isinstance(size, str) else size


def _token(
    given: Token | str | None,
    file: str | os.PathLike[str] | None,
    environment: Mapping[str, str],
) -> tuple[Token | None, str | None]:
    """A token, or the file that has it."""
    if file:
        return None, os.fspath(file)
    if given is not None:
        return (parse_token(given) if isinstance(given, str) and given else given or None), None
    if path := environment.get("GD2FS_TOKEN_FILE"):
        return None, path
    text = environment.get("GD2FS_TOKEN", "")
    return (parse_token(text, "`GD2FS_TOKEN`") if text else None), None


def check_timeout(timeout_s: float) -> float:
    """Return ``timeout_s`` when it is over 0 and at most a day. Raises InvalidRequest."""
    if not (math.isfinite(timeout_s) and 0 < timeout_s <= TIMEOUT_S_MAX):
        raise InvalidRequest(
            f"a timeout of {timeout_s} s is not over 0 and at most {TIMEOUT_S_MAX:.0f}",
            hint="every call needs a deadline",
        )
    return timeout_s


def _is_traced(environment: Mapping[str, str]) -> bool:
    """Does OpenTelemetry know where traces go?"""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    names = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return any(environment.get(name) for name in names)


def _check_count(name: str, count: int, count_max: int) -> None:
    if not 1 <= count <= count_max:
        raise InvalidRequest(f"`{name}` is {count}", hint=f"give 1 to {count_max}")


def _count(environment: Mapping[str, str], name: str, default: int) -> int:
    number = _number(environment, name, default)
    if number != int(number):
        raise InvalidRequest(f"`{name}` is `{number}`, not a count", hint="fix or unset it")
    return int(number)


def _number(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name, "")
    if not text:
        return default
    try:
        return float(text)
    except ValueError as cause:
        raise InvalidRequest(
            f"`{name}` is `{text}`, not a number", hint="fix or unset it"
        ) from cause


# ---- a node --------------------------------------------------------------------------------------

MOVE_RATE_DEFAULT = 1 << 30  # bytes a second
MOVE_RATE_MIN = 1 << 20
MEMORY_BYTES_MIN = 16 << 20  # less could not hold a handful of chunks
THREADS_MAX = 64
CLUSTER_BYTES_MAX = 128  # as core/limits.h says
ZERO_COPY = ("auto", "on", "off")
ARENA_KINDS = ("auto", "hugetlb", "memfd", "thp", "plain")
SHM_KINDS = ("shared", "off")
LEASE_S_DEFAULT = 5
RAMP_S_DEFAULT = 10.0
RAMP_S_MAX = 86_400.0


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
        _check_cluster(self.cluster)
        check_socket_buffer(self.socket_buffer_bytes)
        self.tls.check_node()
        self._check_membership()
        if self.move_bytes_per_s < MOVE_RATE_MIN:
            raise InvalidRequest(
                f"moves of {self.move_bytes_per_s} bytes a second are too slow",
                hint=f"`--move-rate {MOVE_RATE_MIN >> 20}MiB` is the least",
            )
        if self.shm not in SHM_KINDS:
            raise InvalidRequest(f"`--shm` is `{self.shm}`", hint="`shared` or `off`")
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
        name: str | None,
        advertise: str | None,
        arena: str,
        admin: str | None,
        threads: int,
        zero_copy: str,
        shm: str = "shared",
        congestion: str | None = None,
        socket_buffer: str | None = None,
        move_rate: str | None = None,
        replicas: str | None = None,
        etcd: EtcdSettings | None = None,
        kubernetes: KubernetesSettings | None = None,
        lease_s: int = LEASE_S_DEFAULT,
        ramp_s: float = RAMP_S_DEFAULT,
        weight: int = WEIGHT_DEFAULT,
        state_dir: str | None = None,
        nvme: str | None = None,
        nvme_rate: str | None = None,
        nvme_write: str = "back",
        nvme_keep: str = "inclusive",
        rules: RuleSet | None = None,
        rule: str | None = None,
        token_file: str | None = None,
        tenants: str | None = None,
        insecure: bool = False,
        tls: Tls = NO_TLS,
        environment: Mapping[str, str] = os.environ,
    ) -> NodeConfig:
        """Read the words of the command line. ``cluster``, ``congestion`` and ``socket_buffer``
        fall back to ``GD2FS_CLUSTER``, ``GD2FS_CONGESTION`` and ``GD2FS_SOCKET_BUFFER``,
        ``token_file`` to ``GD2FS_TOKEN_FILE``, else ``GD2FS_TOKEN``.

        Raises:
            InvalidRequest: A word breaks its syntax or is out of range.
        """
        token, own_file = _token(None, token_file, environment)
        return cls(
            cluster=environment.get("GD2FS_CLUSTER", "") if cluster is None else cluster,
            listen=parse_listen(listen),
            memory_bytes=parse_bytes(memory),
            peers=tuple(parse_peers(peers)) if peers is not None else (),
            name=name,
            advertise=parse_listen(advertise) if advertise else (),
            arena=arena,
            admin=admin,
            threads=threads,
            zero_copy=zero_copy,
            shm=shm,
            congestion=_congestion(congestion, environment),
            socket_buffer_bytes=_socket_buffer(socket_buffer, environment),
            move_bytes_per_s=parse_bytes(move_rate) if move_rate else MOVE_RATE_DEFAULT,
            replicas=parse_replicas(replicas) if replicas is not None else None,
            etcd=etcd,
            kubernetes=kubernetes,
            lease_s=lease_s,
            ramp_s=ramp_s,
            weight=weight,
            state_dir=state_dir,
            nvme=_nvme(nvme, nvme_rate, nvme_write, nvme_keep),
            rules=rules or RuleSet(),
            rule=rule,
            is_traced=_is_traced(environment),
            token_file=own_file,
            token=token,
            tenants=tenants,
            insecure=insecure,
            tls=tls,
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
                    hint="`gd2fs token new NAME > FILE`, then `--token-file FILE`; or `--insecure`",
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
    host = parse_address(address)[0].strip("[]")
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


def etcd_settings(
    etcd: str | None,
    *,
    user: str | None = None,
    ca: str | None = None,
    cert: str | None = None,
    key: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> EtcdSettings | None:
    """How etcd is reached, ``GD2FS_ETCD`` by default; None when it is not named.

    The password is ``GD2FS_ETCD_PASSWORD``: what stands on a command line is seen by everybody.

    Raises:
        InvalidRequest: An endpoint is none, or a file is not there.
    """
    endpoints = environment.get("GD2FS_ETCD", "") if etcd is None else etcd
    if not endpoints:
        return None
    for path in filter(None, (ca, cert, key)):
        if not os.access(path, os.R_OK):
            raise InvalidRequest(f"cannot read {path}", hint="name a PEM file that is there")
    return EtcdSettings(
        parse_endpoints(endpoints),
        user=user or "",
        password=environment.get("GD2FS_ETCD_PASSWORD", "") if user else "",
        ca=ca or "",
        cert=cert or "",
        key=key or "",
    )


def kubernetes_settings(
    namespace: str | None,
    *,
    api: str | None = None,
    account: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> KubernetesSettings | None:
    """How the API of Kubernetes is reached; ``GD2FS_KUBERNETES`` is the namespace by default. None
    when there is none. The API is where a pod is told that it is.

    Raises:
        InvalidRequest: It is no name of a namespace, or the API is nowhere.
    """
    name = environment.get("GD2FS_KUBERNETES", "") if namespace is None else namespace
    if not name:
        return None
    if not PLAIN.fullmatch(name):
        raise InvalidRequest(
            f"`{name}` is no namespace of Kubernetes", hint="lower-case letters, digits and `-`"
        )
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not api and not host:
        raise InvalidRequest(
            "this is no pod of Kubernetes: `KUBERNETES_SERVICE_HOST` is not set",
            hint="say where the API is with `--kubernetes-api https://HOST:PORT`",
        )
    where = api or f"https://{f'[{host}]' if ':' in host else host}:{port}"
    scheme, separator, address = where.rstrip("/").partition("://")
    if scheme not in ("http", "https") or not separator:
        raise InvalidRequest(f"`{where}` is no URL", hint="write `https://HOST:PORT`")
    parse_address(address)
    return KubernetesSettings(name, f"{scheme}://{address}", account or ACCOUNT)


def cluster_name(given: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """``given``, else ``GD2FS_CLUSTER``. Raises InvalidRequest."""
    name = environment.get("GD2FS_CLUSTER", "") if given is None else given
    _check_cluster(name)
    return name


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


def _check_cluster(cluster: str) -> None:
    if not cluster:
        raise InvalidRequest(
            "no cluster is named", hint="pass `--cluster NAME`, or set `GD2FS_CLUSTER`"
        )
    if not cluster.isprintable() or len(cluster.encode()) > CLUSTER_BYTES_MAX:
        raise InvalidRequest(
            f"`{cluster}` cannot name a cluster", hint=f"1 to {CLUSTER_BYTES_MAX} printable bytes"
        )
