"""Node: one process of a cluster. It starts the native server, compares its list of
peers with theirs, and serves the admin side. No byte of the cache passes through here.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from gd2fs import _core
from gd2fs.admin import AdminServer, make_app
from gd2fs.config import NodeConfig
from gd2fs.errors import GD2FSError, InvalidRequest
from gd2fs.membership import Peer, find_self, format_peers, list_hash, parse_address, parse_peers
from gd2fs.metrics import NodeCollector

PROBE_MS = 500  # for a peer to say which list it has
PROBES_AT_ONCE = 16
PROBE_AGAIN_S = 5.0  # peers that were not up are asked again after this long
OTHER_CLUSTER = "is of cluster `"  # how a node refuses those of another one

log = logging.getLogger(__name__)


class Node:
    """A serving node. Make it with ``start``; it is a context manager that stops."""

    def __init__(
        self, config: NodeConfig, server: _core.Server, me: Peer, peers: list[Peer]
    ) -> None:
        self.config = config
        self.name = me.name
        self._me = me
        self.peers = peers
        self._server = server
        self._admin: AdminServer | None = None
        self._is_stopping = threading.Event()
        self._disagreement = ""
        self._unseen = [peer for peer in peers if peer != me]
        self._watch = threading.Thread(target=self._watch_peers, name="gd2fs-peers", daemon=True)

    @classmethod
    def start(cls, config: NodeConfig, *, is_traceable: bool = True) -> Node:
        """Open the arena, listen, and compare lists with every peer that is up.

        Args:
            config: What it is told.
            is_traceable: False: from now on no debugger of this user reaches the memory of this
                whole process, and it leaves no core dump.

        Raises:
            InvalidRequest: An address, the arena or the list cannot be had, or a peer was
                given another list. Nothing is left running.
        """
        listen = [_with_port(address) for address in config.listen]
        peers = list(config.peers) or [_alone(config, listen)]
        me = find_self(peers, name=config.name, addresses=config.advertise or listen)
        server = _core.Server(
            cluster=config.cluster,
            name=me.name,
            listen=listen,
            peers=[(peer.name, list(peer.addresses), peer.weight) for peer in peers],
            list_hash=list_hash(peers),
            boot=time.time_ns() // 1000,
            threads=config.threads,
            memory_bytes=config.memory_bytes,
            arena=config.arena,
            zero_copy=config.zero_copy,
            is_shared=config.shm == "shared",
            is_traceable=is_traceable,
            congestion=config.congestion,
            socket_buffer_bytes=config.socket_buffer_bytes,
        )
        if server.absent:
            log.warning(
                "this machine has no %s now: it is served once it has", " and ".join(server.absent)
            )
        node = cls(config, server, me, peers)
        try:
            node._begin()
        except BaseException:
            node.stop()
            raise
        _warn_without_token(listen)
        if server.socket_fault:
            log.warning("%s: clients of this machine use TCP", server.socket_fault)
        return node

    @property
    def addresses(self) -> list[str]:
        """Where it listens, ``ADDR:PORT``, with real ports."""
        return self._server.addresses

    @property
    def admin_address(self) -> str | None:
        """Where the admin side answers, or None."""
        return self._admin.address if self._admin else None

    @property
    def rung(self) -> str:
        """What the arena is made of: ``hugetlb``, ``memfd``, ``thp``, ``plain`` or ``file``."""
        return self._server.rung

    @property
    def is_sealed(self) -> bool:
        """Processes of this user on this machine may map the arena for reading."""
        return self._server.is_sealed

    def counts(self) -> dict[str, int]:
        """Return the native server's counts."""
        return self._server.counts()

    def why_not_ready(self) -> str:
        """Say why this node should get no traffic; empty when it should."""
        return "the node is stopping" if self._is_stopping.is_set() else self._disagreement

    def stop(self) -> None:
        """Close all connections and give the memory back. A second call does nothing."""
        self._is_stopping.set()
        if self._admin:
            self._admin.stop()
        if self._watch.is_alive():
            self._watch.join(PROBE_AGAIN_S)
        self._server.stop()

    def __enter__(self) -> Node:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _begin(self) -> None:
        self._ask_unseen()
        if self._disagreement:
            raise InvalidRequest(
                self._disagreement, hint="give every node the same `--cluster` and `--peers`"
            )
        if self.config.admin:
            labels = {"name": self.name, "cluster": self.config.cluster, "rung": self.rung}
            app = make_app(NodeCollector(self.counts, labels), self.why_not_ready)
            self._admin = AdminServer(app, self.config.admin)
        if self._unseen:
            self._watch.start()

    def _watch_peers(self) -> None:
        while self._unseen and not self._disagreement:
            if self._is_stopping.wait(PROBE_AGAIN_S):
                return
            self._ask_unseen()
        if self._disagreement:
            log.error("%s", self._disagreement)

    def _ask_unseen(self) -> None:
        if not self._unseen:
            return
        with ThreadPoolExecutor(PROBES_AT_ONCE, thread_name_prefix="gd2fs-probe") as probes:
            answers = list(probes.map(self._ask, self._unseen))
        self._disagreement = next((text for text in answers if text), "")
        self._unseen = [
            peer for peer, text in zip(self._unseen, answers, strict=True) if text is None
        ]

    def _ask(self, peer: Peer) -> str | None:
        """None: no answer yet. Empty: it has the same list. Else what differs, both named."""
        try:
            client = _core.Client(
                list(peer.addresses),
                self.config.cluster,
                io_threads=1,
                streams=1,
                timeout_ms=PROBE_MS,
                connect_ms=PROBE_MS,
            )
        except GD2FSError as error:
            is_stranger = OTHER_CLUSTER in str(error)
            return f"peer {peer} refuses {_at(self._me)}: {error}" if is_stranger else None
        _, hash_there, list_there = client.map()
        client.close()
        if hash_there == list_hash(self.peers):
            return ""
        return (
            f"{_at(self._me)} and {_at(peer)} have different lists of peers: "
            f"{self.name} has `{format_peers(self.peers)}`, "
            f"{peer.name} has `{format_peers(parse_peers(','.join(list_there)))}`"
        )


