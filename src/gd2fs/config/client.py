"""Client: how it reaches its cluster, from what it is given and the environment."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gd2fs.address import parse_cp, parse_dp, wants_rdma
from gd2fs.config.access import Access, tls_of, token_of
from gd2fs.config.affinity import near_device
from gd2fs.config.cluster import check_cluster, cluster_name
from gd2fs.config.device_memory import BY_DEFAULT, DeviceMemory, device_memory
from gd2fs.config.numbers import check_count, count_in, number_in
from gd2fs.config.rdma import native_rdma, ucx_of, ucx_tls_of
from gd2fs.config.sockets import (
    SOCKET_BUFFER_BYTES,
    check_socket_buffer,
    congestion_of,
    socket_buffer_of,
)
from gd2fs.errors import InvalidRequest
from gd2fs.tls import NO_TLS, Tls
from gd2fs.tokens import Token

IO_THREADS_MAX = 64
STREAMS_MAX = 64
TRANSPORTS = ("auto", "shm", "rdma", "unix", "tcp")
TIMEOUT_S_MAX = 86_400.0


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
        transport: How nodes are talked to: ``auto``, ``shm``, ``rdma``, ``unix`` or ``tcp``.
        ucx: Path of a libucp, for RDMA; empty: what is found (see ``gd2fs.ucx``).
        ucx_tls: Which of UCX's transports, as ``UCX_TLS``; empty: all that a fence can stop.
        congestion: How sockets share the network, by the kernel's name; empty is cubic, else reno.
        socket_buffer_bytes: Of each direction of a socket, 64 KiB to 256 MiB.
        devices: How bytes get to memory of GPUs and from it.
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
    ucx: str = ""
    ucx_tls: str = ""
    congestion: str = ""
    socket_buffer_bytes: int = SOCKET_BUFFER_BYTES
    devices: DeviceMemory = BY_DEFAULT
    token: Token | None = field(default=None, repr=False)
    token_file: str | None = None
    tls: Tls = NO_TLS

    def __post_init__(self) -> None:
        check_cluster(self.cluster)
        check_socket_buffer(self.socket_buffer_bytes)
        self.tls.check_client()
        if self.transport not in TRANSPORTS:
            raise InvalidRequest(
                f"`{self.transport}` is no transport", hint=f"one of {', '.join(TRANSPORTS)}"
            )
        check_count("io_threads", self.io_threads, IO_THREADS_MAX)
        check_count("streams", self.streams, STREAMS_MAX)
        check_timeout(self.timeout_s)

    @property
    def access(self) -> Access:
        """What it shows to nodes, and whom it takes for one."""
        return Access(self.token, self.token_file, self.tls)

    @property
    def rdma(self) -> dict[str, str]:
        """What it has to do with RDMA, as the native client takes it."""
        use = "auto" if self.transport in ("auto", "rdma") else "off"
        return native_rdma(use, self.ucx, self.ucx_tls)


def client_config(
    cp: str | Sequence[str] | None = None,
    *,
    cluster: str | None = None,
    dp: str | Sequence[str] | None = None,
    device: int | str | None = None,
    device_nics: int | None = None,
    io_threads: int | None = None,
    streams: int | None = None,
    timeout_s: float | None = None,
    verify: bool = True,
    transport: str | None = None,
    ucx: str | None = None,
    ucx_tls: str | None = None,
    congestion: str | None = None,
    socket_buffer: int | str | None = None,
    bounce_size: int | str | None = None,
    token: Token | str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    tls: Tls | None = None,
    environment: Mapping[str, str] = os.environ,
) -> ClientConfig:
    """Fill what is not given from ``GD2FS_CPADDR``, ``GD2FS_CLUSTER``, ``GD2FS_DPADDR``,
    ``GD2FS_IOTHREADS``, ``GD2FS_STREAMS``, ``GD2FS_TIMEOUT_S``, ``GD2FS_TRANSPORT``,
    ``GD2FS_UCX``, ``GD2FS_UCX_TLS``, ``GD2FS_CONGESTION``, ``GD2FS_SOCKET_BUFFER``,
    ``GD2FS_TLS_CA``, ``_CERT``, ``_KEY``, ``_NAME``, and ``GD2FS_TOKEN_FILE``, else
    ``GD2FS_TOKEN``. An empty ``token`` is none, whatever the environment says.
    ``device`` and ``device_nics`` (``GD2FS_DEVICE``, ``GD2FS_DEVICE_NICS``) give the local
    addresses where neither ``dp`` nor ``GD2FS_DPADDR`` names some; ``GD2FS_BOUNCE_SIZE``,
    ``GD2FS_LOAD_POLICY``, ``GD2FS_SAVE_POLICY`` and ``GD2FS_LOAD_CHECKS`` are about memory of
    GPUs.

    Raises:
        InvalidRequest: Something is missing, or is not what it should be.
    """
    if cp is None:
        cp = environment.get("GD2FS_CPADDR", "")
    if not cp:
        raise InvalidRequest(
            "no node is named", hint="pass `--cp gd2fs://ADDR:PORT`, or set `GD2FS_CPADDR`"
        )
    shown, shown_file = token_of(token, token_file, environment)
    dp = environment.get("GD2FS_DPADDR", "") if dp is None else dp
    transport = _transport_of(transport, dp, environment)
    return ClientConfig(
        cp=parse_cp(cp),
        cluster=cluster_name(cluster, environment),
        dp=parse_dp(dp) or near_device(device, device_nics, environment),
        io_threads=count_in(environment, "GD2FS_IOTHREADS", 2)
        if io_threads is None
        else io_threads,
        streams=count_in(environment, "GD2FS_STREAMS", 2) if streams is None else streams,
        timeout_s=number_in(environment, "GD2FS_TIMEOUT_S", 5.0)
        if timeout_s is None
        else timeout_s,
        verify=verify,
        transport=transport,
        ucx=ucx_of(ucx, environment),
        ucx_tls=ucx_tls_of(ucx_tls, environment),
        congestion=congestion_of(congestion, environment),
        socket_buffer_bytes=socket_buffer_of(socket_buffer, environment),
        devices=device_memory(bounce_size, transport, environment),
        token=shown,
        token_file=shown_file,
        tls=tls_of(environment=environment) if tls is None else tls,
    )


def _transport_of(
    given: str | None, dp: str | Sequence[str], environment: Mapping[str, str]
) -> str:
    """``given``, else ``GD2FS_TRANSPORT``, else ``auto``, which may be what ``dp`` asks for.

    Raises:
        InvalidRequest: ``dp`` asks for RDMA, and another transport is named.
    """
    named = (environment.get("GD2FS_TRANSPORT", "") or "auto") if given is None else given
    if not wants_rdma(dp):
        return named
    if named not in ("auto", "rdma"):
        raise InvalidRequest(
            f"local addresses of `rdma://`, and the transport `{named}`", hint="leave one out"
        )
    return "rdma"


def check_memthreads(given: int | None, environment: Mapping[str, str] = os.environ) -> int:
    """Threads that copy memory: ``given``, else ``GD2FS_MEMTHREADS``, else 1.

    Raises:
        InvalidRequest: It is not 1 to 64.
    """
    count = count_in(environment, "GD2FS_MEMTHREADS", 1) if given is None else given
    return check_count("memthreads", count, IO_THREADS_MAX)


def check_timeout(timeout_s: float) -> float:
    """Return ``timeout_s`` when it is over 0 and at most a day. Raises InvalidRequest."""
    if not (math.isfinite(timeout_s) and 0 < timeout_s <= TIMEOUT_S_MAX):
        raise InvalidRequest(
            f"a timeout of {timeout_s} s is not over 0 and at most {TIMEOUT_S_MAX:.0f}",
            hint="every call needs a deadline",
        )
    return timeout_s
