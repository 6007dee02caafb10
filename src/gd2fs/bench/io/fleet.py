"""Fleet: the processes of a run. Nodes, clients, and the raw node; all of them real ones."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from gd2fs.bench.children import Child, Children
from gd2fs.bench.io.case import RDMA, Case
from gd2fs.bench.io.peer import MOONCAKE, peer_pids
from gd2fs.bench.io.processor import Moment, process_cpu_s
from gd2fs.errors import Corrupt, GD2FSError, InvalidRequest, Unavailable
from gd2fs.testing.cluster import Cluster

CLUSTER = "bench-io"
ANSWER_S = 300.0
ERRORS = {kind.__name__: kind for kind in (InvalidRequest, Unavailable, Corrupt)}


class ClientProcess:
    """One client process. Orders go to several of them before any is waited for."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self.pid = child.pid

    def order(self, **order: Any) -> None:
        """Tell it what to do next."""
        self._child.tell(msgspec.json.encode(order).decode())

    def answer(self) -> dict[str, Any]:
        """What came of it. Raises what went wrong there."""
        answer = msgspec.json.decode(self._child.hear(ANSWER_S))
        if "error" in answer:
            kind = ERRORS.get(answer["error"], GD2FSError)
            raise kind(f"{self._child.name}: {answer['message']}", hint=answer["hint"])
        return answer


class Fleet:
    """``nodes`` nodes, the raw node and ``clients`` client processes. A context manager.

    Args:
        memory_bytes: Of each node.
        cases: What the clients must have memory for.
        directory: Where logs go.
        arena: As `gd2fs serve` takes it.
        peers: Where other stores are, by name.
    """

    def __init__(
        self,
        *,
        nodes: int,
        memory_bytes: int,
        cases: Sequence[Case],
        directory: Path,
        arena: str = "auto",
        peers: Mapping[str, str] | None = None,
    ) -> None:
        self._cases = cases
        self._peers = dict(peers or {})
        self._directory = directory
        has_rdma = any(case.transport == RDMA for case in cases)
        self._cluster = Cluster(
            nodes,
            str(memory_bytes),
            str(directory),
            arena=arena,
            name=CLUSTER,
            options=("--rdma", "on") if has_rdma else (),
        )
        self._stack = ExitStack()
        self.clients: list[ClientProcess] = []
        self.raw: Mapping[str, str] = {}
        self._raw_pid = 0
        self._peer_pids: list[int] = []

    @property
    def rung(self) -> str:
        """What the nodes' memory is made of."""
        words = self._cluster.members[0].ready_line.split()
        return dict(word.split("=", 1) for word in words if "=" in word)["rung"]

    @property
    def node_pids(self) -> list[int]:
        return [node.process.pid for node in self._cluster.members if node.process]

    @property
    def cp(self) -> str:
        return self._cluster.cp

    def __enter__(self) -> Fleet:
        with self._stack:
            self._stack.enter_context(self._cluster)
            children = self._stack.enter_context(Children(self._directory))
            raw = children.start("raw", _python("gd2fs.bench.io.raw_node", self.rung))
            raw.wait_ready()
            self.raw, self._raw_pid = raw.facts, raw.pid
            self._start_peers(children)
            count = max(case.clients for case in self._cases)
            self.clients = [self._start_client(children, index) for index in range(count)]
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def ask(self, count: int, **order: Any) -> list[dict[str, Any]]:
        """Have the first ``count`` clients do the same at the same time; their answers."""
        asked = self.clients[:count]
        for client in asked:
            client.order(**order)
        return [client.answer() for client in asked]

    def try_ask(self, count: int, **order: Any) -> list[dict[str, Any] | GD2FSError]:
        """As ``ask``, with what went wrong at a client in place of its answer."""
        asked = self.clients[:count]
        for client in asked:
            client.order(**order)
        return [_answer_or_error(client) for client in asked]

    def open(self, name: str, case: Case, what: str) -> None:
        """Make a job at every client that ``case`` has."""
        self.ask(case.clients, do="open", id=name, case=asdict(case), what=what)

    def moment(self) -> Moment:
        """What the machine and all processes of the run had done by now."""
        mine = [os.getpid(), self._raw_pid, *(client.pid for client in self.clients)]
        return Moment.now([*mine, *self.node_pids, *self._peer_pids])

    def far_cpu_s(self, what: str) -> float:
        """Seconds that the other end of ``store`` or of a ceiling has run by now."""
        pids: Iterable[int] = self.node_pids if what == "store" else [self._raw_pid]
        return sum(map(process_cpu_s, pids))

    def _start_peers(self, children: Children) -> None:
        self._peer_pids = peer_pids(self._peers)
        if MOONCAKE in self._peers:
            child = children.start(MOONCAKE, _python("gd2fs.bench.io.mooncake"))
            child.wait_ready()
            self._peers[MOONCAKE] = child.facts["master"]
            self._peer_pids += [child.pid, int(child.facts["pid"])]

    def _start_client(self, children: Children, index: int) -> ClientProcess:
        setup = {
            "cp": self.cp,
            "cluster": CLUSTER,
            "index": index,
            "call_bytes": max(case.call_bytes for case in self._cases),
            "into_bytes": max(case.call_bytes * case.depth for case in self._cases),
            "raw": dict(self.raw),
            "peers": self._peers,
        }
        command = _python("gd2fs.bench.io.worker")
        child = children.start(f"client-{index}", command, has_input=True)
        child.tell(msgspec.json.encode(setup).decode())
        child.wait_ready()
        return ClientProcess(child)


def _answer_or_error(client: ClientProcess) -> dict[str, Any] | GD2FSError:
    try:
        return client.answer()
    except GD2FSError as error:
        return error


def _python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]
