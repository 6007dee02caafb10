"""Bench nodes: real nodes on loopback that come and go, by a list or by etcd."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from gd2fs import _core
from gd2fs.client import Client
from gd2fs.testing.cluster import NodeProcess, free_ports
from gd2fs.testing.etcd import EtcdServer

CLUSTER = "bench"
HOST = "127.0.0.1"


class BenchNodes:
    """Nodes `n0`, `n1`, … A context manager that ends them all.

    Args:
        count: How many are started at first.
        count_max: How many there may be; by a list, all are in it from the start.
        options: Further options of `gd2fs serve`.
        directory: For logs and etcd's data.
        etcd: By etcd; else by a list.
    """

    def __init__(
        self,
        count: int,
        options: Sequence[str],
        directory: Path,
        *,
        count_max: int = 0,
        etcd: bool = True,
    ) -> None:
        self._count = count
        self._options = list(options)
        self._directory = directory
        self._has_etcd = etcd
        self._stack = ExitStack()
        self._etcd: EtcdServer | None = None
        self.members = [
            NodeProcess(f"n{at}", port, [], str(directory / f"n{at}.log"))
            for at, port in enumerate(free_ports(max(count, count_max)))
        ]

    def __enter__(self) -> BenchNodes:
        try:
            if self._has_etcd:
                self._etcd = self._stack.enter_context(EtcdServer(str(self._directory)))
            for node in self.members:
                node.command = self._command(node)
            for node in self.members[: self._count]:
                self.start(node)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node in self.members:
            node.kill()
        self._stack.close()

    def start(self, node: NodeProcess) -> None:
        """Start one that does not run. Raises Unavailable when it does not get ready."""
        node.start()

    def client(self, **settings: object) -> Client:
        """A client of the nodes that run; ``settings`` as ``Client`` takes them."""
        running = [node.address for node in self.members if node.process is not None]
        return Client(",".join(running), cluster=CLUSTER, **settings)  # type: ignore[arg-type]

    def owners(self, namespace: str, key: str, count: int) -> list[int]:
        """Which of all members own a page, in order, where all have the same weight."""
        names = [node.name for node in self.members]
        name = f"{namespace}\0{key}".encode()
        return list(_core.placement_order(names, [100] * len(names), name, 0, count))

    def _command(self, node: NodeProcess) -> list[str]:
        command = [sys.executable, "-m", "gd2fs", "serve", "--cluster", CLUSTER]
        command += ["--name", node.name, "--listen", f"tcp://{node.address}", *self._options]
        if self._etcd is not None:
            return [*command, "--etcd", self._etcd.endpoint]
        peers = ",".join(f"{each.name}={each.address}" for each in self.members)
        return [*command, "--peers", peers]
