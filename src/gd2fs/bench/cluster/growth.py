"""Growth: a cluster doubles and halves while a recorded trace runs. What does it cost in hits?"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from gd2fs.bench.board import Board, Stage
from gd2fs.bench.cluster.bench_nodes import BenchNodes
from gd2fs.bench.cluster.replay import Replay, Replayed
from gd2fs.bench.io.report import mark, table
from gd2fs.client import Client
from gd2fs.errors import Unavailable

FEW, MANY = 4, 8  # nodes
GROW_AT, SHRINK_AT = 0.25, 0.6  # of the trace
LEFT_S = 120.0  # for a node that drains
POLL_S = 0.1
TOTAL_POINTS_MAX = 1.0  # of a hundred, that the hits of the whole trace may differ
WINDOW_POINTS_MAX = 5.0  # and those of the worst 10 s


@dataclass(frozen=True, slots=True)
class Change:
    """What became of the nodes: the share of the trace at which it was begun and done."""

    what: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class GrowthOutcome:
    """The trace with changes beside the same one without."""

    nodes: tuple[int, int]
    calm: Replayed
    changed: Replayed
    changes: list[Change]

    @property
    def total_points(self) -> float:
        """Hits of a hundred that were lost by the changes; below 0, gained."""
        return 100 * (self.calm.rate - self.changed.rate)

    @property
    def window_points(self) -> float:
        """As above, in the worst window."""
        pairs = zip(self.calm.rates(), self.changed.rates(), strict=True)
        return max(100 * (calm - changed) for calm, changed in pairs)

    @property
    def is_good(self) -> bool:
        is_whole = self.changed.wrong == 0 and self.changed.errors == 0
        is_near = self.total_points <= TOTAL_POINTS_MAX and self.window_points <= WINDOW_POINTS_MAX
        return is_whole and is_near

    def as_dict(self) -> dict[str, Any]:
        return {
            "nodes": self.nodes,
            "hit_rate_calm": self.calm.rate,
            "hit_rate_changed": self.changed.rate,
            "windows_calm": self.calm.rates(),
            "windows_changed": self.changed.rates(),
            "total_points": self.total_points,
            "worst_window_points": self.window_points,
            "wrong": self.changed.wrong,
            "errors": self.changed.errors,
            "changes": [(each.what, each.begin, each.end) for each in self.changes],
            "is_good": self.is_good,
        }


def run_growth(
    trace: Sequence[Sequence[int]],
    *,
    per_s: float,
    value_bytes: int,
    options: Sequence[str],
    board: Board,
) -> GrowthOutcome:
    """Play the trace to four nodes, and then again to four that become eight and four again."""
    replays: list[Replayed] = []
    changes: list[Change] = []
    for has_changes in (False, True):
        name = f"{FEW} → {MANY} → {FEW} nodes" if has_changes else f"{FEW} nodes"
        with ExitStack() as stack:
            stage = stack.enter_context(board.stage(name, len(trace)))
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="gd2fs-growth-"))
            nodes = stack.enter_context(
                BenchNodes(FEW, options, Path(folder), count_max=MANY, etcd=True)
            )
            client = stack.enter_context(nodes.client(transport="tcp"))
            replay = Replay(client, trace, per_s=per_s, value_bytes=value_bytes)
            stack.callback(replay.stop)
            replay.start()
            course = _Course(nodes, client, replay, len(trace), stage)
            if has_changes:
                changes = course.change()
            course.wait(1.0)
        replays.append(replay.replayed)
    return GrowthOutcome((FEW, MANY), replays[0], replays[1], changes)


class _Course:
    """One replay and what is done to its nodes meanwhile, from the main thread."""

    def __init__(
        self, nodes: BenchNodes, client: Client, replay: Replay, requests: int, stage: Stage
    ) -> None:
        self._nodes = nodes
        self._client = client
        self._replay = replay
        self._requests = requests
        self._stage = stage
        self._shown = 0

    @property
    def share(self) -> float:
        """How much of the trace is done."""
        return self._replay.done / self._requests

    def wait(self, share: float) -> None:
        """Until so much of the trace is done."""
        while self.share < share and self._replay.is_alive():
            self._replay.join(POLL_S)
            self._show()

    def change(self) -> list[Change]:
        self.wait(GROW_AT)
        begin = self.share
        for node in self._nodes.members[FEW:]:
            self._nodes.start(node)
        changes = [Change(f"{MANY - FEW} nodes joined", begin, self.share)]
        self.wait(SHRINK_AT)
        begin = self.share
        for node in self._nodes.members[FEW:]:
            self._client.drain(node.name)
        for node in self._nodes.members[FEW:]:
            self._wait_left(node.name)
        return [*changes, Change(f"{MANY - FEW} nodes drained and left", begin, self.share)]

    def _wait_left(self, name: str) -> None:
        node = next(node for node in self._nodes.members if node.name == name)
        end = time.monotonic() + LEFT_S
        while node.process is not None and node.process.poll() is None:
            if time.monotonic() > end:
                raise Unavailable(
                    f"{name} did not leave within {LEFT_S:.0f} s", hint=f"its log is {node.log}"
                )
            self._show()
            time.sleep(POLL_S)

    def _show(self) -> None:
        rate = f"{self._replay.replayed.rate:.1%} hits"
        for _ in range(self._replay.done - self._shown):
            self._stage.step(rate)
        self._shown = self._replay.done


def print_growth(outcome: GrowthOutcome, console: Console) -> None:
    """A table for people."""
    rows = table("gd2fs bench growth: hits of a hundred pages, every 10 s of the trace")
    for heading in ("from", "calm", "changed", "lost"):
        rows.add_column(heading, justify="right", no_wrap=True)
    pairs = zip(outcome.calm.rates(), outcome.changed.rates(), strict=True)
    for at, (calm, changed) in enumerate(pairs):
        rows.add_row(
            f"{10 * at} s",
            f"{100 * calm:.1f}",
            f"{100 * changed:.1f}",
            f"{100 * (calm - changed):.1f}",
        )
    console.print(rows)
    for change in outcome.changes:
        console.print(f"{change.what}: at {change.begin:.0%} to {change.end:.0%} of the trace")
    good = mark(outcome.is_good, False)
    console.print(
        f"lost {outcome.total_points:.2f} of a hundred in all (at most {TOTAL_POINTS_MAX:.0f}), "
        f"{outcome.window_points:.2f} in the worst 10 s (at most {WINDOW_POINTS_MAX:.0f}); "
        f"{outcome.changed.wrong} wrong, {outcome.changed.errors} errors {good}",
        soft_wrap=True,
    )
