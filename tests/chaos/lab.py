"""Lab: the hosts and processes of one run: nodes, clients, a proxy, a control plane."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from chaos.network import Network
from chaos.process import Process
from chaos.schedule import CLIENTS, Schedule

PORT = 7527
ADMIN = "127.0.0.1:9527"  # inside each node's namespace, so no fault of the network reaches it
NODE_HOST, CLIENT_HOST, PROXY_HOST = 10, 50, 100
SERVE = ("-m", "gd2fs", "serve")


class Lab:
    """All that a schedule needs, running. A context manager that takes all of it away.

    Args:
        schedule: What is to be done here.
        folder: For logs and plans.
        python: The command that runs modules of gd2fs.
        environment: Of nodes and clients, beyond this process's.
    """

    def __init__(
        self,
        schedule: Schedule,
        folder: Path,
        *,
        python: Sequence[str] = (sys.executable,),
        environment: dict[str, str] | None = None,
    ) -> None:
        self.schedule = schedule
        self.world = schedule.world
        self.folder = folder
        self.network = Network()
        self.nodes: dict[str, Process] = {}
        self.clients: dict[str, Process] = {}
        self.proxy: Process | None = None
        self._python = list(python)
        self._environment = environment or {}
        self._stack = ExitStack()

    def __enter__(self) -> Lab:
        self._stack.enter_context(self.network)
        try:
            self._add_hosts()
            self._start_all()
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
        children = [*self.clients.values(), *self.nodes.values()]
        for child in [*children, *([self.proxy] if self.proxy else [])]:
            child.kill()
        self._stack.close()

    # ---- what is where -----------------------------------------------------------------------

    def node_names(self) -> list[str]:
        return [f"n{index}" for index in range(self.world.nodes)]

    def reached_at(self, name: str) -> str:
        """Where others reach a node: at the proxy in front of it, if it has one."""
        is_proxied = self.world.proxied is not None and name == f"n{self.world.proxied}"
        return f"{self.network.address('p' if is_proxied else name)}:{PORT}"

    def client_log(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    def host_of(self, name: str) -> str:
        """The namespace that a process is in."""
        return "n0" if name == "c0" and self.world.has_local_client else name

    # ---- nodes -------------------------------------------------------------------------------

    def start_node(self, name: str) -> Process:
        """Start a node, empty; the caller waits until it is ready."""
        command = [*self._python, *SERVE, *self._node_options(name)]
        self.nodes[name] = self._start(name, command)
        return self.nodes[name]

    def metrics_of(self, name: str) -> dict[str, float]:
        """The node's own counts, by `NAME{LABELS}`."""
        text = self.network.inside(name, lambda: _fetch(f"http://{ADMIN}/metrics"))
        lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in lines}

    def _node_options(self, name: str) -> list[str]:
        peers = ",".join(f"{each}={self.reached_at(each)}" for each in self.node_names())
        return [
            *("--cluster", "chaos", "--name", name, "--peers", peers),
            *("--listen", f"tcp://{self.network.address(name)}:{PORT}"),
            *("--advertise", f"tcp://{self.reached_at(name)}"),
            *("--memory", self.world.memory, "--arena", "memfd", "--threads", "1"),
            *("--zero-copy", self.world.zero_copy, "--admin", ADMIN),
        ]

    # ---- all of it ---------------------------------------------------------------------------

    def _add_hosts(self) -> None:
        for index, name in enumerate(self.node_names()):
            self.network.add(name, NODE_HOST + index)
        for index in range(CLIENTS):
            self.network.add(f"c{index}", CLIENT_HOST + index)
        if self.world.proxied is not None:
            self.network.add("p", PROXY_HOST)

    def _start_all(self) -> None:
        if self.world.proxied is not None:
            node = self.network.address(f"n{self.world.proxied}")
            ends = (f"{self.network.address('p')}:{PORT}", f"{node}:{PORT}")
            command = [sys.executable, "-m", "chaos.proxy", *ends, str(self.schedule.seed)]
            self.proxy = self._start("p", command)
            self.proxy.wait_ready()
        for name in self.node_names():
            self.start_node(name)
        for node in self.nodes.values():
            node.wait_ready()
        for index in range(CLIENTS):
            self._start_client(index)
        for client in self.clients.values():
            client.wait_ready()

    def _start_client(self, index: int) -> None:
        name = f"c{index}"
        self.client_log(name).unlink(missing_ok=True)
        is_local = self.host_of(name) != name
        settings = {
            "cp": [self.reached_at(node) for node in self.node_names()],
            "cluster": "chaos",
            "io_threads": 1,
            "transport": "auto" if is_local else "tcp",
        }
        steps = [asdict(step) for step in self.schedule.steps_of(index)]
        plan = self.folder / f"{name}.json"
        plan.write_text(json.dumps({"client": settings, "steps": steps}), encoding="utf-8")
        command = [*self._python, "-m", "chaos.worker", str(plan), str(self.client_log(name))]
        self.clients[name] = self._start(name, command)

    def _start(self, name: str, command: list[str]) -> Process:
        enter = self.network.enter(self.host_of(name))
        return Process(name, command, self.folder / f"{name}.log", enter, self._environment)


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.read().decode()
