"""Cluster: real nodes as child processes on loopback, for tests and benchmarks.

Every node is `gd2fs serve`, started with the same list. Ports are free ones, found
just before. Nodes end with the context, and with this process however it ends.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType

from gd2fs.bench.children import die_with_parent
from gd2fs.errors import Unavailable

READY_S = 30.0  # from start to the `ready` line
STOP_S = 10.0  # from SIGTERM to the end, then SIGKILL


@dataclass
class NodeProcess:
    """One `gd2fs serve`. ``log`` is its standard error, a path."""

    name: str
    port: int
    command: list[str]
    log: str
    process: subprocess.Popen[str] | None = None
    ready_line: str = ""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start and wait for the `ready` line; without it Unavailable, in the node's words."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                preexec_fn=die_with_parent,
            )
        self.ready_line = _first_line(self.process, READY_S)
        if not self.ready_line.startswith("ready"):
            self.kill()
            with open(self.log, encoding="utf-8") as log_text:
                said, _, hint = log_text.read()[-2000:].strip().partition("\nhint: ")
            why = said.removeprefix("error: ") or "it said nothing"
            raise Unavailable(f"node {self.name} did not get ready: {why}", hint=hint)

    def kill(self, number: int = signal.SIGKILL) -> int:
        """Send a signal and wait for the end, killing after a while; the exit status."""
        if self.process is None:
            return 0
        self.process.send_signal(number)
        try:
            status = self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        self.process = None
        return status

    def stop(self) -> int:
        """End it as an operator would, with SIGTERM; the exit status."""
        return self.kill(signal.SIGTERM)


@dataclass
class Cluster:
    """``nodes`` real nodes of ``memory`` each. Use as a context manager.

    Args:
        nodes: How many.
        memory: Arena of one node, as `--memory` takes it.
        arena: Rung of the ladder, as `--arena` takes it.
        name: The cluster's name.
        directory: Where logs go.
        options: Further options of `gd2fs serve`.
    """

    nodes: int
    memory: str
    directory: str
    arena: str = "auto"
    name: str = "test"
    options: Sequence[str] = ()
    members: list[NodeProcess] = field(default_factory=list)

    @property
    def cp(self) -> str:
        return "gd2fs://" + ",".join(node.address for node in self.members)

    def __enter__(self) -> Cluster:
        ports = free_ports(self.nodes)
        peers = ",".join(f"n{index}=127.0.0.1:{port}" for index, port in enumerate(ports))
        self.members = [self._node(f"n{index}", port, peers) for index, port in enumerate(ports)]
        try:
            for node in self.members:
                node.start()
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

    def stop(self) -> None:
        for node in self.members:
            node.stop()

    def _node(self, name: str, port: int, peers: str) -> NodeProcess:
        command = [sys.executable, "-m", "gd2fs", "serve", "--cluster", self.name, "--name", name]
        command += [
            "--listen",
            f"tcp://127.0.0.1:{port}",
            "--memory",
            self.memory,
            "--peers",
            peers,
        ]
        command += ["--arena", self.arena, *self.options]
        return NodeProcess(name, port, command, os.path.join(self.directory, f"{name}.log"))


def free_ports(count: int) -> list[int]:
    """Ports of loopback that were free a moment ago. All are held at once, so they differ."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _first_line(process: subprocess.Popen[str], timeout_s: float) -> str:
    assert process.stdout is not None
    end = time.monotonic() + timeout_s
    while (left := end - time.monotonic()) > 0:
        readable, _, _ = select.select([process.stdout], [], [], min(left, 0.2))
        if readable:
            return process.stdout.readline()
        if process.poll() is not None:
            return ""
    return ""
