"""GIL: what batches cost the other Python threads of their process.

A thread counts beside 64 MiB batches, and is compared with itself beside the same load from another
process: both take the same cores, so what is left is the interpreter's lock. And every batch says
how long it held the lock.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from gd2fs.bench.board import Board
from gd2fs.bench.io.case import EXISTS_KEYS, KIB, MIB, Case
from gd2fs.bench.io.fleet import Fleet
from gd2fs.bench.io.plan import arena_bytes
from gd2fs.bench.io.processor import Foreign
from gd2fs.bench.io.report import gil_limit_us, mark, table
from gd2fs.bench.io.worker import STORE
from gd2fs.bench.measures import percentile

SHARE_MIN = 0.9
LOAD = Case("get", bytes=128 * KIB, count=512, clients=2)
HELD = (
    Case("get", bytes=128 * KIB, count=512),
    Case("get", bytes=MIB, count=64),
    Case("get", bytes=4 * KIB, count=128),
    Case("put", bytes=128 * KIB, count=512),
    Case("exists", bytes=0, count=EXISTS_KEYS),
)
HELD_CALLS = 50


@dataclass(frozen=True, slots=True)
class Counted:
    """One round: steps of the counter, and calls of the load, a second."""

    inside_steps: float
    outside_steps: float
    inside_calls: float
    outside_calls: float


@dataclass(frozen=True, slots=True)
class Held:
    """How long calls of one kind kept the interpreter's lock, in microseconds."""

    op: str
    count: int
    bytes: int
    us_p50: float
    us_p99: float
    limit_us: int


@dataclass(frozen=True, slots=True)
class GilOutcome:
    """All rounds, and all kinds of calls."""

    rounds: list[Counted]
    held: list[Held]
    foreign: Foreign

    @property
    def share(self) -> float:
        """Of the counter's speed beside another process's load, what it keeps beside its own."""
        return statistics.median(each.inside_steps / each.outside_steps for each in self.rounds)

    def as_dict(self) -> dict[str, Any]:
        median = {
            name: statistics.median(getattr(each, name) for each in self.rounds)
            for name in Counted.__slots__
        }
        return {
            "share": self.share,
            "share_min": SHARE_MIN,
            "inside_steps_per_s": median["inside_steps"],
            "outside_steps_per_s": median["outside_steps"],
            "inside_load_gbps": median["inside_calls"] * LOAD.call_bytes / 1e9,
            "outside_load_gbps": median["outside_calls"] * LOAD.call_bytes / 1e9,
            "held": [asdict(each) for each in self.held],
            "busy": self.foreign.is_busy,
            "foreign_cpu": self.foreign.processes,
            "steal": self.foreign.steal,
        }


def run_gil(*, rounds: int, seconds: float, arena: str, board: Board) -> GilOutcome:
    """Measure both. Raises as ``Bench.run`` does."""
    with (
        tempfile.TemporaryDirectory(prefix="gd2fs-bench-") as folder,
        Fleet(
            nodes=1,
            memory_bytes=arena_bytes([LOAD]),
            cases=[LOAD, *HELD],
            directory=Path(folder),
            arena=arena,
        ) as fleet,
    ):
        start = fleet.moment()
        with board.stage("counting", rounds) as stage:
            counted = _count(fleet, rounds, seconds, stage.step)
        with board.stage("holding", len(HELD)) as stage:
            held = []
            for case in HELD:
                held.append(_hold(fleet, case))
                stage.step(f"{case.label()}: {held[-1].us_p50:.0f} µs")
        return GilOutcome(counted, held, Foreign.between(start, fleet.moment()))


def print_gil(outcome: GilOutcome, console: Console) -> None:
    """A table for people."""
    facts = outcome.as_dict()
    rows = table("gd2fs bench gil")
    for heading in ("", "", "target", ""):
        rows.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    unsure = outcome.foreign.is_busy
    rows.add_row(
        "a counting thread keeps, beside 64 MiB batches",
        f"{outcome.share:.1%}",
        f"≥ {SHARE_MIN:.0%}",
        mark(outcome.share >= SHARE_MIN, unsure),
    )
    rows.add_row("  the batches move", f"{facts['inside_load_gbps']:.2f} GB/s", "", "")
    rows.add_row("  from another process", f"{facts['outside_load_gbps']:.2f} GB/s", "", "")
    for case, held in zip(HELD, outcome.held, strict=True):
        rows.add_row(
            f"lock held by {case.label()}, p50 (p99)",
            f"{held.us_p50:.0f} ({held.us_p99:.0f}) µs",
            f"≤ {held.limit_us} µs",
            mark(held.us_p50 <= held.limit_us, unsure),
        )
    console.print(rows)
    if unsure:
        console.print(f"refused: the machine was busy: {outcome.foreign.text()}", soft_wrap=True)


def _count(fleet: Fleet, rounds: int, seconds: float, step: Any) -> list[Counted]:
    fleet.open("load", LOAD, STORE)
    fleet.ask(2, do="run", id="load", times=2)
    found = []
    counter, loader = fleet.clients
    for _ in range(rounds):
        counter.order(do="count_beside", id="load", seconds=seconds)
        inside = counter.answer()
        loader.order(do="load", id="load", seconds=seconds)
        counter.order(do="count", seconds=seconds)
        outside = counter.answer() | loader.answer()
        found.append(
            Counted(
                inside["steps_per_s"],
                outside["steps_per_s"],
                inside["calls_per_s"],
                outside["calls_per_s"],
            )
        )
        step(f"{found[-1].inside_steps / found[-1].outside_steps:.0%}")
    fleet.ask(2, do="check", id="load")
    fleet.ask(2, do="close", id="load")
    return found


def _hold(fleet: Fleet, case: Case) -> Held:
    fleet.open("held", case, STORE)
    fleet.ask(1, do="run", id="held", times=2)
    held_ns: Sequence[int] = fleet.ask(1, do="run", id="held", times=HELD_CALLS)[0]["gil_ns"]
    fleet.ask(1, do="close", id="held")
    p50, p99 = (percentile(held_ns, percent) / 1e3 for percent in (50, 99))
    return Held(case.op, case.count, case.bytes, p50, p99, gil_limit_us(case))
