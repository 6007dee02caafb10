"""Nodes: real servers inside this process, on loopback, for tests that need no `gd2fs serve`."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from gd2fs import _core
from gd2fs.client import Client
from gd2fs.membership import Peer, list_hash
from gd2fs.testing.cluster import free_ports


class LocalNodes:
    """``count`` nodes of one cluster, each with ``memory_bytes`` of memory.

    ``settings`` go to each server: see ``_core.Server``.

    A context manager. ``stop`` and ``start`` take a node away and bring it back, empty.
    """

    def __init__(
        self,
        count: int = 1,
        *,
        memory_bytes: int = 64 << 20,
        cluster: str = "test",
        arena: str = "plain",
        **settings: Any,
    ) -> None:
        self.cluster = cluster
        self.arena = arena
        self.settings = settings
        self.memory_bytes = memory_bytes
        self.peers = [
            Peer(f"n{index}", (f"127.0.0.1:{port}",))
            for index, port in enumerate(free_ports(count))
        ]
        self.servers: list[_core.Server | None] = [None] * count

    @property
    def cp(self) -> str:
        """Control-plane addresses of all nodes."""
        return ",".join(peer.addresses[0] for peer in self.peers)

    def __enter__(self) -> LocalNodes:
        for index in range(len(self.peers)):
            self.start(index)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for index in range(len(self.peers)):
            self.stop(index)

    def start(self, index: int) -> None:
        """Start a node that is not running."""
        peer = self.peers[index]
        self.servers[index] = _core.Server(
            self.cluster,
            peer.name,
            list(peer.addresses),
            [(each.name, list(each.addresses), each.weight) for each in self.peers],
            list_hash(self.peers),
            time.time_ns() // 1000,
            1,
            self.memory_bytes,
            self.arena,
            **self.settings,
        )

    def stop(self, index: int) -> None:
        """Stop a node; its memory is gone."""
        server, self.servers[index] = self.servers[index], None
        if server is not None:
            server.stop()

    def client(self, **settings: Any) -> Client:
        """A client of these nodes; ``settings`` as ``Client`` takes them."""
        return Client(self.cp, cluster=self.cluster, **settings)
