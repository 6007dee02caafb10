"""Node: one process of a cluster. It starts the native server, becomes a member, and serves the
admin side. No byte of the cache passes through here.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from types import TracebackType
from typing import Any

from gd2fs import _core, recovery
from gd2fs.admin import AdminSide
from gd2fs.admin.refusals import Refusals
from gd2fs.client import Client
from gd2fs.config import NodeConfig, client_config, is_loopback
from gd2fs.errors import GD2FSError, InvalidRequest
from gd2fs.key_trace.desk import TraceDesk
from gd2fs.membership import host_of, parse_address
from gd2fs.membership.identity import StateDirectory
from gd2fs.membership.joining import Membership, membership_of
from gd2fs.membership.provider import core_nodes
from gd2fs.membership.state import ClusterMap, NodeState
from gd2fs.metrics import NodeCollector
from gd2fs.node_facts import node_facts
from gd2fs.numa import tell_spread
from gd2fs.nvme import disk_line
from gd2fs.overview.report import Reporter
from gd2fs.settings import Questions, Settings, SettingsDesk
from gd2fs.site_rule import RuleThread, load_rule
from gd2fs.slow_log import SlowLog
from gd2fs.tls_watch import TlsWatch
from gd2fs.token_watch import TokenWatch, tokens_line
from gd2fs.tokens import KnownToken
from gd2fs.tracing import Tracer
from gd2fs.ucx import load_ucx
from gd2fs.whatif.told import told_of

ASK_S = 2.0  # for all nodes to say what they have yet to move

GONE = NodeState.GONE.name.lower()

log = logging.getLogger(__name__)


class Node:
    """A serving node. Make it with ``start``; it is a context manager that stops."""

    def __init__(
        self,
        config: NodeConfig,
        server: _core.Server,
        membership: Membership,
        state_directory: StateDirectory | None = None,
    ) -> None:
        self.config = config
        self.provider = membership.provider
        self.name = self.provider.name
        self._server = server
        self._state_directory = state_directory
        self._admin: AdminSide | None = None
        self.settings = Settings(config, server)
        facts = partial(
            node_facts,
            list_hash=membership.own_hash,
            addresses=config.advertise or server.addresses,
            counts=server.counts,
        )
        reporter = Reporter(
            server.counts,
            server.spaces,
            server.departures,
            server.tally,
            self.provider,
            rung=server.rung,
            spread=server.spread,
            rdma_lack=server.rdma_lack,
        )
        questions: Questions = {
            "facts": lambda _: facts(),
            "report": lambda _: reporter.report(),
            "curves": lambda _: told_of(server.curves()),
            "trace": TraceDesk(server).answer,
        }
        self._desk = SettingsDesk(self.settings, server, questions)
        self._rule = (
            RuleThread(config.rule, load_rule(config.rule), server) if config.rule else None
        )
        self._tokens: TokenWatch | None = None
        self._slow_log = SlowLog(server)
        self._tls_watch = TlsWatch(server) if config.tls.is_on else None
        self._is_stopping = False

    @classmethod
    def start(
        cls,
        config: NodeConfig,
        *,
        is_traceable: bool = True,
        is_ended: threading.Event | None = None,
    ) -> Node:
        """Open the arena, listen, and become a member of the cluster.

        Args:
            config: What it is told.
            is_traceable: False: from now on no debugger of this user reaches the memory of this
                whole process, and it leaves no core dump.
            is_ended: Set from another thread or a signal, it ends a wait for the name to be free.

        Raises:
            InvalidRequest: An address, the arena or the place in the cluster cannot be had, or a
                peer was given another list. Nothing is left running.
            Unavailable: What keeps the membership does not answer.
        """
        if config.rule:
            load_rule(config.rule)  # before anything is started
        listen = [_with_port(address) for address in config.listen]
        seen, known = config.token_places.seen(), config.token_places.read()
        with ExitStack() as undo:
            directory = StateDirectory(config.state_dir) if config.state_dir else None
            if directory:
                undo.enter_context(directory)
            membership = membership_of(config, listen, directory, is_ended)
            first = membership.provider.first_map()
            server = _server_of(
                config, listen, membership, first, known=known, is_traceable=is_traceable
            )
            node = cls(config, server, membership, directory)
            undo.callback(node.stop)
            node._begin(known)
            if not config.token_places.is_open:
                log.info("%s", tokens_line(known))
                node._tokens = TokenWatch(config.token_places, seen, node._take_tokens)
            undo.pop_all()
        if config.token_places.is_open:
            _warn_without_token(listen)
        if server.socket_fault:
            log.warning("%s: clients of this machine use TCP", server.socket_fault)
        return node

    @property
    def nodes(self) -> int:
        """How many nodes the cluster has now."""
        return self.provider.nodes()

    @property
    def addresses(self) -> list[str]:
        """Where it listens, ``ADDR:PORT``, with real ports."""
        return self._server.addresses

    @property
    def admin_address(self) -> str | None:
        """Where the admin side answers, or None."""
        return self._admin.address if self._admin else None

    @property
    def admin_url(self) -> str | None:
        """The same with ``http://`` or ``https://`` in front."""
        return self._admin.url if self._admin else None

    @property
    def rung(self) -> str:
        """What the arena is made of: ``hugetlb``, ``memfd``, ``thp``, ``plain`` or ``file``."""
        return self._server.rung

    @property
    def rdma_lack(self) -> str:
        """Why it takes part in no one-sided transfers; empty when it does."""
        return self._server.rdma_lack

    @property
    def is_sealed(self) -> bool:
        """Processes of this user on this machine may map the arena for reading."""
        return self._server.is_sealed

    @property
    def recovered(self) -> dict[str, int]:
        """What its former process had left and is here again; empty where nothing is kept."""
        return recovery.facts(self._server.recovery())

    def counts(self) -> dict[str, int]:
        """Return the native server's counts."""
        return self._server.counts()

    def tally(self) -> dict[str, Any]:
        """Return what the native server counts by namespace, op, transport, reason and peer."""
        return self._server.tally()

    def why_not_ready(self) -> str:
        """Say why this node should get no traffic; empty when it should."""
        return "the node is stopping" if self._is_stopping else self.provider.why_not_ready()

    def reload(self) -> None:
        """Read the files of its tokens and of TLS again, changed or not. From any thread or
        signal. What is no use is told in the log, and what was there before stays."""
        if self._tokens:
            self._tokens.look_now()
        with suppress(InvalidRequest):  # the watch tells
            self._server.reload_tls()

    def stop(self) -> None:
        """Leave the cluster, close all connections, give the memory back. Twice is fine."""
        if self._is_stopping:
            return
        self._is_stopping = True
        if self._tokens:
            self._tokens.stop()
        self._desk.stop()
        if self._rule:
            self._rule.stop()
        if self._admin:
            self._admin.stop()
        self._slow_log.stop()
        if self._tls_watch:
            self._tls_watch.stop()
        self.provider.leave()
        if self._state_directory:
            self._state_directory.leave()
            self._state_directory.close()
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

    def _begin(self, known: Sequence[KnownToken]) -> None:
        config = self.config
        if config.admin:
            self._admin = AdminSide(
                config.admin,
                tls=config.tls,
                known=known,
                name=self.name,
                tracer=Tracer.exporting(self.name) if config.is_traced else Tracer(),
                connect=self._client,
                collect=self._collector,
                why_not_ready=self.why_not_ready,
            )
        self.provider.join(self._server, self._moves_left)

    def _collector(self, refusals: Refusals) -> NodeCollector:
        labels = {"name": self.name, "cluster": self.config.cluster, "rung": self.rung}
        return NodeCollector(
            self.counts,
            labels,
            self.provider,
            self._server.spaces,
            tally=self.tally,
            why_not_ready=self.why_not_ready,
            admin_refused=refusals.counts,
            spread=self._server.spread,
        )

    def _take_tokens(self, known: Sequence[KnownToken]) -> None:
        if self._admin:
            self._admin.take_tokens(known)
        self._server.set_tokens([each.as_core() for each in known])

    def _client(self, timeout_s: float | None = None) -> Client:
        """Of the whole cluster, for what is asked of this node over HTTP."""
        access = self.config.access
        # It is reached where it listens, which need not be where the others know it.
        own_host = host_of((*self.config.advertise, *self.addresses)[0])
        return Client.of(
            client_config(
                self.addresses,
                cluster=self.config.cluster,
                io_threads=1,
                streams=1,
                timeout_s=timeout_s,
                token=access.token or "",
                token_file=access.token_file,
                tls=access.tls.as_client(own_host),
            )
        )

    def _moves_left(self) -> int | None:
        """What all nodes have yet to move because of the map that this one has; None: not known."""
        epoch = self.counts()["epoch"]
        try:
            with self._client(ASK_S) as client:
                told = {each.name: each for each in client.ping()}
                listed = [each.name for each in client.cluster().nodes if each.state != GONE]
        except GD2FSError:
            return None
        nodes = [told[name] for name in listed if name in told]
        if any(each.state == GONE or each.epoch < epoch for each in nodes):
            return None  # one is silent, or has not heard of the map
        return sum(each.moves_left + each.records_left for each in nodes)


