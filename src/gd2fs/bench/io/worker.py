"""Worker: a client process of a run. It is told what to do in lines of JSON, and answers in such.

    {"do": "open", "id": ID, "case": {...}, "what": "store" | CEILING | "peer:NAME" | "mix"}
    {"do": "run", "id": ID, "times": N}         answers a Phase
    {"do": "check", "id": ID}
    {"do": "close", "id": ID}
    {"do": "count", "seconds": S}               {"steps_per_s"}
    {"do": "load", "id": ID, "seconds": S}      {"calls_per_s"}
    {"do": "count_beside", "id": ID, "seconds": S}    both
    {"do": "mix", "id": ID, "seconds": S}       answers a Tally

What goes wrong is answered as {"error": KIND, "message", "hint"}; the process goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import msgspec

from gd2fs.bench.io.case import RDMA, Case
from gd2fs.bench.io.ceiling_jobs import Lines, ceiling_job
from gd2fs.bench.io.counting import count_beside, count_for, load_for
from gd2fs.bench.io.job import Job
from gd2fs.bench.io.memory import Memory, fill
from gd2fs.bench.io.mix import Mix
from gd2fs.bench.io.peer import Peers
from gd2fs.bench.io.store_jobs import PATIENCE_S, store_job
from gd2fs.client import Client
from gd2fs.errors import GD2FSError

STORE, PEER, MIX = "store", "peer:", "mix"


class Clients:
    """One client of the cluster for every way to reach it; made when it is first used.

    ``memory`` is registered with those that move bytes by RDMA, as engines do with their pools.
    """

    def __init__(self, cp: str, cluster: str, memory: Sequence[memoryview]) -> None:
        self._cp, self._cluster, self._memory = cp, cluster, memory
        self._clients: dict[tuple[str, int, bool], Client] = {}

    def client(self, case: Case) -> Client:
        way = (case.transport, case.streams, case.verify)
        if way not in self._clients:
            self._clients[way] = Client(
                self._cp,
                cluster=self._cluster,
                streams=case.streams,
                verify=case.verify,
                timeout_s=PATIENCE_S,
                transport=case.transport,
            )
            for view in self._memory if case.transport == RDMA else ():
                self._clients[way].register(view)
        return self._clients[way]

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


class Worker:
    """The jobs of one client process, over one piece of memory.

    Args:
        setup: ``cp``, ``cluster``, ``index`` of this client, ``call_bytes`` and ``into_bytes`` of
            the largest call, ``raw`` addresses, ``peers``.
    """

    def __init__(self, setup: Mapping[str, Any]) -> None:
        self._setup = setup
        self._index = setup["index"]
        self._source = Memory(setup["call_bytes"]).view
        self._into = Memory(setup["into_bytes"]).view
        fill(self._source, seed=self._index)
        self._clients = Clients(setup["cp"], setup["cluster"], (self._source, self._into))
        self._lines = Lines(setup["raw"])
        self._peers = Peers(setup["peers"], (self._source, self._into))
        self._jobs: dict[str, Job] = {}
        self._mix: Mix | None = None

    def answer(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Do what ``order`` says. Raises GD2FSError."""
        return _ORDERS[order["do"]](self, order) or {}

    def close(self) -> None:
        self._clients.close()

    def _open(self, order: Mapping[str, Any]) -> None:
        case = Case(**order["case"])
        if order["what"] == MIX:
            self._mix = Mix(self._clients.client(case), self._index)
            return
        job = self._jobs[order["id"]] = self._job(order["what"], case)
        job.prepare()

    def _job(self, what: str, case: Case) -> Job:
        source = self._source[: case.call_bytes]
        into = self._into[: case.call_bytes * case.depth]
        if what == STORE:
            return store_job(self._clients.client(case), case, self._index, source, into)
        if what.startswith(PEER):
            return self._peers.job(what.removeprefix(PEER), case, self._index, source, into)
        return ceiling_job(self._lines, what, case, source, into)

    def _run(self, order: Mapping[str, Any]) -> dict[str, Any]:
        return asdict(self._jobs[order["id"]].run(order["times"]))

    def _check(self, order: Mapping[str, Any]) -> None:
        self._jobs[order["id"]].check()

    def _close(self, order: Mapping[str, Any]) -> None:
        self._jobs.pop(order["id"]).finish()

    def _count(self, order: Mapping[str, Any]) -> dict[str, Any]:
        return {"steps_per_s": count_for(order["seconds"])}

    def _load(self, order: Mapping[str, Any]) -> dict[str, Any]:
        return {"calls_per_s": load_for(self._jobs[order["id"]], order["seconds"])}

    def _count_beside(self, order: Mapping[str, Any]) -> dict[str, Any]:
        return count_beside(self._jobs[order["id"]], order["seconds"])

    def _run_mix(self, order: Mapping[str, Any]) -> dict[str, Any]:
        assert self._mix is not None
        tally = self._mix.run(order["seconds"])
        return {"calls": tally.calls, "misses": tally.misses, "bytes": tally.bytes}


def whole_of(case: Case) -> Case:
    """The same bytes as one object."""
    return replace(case, op="read", bytes=case.call_bytes, count=1, depth=1)


Order = Callable[[Worker, Mapping[str, Any]], "dict[str, Any] | None"]
_ORDERS: dict[str, Order] = {
    "open": Worker._open,
    "run": Worker._run,
    "check": Worker._check,
    "close": Worker._close,
    "count": Worker._count,
    "load": Worker._load,
    "count_beside": Worker._count_beside,
    "mix": Worker._run_mix,
}


def main() -> None:
    """Serve orders from standard input until it ends."""
    worker = Worker(msgspec.json.decode(sys.stdin.buffer.readline()))
    _say(b"ready")
    for line in sys.stdin.buffer:
        try:
            answer = worker.answer(msgspec.json.decode(line))
        except (GD2FSError, OSError) as error:
            answer = {
                "error": type(error).__name__,
                "message": str(error),
                "hint": getattr(error, "hint", ""),
            }
        _say(msgspec.json.encode(answer))
    worker.close()


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