def _at(peer: Peer) -> str:
    return peer.name if peer.name in peer.addresses else f"{peer.name} at {peer.addresses[0]}"


def _alone(config: NodeConfig, listen: list[str]) -> Peer:
    addresses = config.advertise or tuple(listen)
    wildcard = next((address for address in addresses if _is_wildcard(address)), None)
    if wildcard:
        raise InvalidRequest(
            f"nobody can reach this node at {wildcard}",
            hint="say where with `--advertise ADDR:PORT`, or list it in `--peers`",
        )
    return Peer(config.name or addresses[0], tuple(addresses))


def _with_port(address: str) -> str:
    """Pick a free port now where 0 was asked for: the list of peers needs it before the start."""
    host, port = parse_address(address)
    if port:
        return address
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host.strip("[]"), 0))
            return f"{host}:{probe.getsockname()[1]}"
    except OSError as error:
        raise InvalidRequest(
            f"cannot listen on {address}: {error.strerror or error}",
            hint="name an address of this machine",
        ) from error


def _warn_without_token(listen: Iterable[str]) -> None:
    open_to_all = [address for address in listen if not _is_loopback(address)]
    if open_to_all:
        log.warning(
            "%s has no token: everyone who can reach it reads, changes and drops everything",
            " and ".join(open_to_all),
        )
    else:
        log.warning("this node has no token: every user of this machine can read and change it")


def _is_loopback(address: str) -> bool:
    host = parse_address(address)[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_wildcard(address: str) -> bool:
    return parse_address(address)[0].strip("[]") in ("0.0.0.0", "::")
