"""Kill: a node is ended with SIGKILL under load. What fails, and how soon all is as before?"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from gd2fs.bench.board import Board
from gd2fs.bench.cluster.bench_nodes import BenchNodes
from gd2fs.bench.cluster.steady_load import HIT, MISS, Get, S, SteadyLoad, fill
from gd2fs.bench.io.report import mark, table
from gd2fs.bench.measures import percentile

NAMESPACE = "kill"
NODES = 3
KEYS = 600
VALUE_BYTES = 64 << 10
THREADS = 8
BEFORE_S = 4.0
AFTER_S = 8.0
WINDOW_S = 0.5  # over which the rate is taken, as it moves on by a bin
BIN_S = 0.1
RECOVERED_SHARE = 0.6  # of the rate before
RECOVERED_S_MAX = 2.0


@dataclass(frozen=True, slots=True)
class KillOutcome:
    """What the loss of one of three nodes cost.

    Attributes:
        replicas: Copies of every page.
        per_s: Hits a second before.
        failed: Gets that raised or gave wrong bytes.
        missed: Gets that missed, after the kill.
        lost_keys: Keys that lay on the killed node alone.
        missed_others: Gets that missed although another node had the key.
        recovered_s: From the kill until for good over 60 % of the rate before came back.
        slowest_s: The longest of all gets after the kill.
        miss_ms: Median and 99th percentile of those that missed.
        p99_ms: Before, and after.
    """

    replicas: int
    per_s: float
    failed: int
    missed: int
    lost_keys: int
    missed_others: int
    recovered_s: float
    slowest_s: float
    miss_ms: tuple[float, float]
    p99_ms: tuple[float, float]

    @property
    def is_good(self) -> bool:
        is_whole = self.failed == 0 and self.missed_others == 0
        return is_whole and self.recovered_s <= RECOVERED_S_MAX

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"is_good": self.is_good}


def run_kill(replicas: int, *, per_s: float, etcd: bool, arena: str, board: Board) -> KillOutcome:
    """Load three nodes, end one of them, and look at every get."""
    options = ["--memory", "256MiB", "--arena", arena, "--threads", "1"]
    options += ["--replicas", str(replicas)] if replicas > 1 else []
    keys = [f"key{at}" for at in range(KEYS)]
    with (
        board.stage(f"kill, {replicas} replicas", 3) as stage,
        tempfile.TemporaryDirectory(prefix="gd2fs-kill-") as folder,
        BenchNodes(NODES, options, Path(folder), etcd=etcd) as nodes,
        nodes.client(transport="tcp") as client,
    ):
        fill(client, NAMESPACE, keys, VALUE_BYTES)
        stage.step("filled")
        owners = [nodes.owners(NAMESPACE, key, replicas) for key in keys]
        with SteadyLoad(client, NAMESPACE, keys, VALUE_BYTES, per_s=per_s, threads=THREADS) as load:
            time.sleep(BEFORE_S)
            killed_ns = time.monotonic_ns()
            nodes.members[-1].kill()
            stage.step("killed")
            time.sleep(AFTER_S)
        stage.step()
    return outcome_of(replicas, load.gets(), killed_ns, owners)


def outcome_of(
    replicas: int, gets: Sequence[Get], killed_ns: int, owners: Sequence[Sequence[int]]
) -> KillOutcome:
    """``owners``: of each key, by number; the last node was killed."""
    before = [get for get in gets if get.end_ns < killed_ns]
    after = [get for get in gets if get.end_ns >= killed_ns]
    per_s = sum(get.outcome == HIT for get in before) / BEFORE_S
    lost = {key for key, nodes in enumerate(owners) if set(nodes) == {NODES - 1}}
    misses = [get for get in after if get.outcome == MISS]
    counts = Counter(get.outcome for get in gets)
    return KillOutcome(
        replicas=replicas,
        per_s=per_s,
        failed=counts.total() - counts[HIT] - counts[MISS],
        missed=len(misses),
        lost_keys=len(lost),
        missed_others=sum(get.key not in lost for get in misses)
        + sum(get.outcome == MISS for get in before),
        recovered_s=recovery_s([get.end_ns for get in after], killed_ns, per_s),
        slowest_s=max((get.took_ns for get in after), default=0) / S,
        miss_ms=(_percentile_ms(misses, 50), _percentile_ms(misses, 99)),
        p99_ms=(_percentile_ms(before, 99), _percentile_ms(after, 99)),
    )


def recovery_s(ends_ns: Sequence[int], since_ns: int, per_s: float) -> float:
    """From ``since_ns`` until the rate of ends, over a window, is for good 60 % of ``per_s``."""
    bins, width = round(AFTER_S / BIN_S), round(WINDOW_S / BIN_S)
    counts = Counter(int((end_ns - since_ns) / S / BIN_S) for end_ns in ends_ns)
    rates = [sum(counts[at + i] for i in range(width)) / WINDOW_S for at in range(bins - width)]
    slow = [at for at, rate in enumerate(rates) if rate < RECOVERED_SHARE * per_s]
    return (slow[-1] + 1) * BIN_S if slow else 0.0


def _percentile_ms(gets: Sequence[Get], percent: float) -> float:
    return percentile([get.took_ns for get in gets], percent) / 1e6 if gets else 0.0


def print_kill(outcomes: Sequence[KillOutcome], console: Console) -> None:
    """A table for people."""
    rows = table("gd2fs bench kill: one of three nodes gets SIGKILL")
    for heading in ("replicas", "gets/s", "failed", "missed", "of others", "recovered"):
        rows.add_column(heading, justify="right", no_wrap=True)
    for heading in ("slowest", "miss p50, p99", "p99 before", "p99 after", ""):
        rows.add_column(heading, justify="right", no_wrap=True)
    for each in outcomes:
        rows.add_row(
            str(each.replicas),
            f"{each.per_s:.0f}",
            str(each.failed),
            f"{each.missed} ({each.lost_keys} keys)",
            str(each.missed_others),
            f"{each.recovered_s:.1f} s",
            f"{each.slowest_s * 1e3:.0f} ms",
            f"{each.miss_ms[0]:.1f}, {each.miss_ms[1]:.1f} ms" if each.missed else "",
            f"{each.p99_ms[0]:.1f} ms",
            f"{each.p99_ms[1]:.1f} ms",
            mark(each.is_good, False),
        )
    console.print(rows)
