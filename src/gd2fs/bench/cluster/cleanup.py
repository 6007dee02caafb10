"""Clean-up: a node with very many keys dies. Do the calls of the others wait for the tidying?"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from gd2fs.bench.board import Board
from gd2fs.bench.cluster.bench_nodes import BenchNodes
from gd2fs.bench.cluster.steady_load import HIT, Get, SteadyLoad, fill
from gd2fs.bench.io.latency import Latency, histogram, sparkline
from gd2fs.bench.io.report import mark, table

NAMESPACE = "cleanup"
NODES = 3
VALUE_BYTES = 1024
THREADS = 2
LEASE_S = 2
BEFORE_S = 6.0
DURING_S = 8.0  # the lease of the dead node ends, and what it had is dealt with
FLOOR_MS = 1.0  # a p99 below this counts as this
RATIO_MAX = 2.0


@dataclass(frozen=True, slots=True)
class CleanupRound:
    """One death. Latencies are of gets whose owners live."""

    before: Latency
    during: Latency
    histograms: tuple[list[tuple[float, int]], list[tuple[float, int]]]
    failed: int

    @property
    def ratio(self) -> float:
        return max(self.during.p99, FLOOR_MS) / max(self.before.p99, FLOOR_MS)


@dataclass(frozen=True, slots=True)
class CleanupOutcome:
    """``keys``: on the node that died."""

    keys: int
    replicas: int
    rounds: list[CleanupRound]

    @property
    def ratio(self) -> float:
        return statistics.median(each.ratio for each in self.rounds)

    @property
    def is_good(self) -> bool:
        return self.ratio < RATIO_MAX and not any(each.failed for each in self.rounds)

    def as_dict(self) -> dict[str, Any]:
        return {
            "keys": self.keys,
            "replicas": self.replicas,
            "ratio": self.ratio,
            "is_good": self.is_good,
            "rounds": [
                {
                    "p99_ms_before": each.before.p99,
                    "p99_ms_during": each.during.p99,
                    "ratio": each.ratio,
                    "failed": each.failed,
                    "histogram_before": each.histograms[0],
                    "histogram_during": each.histograms[1],
                }
                for each in self.rounds
            ],
        }


def run_cleanup(
    keys: int, *, replicas: int, rounds: int, per_s: float, arena: str, board: Board
) -> CleanupOutcome:
    """Fill three nodes so that each has ``keys`` pages, and let one die, ``rounds`` times anew."""
    with board.stage(f"cleanup, {keys:,} keys", rounds) as stage:
        outcomes = []
        for _ in range(rounds):
            outcomes.append(_run_round(keys, replicas, per_s, arena))
            stage.step(f"p99 {outcomes[-1].ratio:.2f} times")
    return CleanupOutcome(keys, replicas, outcomes)


def _run_round(keys: int, replicas: int, per_s: float, arena: str) -> CleanupRound:
    names = [f"key{at}" for at in range(keys * NODES // replicas)]
    memory = max(256 << 20, 3 * keys * (4096 + 512))
    options = ["--memory", f"{memory >> 20}MiB", "--arena", arena, "--threads", "1"]
    options += ["--lease", str(LEASE_S), "--ramp", "0", "--replicas", str(replicas)]
    with (
        tempfile.TemporaryDirectory(prefix="gd2fs-cleanup-") as folder,
        BenchNodes(NODES, options, Path(folder)) as nodes,
        nodes.client(transport="tcp") as client,
    ):
        fill(client, NAMESPACE, names, VALUE_BYTES)
        dead = NODES - 1
        alive = {
            at
            for at, name in enumerate(names)
            if dead not in nodes.owners(NAMESPACE, name, replicas)
        }
        with SteadyLoad(
            client, NAMESPACE, names, VALUE_BYTES, per_s=per_s, threads=THREADS, only=sorted(alive)
        ) as load:
            time.sleep(BEFORE_S)
            killed_ns = time.monotonic_ns()
            nodes.members[dead].kill()
            time.sleep(DURING_S)
    return _round_of(load.gets(), killed_ns)


def _round_of(gets: Sequence[Get], killed_ns: int) -> CleanupRound:
    before = [get.took_ns for get in gets if get.end_ns < killed_ns]
    during = [get.took_ns for get in gets if get.end_ns >= killed_ns]
    return CleanupRound(
        Latency.of_ns(before),
        Latency.of_ns(during),
        (histogram(before), histogram(during)),
        sum(get.outcome != HIT for get in gets),
    )


def print_cleanup(outcome: CleanupOutcome, console: Console) -> None:
    """A table for people."""
    rows = table(f"gd2fs bench cleanup: a node with {outcome.keys:,} keys dies")
    for heading in ("p99 before", "", "p99 during", "", "ratio", "not hit"):
        rows.add_column(heading, justify="right", no_wrap=True)
    for each in outcome.rounds:
        rows.add_row(
            f"{each.before.p99:.2f} ms",
            sparkline(each.histograms[0]),
            f"{each.during.p99:.2f} ms",
            sparkline(each.histograms[1]),
            f"{each.ratio:.2f}",
            str(each.failed),
        )
    console.print(rows)
    good = mark(outcome.is_good, False)
    console.print(f"median {outcome.ratio:.2f}, at most {RATIO_MAX:.0f} {good}")