def _server_of(
    config: NodeConfig,
    listen: list[str],
    membership: Membership,
    first: ClusterMap,
    *,
    known: Sequence[KnownToken],
    is_traceable: bool,
) -> _core.Server:
    replicas = first.settings.replicas
    server = _core.Server(
        cluster=config.cluster,
        name=membership.identity.name,
        listen=listen,
        peers=[],
        list_hash=membership.own_hash,
        boot=membership.identity.boot,
        threads=config.threads,
        memory_bytes=config.memory_bytes,
        arena=config.arena,
        zero_copy=config.zero_copy,
        is_shared=config.shm == "shared",
        is_traceable=is_traceable,
        congestion=config.congestion,
        socket_buffer_bytes=config.socket_buffer_bytes,
        provider=membership.provider.kind,
        epoch=first.epoch,
        replicas=replicas.default,
        namespaces=list(replicas.namespaces),
        lease_ms=first.settings.lease_s * 1000,
        members=core_nodes(first),
        is_judged=config.rule is not None,
        move_bytes_per_s=config.move_bytes_per_s,
        nvme=config.nvme.sized(),
        nvme_bytes_per_s=config.nvme.write_bytes_per_s,
        nvme_write=config.nvme.write,
        nvme_keep=config.nvme.keep,
        state_dir=config.state_dir or "",
        tokens=[each.as_core() for each in known],
        tls=config.tls.native(),
        is_spread=config.numa == "auto",
        rdma=config.native_rdma,
    )
    tell_spread(server.spread())
    for line in recovery.lines(server.recovery(), config.arena):
        log.info("%s", line)
    if config.nvme.places:
        log.info("%s", disk_line(server.counts()))
    if config.rdma == "on":
        log.info("RDMA is on: %s", load_ucx(config.ucx))
    if server.absent:
        log.warning(
            "this machine has no %s now: it is served once it has", " and ".join(server.absent)
        )
    return server


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
    open_to_all = [address for address in listen if not is_loopback(address)]
    if open_to_all:
        log.warning(
            "%s has no token: everyone who can reach it reads, changes and drops everything",
            " and ".join(open_to_all),
        )
    else:
        log.warning("this node has no token: every user of this machine can read and change it")
