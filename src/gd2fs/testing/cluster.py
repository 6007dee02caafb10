"""Cluster: real nodes as child processes on loopback, for tests and benchmarks.

Every node is `gd2fs serve`, started with the same list, etcd or Kubernetes. Ports are free ones,
and stay theirs. Nodes end with the context, and with this process however it ends.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from gd2fs.bench.children import Child
from gd2fs.errors import Unavailable

READY_S = 30.0  # from start to the `ready` line
STOP_S = 10.0  # from SIGTERM to the end, then SIGKILL
LOG_TAIL_BYTES = 2000
PORTS = range(20_000, 32_000)  # below those that connections are given
CLAIMS = 256  # ports that one process keeps for itself
_claims: deque[socket.socket] = deque()


@dataclass
class NodeProcess:
    """One `gd2fs serve`. ``log`` is its standard error, a path. It may be started again."""

    name: str
    port: int
    command: list[str]
    log: str
    child: Child | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def process(self) -> subprocess.Popen[str] | None:
        """What runs now; None before ``start`` and after ``kill``."""
        return self.child.process if self.child else None

    @property
    def ready_line(self) -> str:
        """What it said when it was ready."""
        return self.child.ready_line if self.child else ""

    def start(self) -> None:
        """Start and wait for the `ready` line; without it Unavailable, in the node's words."""
        self.launch()
        self.wait_ready()

    def launch(self) -> None:
        """Start it."""
        self.child = Child(self.name, self.command, Path(self.log))

    def wait_ready(self) -> None:
        """Wait for its `ready` line. Raises Unavailable."""
        assert self.child is not None, "launch comes before"
        try:
            self.child.wait_ready(READY_S)
        except Unavailable as error:
            self.kill()
            said, _, hint = self.last_words().partition("\nhint: ")
            why = said.removeprefix("error: ") or "it said nothing"
            raise Unavailable(f"node {self.name} did not get ready: {why}", hint=hint) from error

    def send(self, number: int) -> None:
        """Send a signal and do not wait."""
        assert self.child is not None, f"{self.name} is not running"
        self.child.process.send_signal(number)

    def kill(self, number: int = signal.SIGKILL) -> int:
        """Send a signal and wait for the end, killing after a while; the exit status."""
        if self.child is None:
            return 0
        child, self.child = self.child, None
        child.process.send_signal(number)
        child.wait_end(STOP_S)
        return child.process.returncode

    def stop(self) -> int:
        """End it as an operator would, with SIGTERM; the exit status."""
        return self.kill(signal.SIGTERM)

    def last_words(self) -> str:
        """The end of its log."""
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()[-LOG_TAIL_BYTES:].strip()


@dataclass
class Cluster:
    """``nodes`` real nodes of ``memory`` each. Use as a context manager.

    Args:
        nodes: How many to begin with, `n0`, `n1`, and so on.
        memory: Arena of one node, as `--memory` takes it.
        arena: Rung of the ladder, as `--arena` takes it. Here and in options `{name}` stands for
            the node's name.
        name: The cluster's name.
        directory: Where logs go.
        options: Further options of `gd2fs serve`.
        etcd: Endpoint of an etcd that keeps the membership; empty: a list does.
        membership: Options that say what keeps it, instead of ``etcd``.
    """

    nodes: int
    memory: str
    directory: str
    arena: str = "auto"
    name: str = "test"
    options: Sequence[str] = ()
    etcd: str = ""
    membership: Sequence[str] = ()
    members: list[NodeProcess] = field(default_factory=list)

    @property
    def _store(self) -> list[str]:
        return list(self.membership) or (["--etcd", self.etcd] if self.etcd else [])

    @property
    def cp(self) -> str:
        return "gd2fs://" + ",".join(node.address for node in self.members)

    def __enter__(self) -> Cluster:
        ports = free_ports(self.nodes)
        peers = ",".join(f"n{index}=127.0.0.1:{port}" for index, port in enumerate(ports))
        place = self._store or ["--peers", peers]
        self.members = [self._node(f"n{index}", port, place) for index, port in enumerate(ports)]
        try:
            for node in self.members:
                node.launch()
            for node in self.members:
                node.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def add(self, *options: str) -> NodeProcess:
        """Start one more node, of a cluster that is no list; it has joined on return."""
        assert self._store, "a list never changes"
        place = [*self._store, *options]
        node = self._node(f"n{len(self.members)}", free_ports(1)[0], place)
        self.members.append(node)
        node.start()
        return node

    def stop(self) -> None:
        for node in self.members:
            if node.child:
                node.child.terminate()
        for node in self.members:
            node.stop()

    def _node(self, name: str, port: int, place: list[str]) -> NodeProcess:
        command = [sys.executable, "-m", "gd2fs", "serve", "--cluster", self.name, "--name", name]
        command += ["--listen", f"tcp://127.0.0.1:{port}", "--memory", self.memory, *place]
        options = [self.arena, *self.options]
        command += ["--arena", *(each.replace("{name}", name) for each in options)]
        return NodeProcess(name, port, command, os.path.join(self.directory, f"{name}.log"))


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody has, and that no connection is given by the kernel.

    They stay with this process, also while no node listens there, until it has asked for
    CLAIMS more: tests that run beside it get others.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = random.choice(PORTS)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            _claims.append(_claim(port))
            if len(_claims) > CLAIMS:
                _claims.popleft().close()
            ports.append(port)
    return ports


def _claim(port: int) -> socket.socket:
    """What says that a port is taken, as long as it lives. Raises OSError: another has it."""
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0gd2fs-test-port-{port}")  # no file; the tests of the core do the same
    except OSError:
        claim.close()
        raise
    return claim
