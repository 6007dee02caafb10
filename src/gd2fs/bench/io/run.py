"""Run: all cases, each in turn with its ceiling, so that a change of the machine meets both."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from gd2fs.bench.board import Board
from gd2fs.bench.io.case import CEILINGS, DEPTH, KIB, MIB, Case
from gd2fs.bench.io.fleet import Fleet
from gd2fs.bench.io.latency import Latency, histogram
from gd2fs.bench.io.peer import can_do
from gd2fs.bench.io.plan import arena_bytes
from gd2fs.bench.io.processor import Foreign
from gd2fs.bench.io.worker import PEER, STORE, whole_of

PHASE_S = 0.06  # of one job, before it is another one's turn
PHASE_CALLS_MAX = 500
WARM_CALLS = 4
REFERENCE_BYTES = 64 * MIB  # of the ceilings that are measured first
GIB = 1 << 30


@dataclass(slots=True)
class Samples:
    """What the rounds of one job gave.

    Attributes:
        calls_ns: Of all clients and rounds.
        rounds_ns: What one call cost in each round.
        gil_ns: That calls kept the interpreter's lock.
        cpu_s: Of clients and of the far end.
        calls: Of all clients.
    """

    calls_ns: list[int] = field(default_factory=list)
    rounds_ns: list[float] = field(default_factory=list)
    gil_ns: list[int] = field(default_factory=list)
    cpu_s: float = 0.0
    calls: int = 0

    @property
    def call_ms(self) -> float:
        return statistics.median(self.rounds_ns) / 1e6

    def gbps(self, call_bytes: int, clients: int) -> float:
        return clients * call_bytes / self.call_ms / 1e6

    def cpu_ms_per_gib(self, call_bytes: int) -> float | None:
        moved = self.calls * call_bytes
        return self.cpu_s * 1e3 * GIB / moved if moved else None


@dataclass(frozen=True, slots=True)
class Row:
    """One case, measured."""

    case: Case
    ceiling: str
    samples: dict[str, Samples]  # by job: store, ceiling, whole, peer:NAME
    foreign: Foreign

    @property
    def store(self) -> Samples:
        return self.samples[STORE]

    @property
    def ratio(self) -> float:
        """How much of the ceiling was reached: of every round, then the median."""
        return _ratio(self.samples["ceiling"], self.store)

    @property
    def ratio_one_object(self) -> float | None:
        whole = self.samples.get("whole")
        return _ratio(whole, self.store) if whole else None

    def peers(self) -> list[dict[str, Any]]:
        """Other stores on the same work; ``times_ours`` is how much longer they take."""
        case = self.case
        return [
            {
                "peer": name.removeprefix(PEER),
                "op": case.op,
                "bytes": case.bytes,
                "count": case.count,
                "ms_p50": Latency.of_ns(samples.calls_ns).p50,
                "ms_p99": Latency.of_ns(samples.calls_ns).p99,
                "gbps": samples.gbps(case.call_bytes, case.clients),
                "times_ours": _ratio(samples, self.store),
            }
            for name, samples in self.samples.items()
            if name.startswith(PEER)
        ]

    @property
    def gil_us(self) -> float:
        return statistics.median(self.store.gil_ns) / 1e3

    def as_dict(self) -> dict[str, Any]:
        case, call_bytes = self.case, self.case.call_bytes
        latency = Latency.of_ns(self.store.calls_ns)
        ceiling = self.samples["ceiling"]
        return {
            "op": case.op,
            "transport": case.transport,
            "bytes": case.bytes,
            "count": case.count,
            "streams": case.streams,
            "verify": case.verify,
            "nodes": case.nodes,
            "clients": case.clients,
            "in_flight": case.depth,
            "ms_p50": latency.p50,
            "ms_p99": latency.p99,
            "ms_p999": latency.p999,
            "samples": latency.samples,
            "ms_per_call": self.store.call_ms,
            "gbps": self.store.gbps(call_bytes, case.clients),
            "ceiling": self.ceiling,
            "ceiling_ms": ceiling.call_ms,
            "ceiling_gbps": ceiling.gbps(call_bytes, case.clients),
            "ratio": self.ratio,
            "ratio_one_object": self.ratio_one_object,
            "cpu_ms_per_gib": self.store.cpu_ms_per_gib(call_bytes),
            "ceiling_cpu_ms_per_gib": ceiling.cpu_ms_per_gib(call_bytes),
            "gil_us_p50": self.gil_us if case.is_batch else None,
            "items_per_s": case.clients * case.count / self.store.call_ms * 1e3,
            "histogram_ms": histogram(self.store.calls_ns),
            "busy": self.foreign.is_busy,
            "foreign_cpu": self.foreign.processes,
            "steal": self.foreign.steal,
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """A whole run.

    Attributes:
        ceilings: GB/s by name, measured first.
        rung, raw_rung: What the memory of the nodes, and of the ceilings, was made of.
        remarks: What the table cannot say.
    """

    ceilings: dict[str, float]
    rows: list[Row]
    foreign: Foreign
    rung: str
    raw_rung: str
    remarks: list[str]

    @property
    def is_busy(self) -> bool:
        return self.foreign.is_busy


@dataclass(frozen=True, slots=True)
class Settings:
    """How a run measures.

    Attributes:
        rounds: Turns of each job of a case.
        memory_bytes: Of each node; 0: what the cases need.
        arena: Kind of the nodes' memory.
        peers: Where other stores are that do the same work in turn, by name.
    """

    rounds: int = 10
    memory_bytes: int = 0
    arena: str = "auto"
    peers: Mapping[str, str] = field(default_factory=dict)


class Bench:
    """Measures cases one after the other on the processes that they need."""

    def __init__(self, settings: Settings, board: Board) -> None:
        self._settings = settings
        self._board = board
        self._ceilings: dict[str, float] = {}
        self._remarks: list[str] = []

    def run(self, cases: Sequence[Case]) -> Outcome:
        """Measure all of them.

        Raises:
            Corrupt: A call gave other bytes than were stored.
            Unavailable: A process of the run ended, or did not get ready.
        """
        rows: list[Row] = []
        foreign: list[Foreign] = []
        rungs = ("", "")
        ordered = sorted(cases, key=lambda case: case.nodes)
        with tempfile.TemporaryDirectory(prefix="gd2fs-bench-") as folder:
            for nodes, group in groupby(ordered, key=lambda case: case.nodes):
                with self._fleet(nodes, list(group), Path(folder)) as fleet:
                    start = fleet.moment()
                    rungs = (fleet.rung, fleet.raw["rung"])
                    rows += self._measure_all(fleet, [c for c in cases if c.nodes == nodes])
                    foreign.append(Foreign.between(start, fleet.moment()))
        if rungs[0] != rungs[1]:
            self._remarks.append(f"nodes have {rungs[0]} memory, but ceilings only {rungs[1]}")
        worst = max(foreign, key=lambda each: each.processes + each.steal)
        return Outcome(self._ceilings, rows, worst, *rungs, self._remarks)

    def _fleet(self, nodes: int, cases: list[Case], folder: Path) -> Fleet:
        needed = self._settings.memory_bytes or arena_bytes(cases)
        where = folder / f"nodes-{nodes}"
        where.mkdir()
        sized = [*cases, Case("read", bytes=min(REFERENCE_BYTES, max(c.call_bytes for c in cases)))]
        return Fleet(
            nodes=nodes,
            memory_bytes=needed,
            cases=sized,
            directory=where,
            arena=self._settings.arena,
            peers=self._settings.peers,
        )

    def _measure_all(self, fleet: Fleet, cases: Sequence[Case]) -> list[Row]:
        if not self._ceilings:
            self._measure_ceilings(fleet, cases)
        with self._board.stage("cases", len(cases)) as stage:
            rows = []
            for case in cases:
                rows.append(self._measure(fleet, case))
                stage.step(f"{case.label()}: {rows[-1].ratio:.0%} of {rows[-1].ceiling}")
            return rows

    def _measure_ceilings(self, fleet: Fleet, cases: Sequence[Case]) -> None:
        size = min(REFERENCE_BYTES, max(case.call_bytes for case in cases))
        read = Case("read", bytes=size)
        wanted = [(name, read) for name in CEILINGS if self._can(fleet, name)]
        small = Case("get", bytes=4 * KIB, count=min(128, max(1, size // (4 * KIB * DEPTH))))
        wanted.append(("bare_get", replace(small, depth=DEPTH)))
        if not self._can(fleet, "tcp_vmsplice"):
            self._remarks.append("memory cannot be lent to sockets here: ceilings are of `send`")
        with self._board.stage("ceilings", len(wanted)) as stage:
            for name, case in wanted:
                found = self._rounds(fleet, case, {"ceiling": name})["ceiling"]
                self._ceilings[name] = found.gbps(case.call_bytes, 1)
                stage.step(f"{name}: {self._ceilings[name]:.1f} GB/s")

    def _measure(self, fleet: Fleet, case: Case) -> Row:
        ceiling = case.ceiling(can_vmsplice=self._can(fleet, "tcp_vmsplice"))
        whats = {STORE: STORE, "ceiling": ceiling}
        if case.wants_whole():
            whats["whole"] = STORE
        for peer in self._settings.peers:
            if can_do(peer, case):
                whats[PEER + peer] = PEER + peer
        start = fleet.moment()
        samples = self._rounds(fleet, case, whats)
        return Row(case, ceiling, samples, Foreign.between(start, fleet.moment()))

    def _rounds(self, fleet: Fleet, case: Case, whats: dict[str, str]) -> dict[str, Samples]:
        times: dict[str, int] = {}
        for name, what in whats.items():
            fleet.open(name, whole_of(case) if name == "whole" else case, what)
            times[name] = self._warm(fleet, case, name)
        samples = {name: Samples() for name in whats}
        for number in range(self._settings.rounds):
            for name, what in whats.items():
                self._round(fleet, case, name, what, times[name], samples[name])
                if number + 1 == self._settings.rounds:
                    # At once: all jobs of a client fill the same memory.
                    fleet.ask(case.clients, do="check", id=name)
                    fleet.ask(case.clients, do="close", id=name)
        return samples

    def _warm(self, fleet: Fleet, case: Case, name: str) -> int:
        """Call it a few times and compare all bytes; how many calls make a phase."""
        fleet.ask(case.clients, do="run", id=name, times=1)
        answers = fleet.ask(case.clients, do="run", id=name, times=WARM_CALLS)
        fleet.ask(case.clients, do="check", id=name)
        call_s = max(min(answer["calls_ns"]) for answer in answers) / 1e9
        return max(1, min(PHASE_CALLS_MAX, round(PHASE_S / call_s)))

    def _round(
        self, fleet: Fleet, case: Case, name: str, what: str, times: int, into: Samples
    ) -> None:
        far_s = fleet.far_cpu_s(what)
        answers = fleet.ask(case.clients, do="run", id=name, times=times)
        into.cpu_s += fleet.far_cpu_s(what) - far_s
        into.rounds_ns.append(statistics.fmean(answer["call_ns"] for answer in answers))
        for answer in answers:
            into.calls_ns += answer["calls_ns"]
            into.gil_ns += answer["gil_ns"]
            into.cpu_s += answer["cpu_ns"] / 1e9
            into.calls += times

    def _can(self, fleet: Fleet, name: str) -> bool:
        return not name.endswith("vmsplice") or fleet.raw["vmsplice"] == "1"


def _ratio(best: Samples, found: Samples) -> float:
    pairs = zip(best.rounds_ns, found.rounds_ns, strict=True)
    return statistics.median(left / right for left, right in pairs)
