"""Soak: full load for minutes; at the end nothing has grown, nothing is open, nothing was wrong."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from gd2fs.bench.board import Board
from gd2fs.bench.io.case import MIB, Case
from gd2fs.bench.io.fleet import Fleet
from gd2fs.bench.io.mix import WORKING_BYTES
from gd2fs.bench.io.report import mark, table
from gd2fs.errors import GD2FSError

SLICE_S = 2.0  # of load, between two looks at all processes
GROWTH_SHARE = 0.05
GROWTH_BYTES = 16 * MIB  # with the share: what may be added between the second quarter and the last
DESCRIPTORS_SPARE = 8  # a node makes pipes when it first needs so many; a leak makes hundreds
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PROC = Path("/proc")


@dataclass(slots=True)
class Watched:
    """One process over time. ``descriptors`` is empty where the system does not tell."""

    name: str
    pid: int
    rss_bytes: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)

    def look(self) -> None:
        """Read what it has now."""
        fields = (PROC / str(self.pid) / "statm").read_text().split()
        self.rss_bytes.append(int(fields[1]) * PAGE_BYTES)
        try:
            self.descriptors.append(len(list((PROC / str(self.pid) / "fd").iterdir())))
        except PermissionError:
            return  # a node that nobody may look into

    @property
    def growth_bytes(self) -> int:
        """From the second quarter of the time to the last one."""
        return round(_late(self.rss_bytes) - _early(self.rss_bytes))

    @property
    def is_steady(self) -> bool:
        return self.growth_bytes <= GROWTH_BYTES + GROWTH_SHARE * _early(self.rss_bytes)

    @property
    def are_descriptors_steady(self) -> bool:
        if not self.descriptors:
            return True
        return _late(self.descriptors) <= _early(self.descriptors) + DESCRIPTORS_SPARE

    def as_dict(self) -> dict[str, Any]:
        return {
            "process": self.name,
            "rss_bytes_early": round(_early(self.rss_bytes)),
            "rss_bytes_late": round(_late(self.rss_bytes)),
            "descriptors_early": round(_early(self.descriptors)) if self.descriptors else None,
            "descriptors_late": round(_late(self.descriptors)) if self.descriptors else None,
            "is_steady": self.is_steady and self.are_descriptors_steady,
        }


@dataclass(frozen=True, slots=True)
class SoakOutcome:
    """What minutes of load came to. ``errors``: what calls raised; wrong bytes among them."""

    seconds: float
    calls: Counter[str]
    misses: Counter[str]
    bytes: int
    errors: list[str]
    watched: list[Watched]

    @property
    def is_good(self) -> bool:
        steady = all(each.is_steady and each.are_descriptors_steady for each in self.watched)
        return steady and not self.errors

    def as_dict(self) -> dict[str, Any]:
        return {
            "seconds": self.seconds,
            "calls": dict(self.calls),
            "misses": dict(self.misses),
            "bytes": self.bytes,
            "errors": self.errors,
            "processes": [each.as_dict() for each in self.watched],
            "is_good": self.is_good,
        }


def run_soak(
    *, seconds: float, nodes: int, clients: int, transport: str, arena: str, board: Board
) -> SoakOutcome:
    """Load all nodes from all clients. Raises Unavailable when a process of the run is gone."""
    case = Case("mix", transport, bytes=MIB, nodes=nodes, clients=clients)
    with (
        tempfile.TemporaryDirectory(prefix="gd2fs-soak-") as folder,
        Fleet(
            nodes=nodes,
            memory_bytes=max(
                64 * MIB, clients * WORKING_BYTES * 3 // 4 // nodes
            ),  # some is evicted
            cases=[case],
            directory=Path(folder),
            arena=arena,
        ) as fleet,
    ):
        fleet.open("mix", case, "mix")
        watched = [Watched(f"node-{at}", pid) for at, pid in enumerate(fleet.node_pids)]
        watched += [Watched(f"client-{at}", c.pid) for at, c in enumerate(fleet.clients)]
        return _load(fleet, case, watched, seconds, board)


def print_soak(outcome: SoakOutcome, console: Console) -> None:
    """A table for people."""
    rows = table("gd2fs bench soak")
    for heading in ("process", "memory", "grown by", "descriptors", ""):
        rows.add_column(heading, justify="left" if heading == "process" else "right", no_wrap=True)
    for each in outcome.watched:
        facts = each.as_dict()
        early, late = facts["descriptors_early"], facts["descriptors_late"]
        rows.add_row(
            each.name,
            f"{facts['rss_bytes_late'] / MIB:.0f} MiB",
            f"{each.growth_bytes / MIB:+.1f} MiB",
            "not told" if early is None else f"{early} → {late}",
            mark(facts["is_steady"], False),
        )
    console.print(rows)
    rate = outcome.bytes / outcome.seconds / 1e9
    calls, misses = outcome.calls.total(), outcome.misses.total()
    console.print(
        f"{calls:,} calls and {outcome.bytes / 1e9:,.1f} GB in {outcome.seconds:.0f} s "
        f"({rate:.2f} GB/s), {misses:,} misses, {len(outcome.errors)} errors",
        soft_wrap=True,
    )
    for error in outcome.errors:
        console.print(f"error: {error}", markup=False, soft_wrap=True)


def _load(
    fleet: Fleet, case: Case, watched: list[Watched], seconds: float, board: Board
) -> SoakOutcome:
    calls: Counter[str] = Counter()
    misses: Counter[str] = Counter()
    moved, errors, start_s = 0, list[str](), time.monotonic()
    slices = max(4, round(seconds / SLICE_S))
    with board.stage("soak", slices) as stage:
        for _ in range(slices):
            answers = fleet.try_ask(case.clients, do="mix", id="mix", seconds=seconds / slices)
            errors += [str(answer) for answer in answers if isinstance(answer, GD2FSError)]
            for answer in answers:
                if not isinstance(answer, GD2FSError):
                    calls.update(answer["calls"])
                    misses.update(answer["misses"])
                    moved += answer["bytes"]
            for each in watched:
                each.look()
            stage.step(f"{calls.total():,} calls, {len(errors)} errors")
            if errors:
                break
    return SoakOutcome(time.monotonic() - start_s, calls, misses, moved, errors, watched)


def _early(values: Sequence[int]) -> float:
    quarter = max(1, len(values) // 4)
    return statistics.median(values[quarter : 2 * quarter] or values)


def _late(values: Sequence[int]) -> float:
    return statistics.median(values[-max(1, len(values) // 4) :])
