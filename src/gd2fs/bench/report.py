"""Report: the table for people. The figures that others have published stand beside ours."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.table import Table

from gd2fs.bench.instances import MIB
from gd2fs.bench.measures import Arm, Pair
from gd2fs.bench.topology import Outcome


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    Attributes:
        label: What is measured.
        value: Of one topology.
        form: How it is written.
        published: B/A of four instances of SGLang on GPUs, with GD2FS against without.
        reason: Why ours may be higher than a published time.
    """

    label: str
    value: Callable[[Arm], float]
    form: Callable[[float], str]
    published: str = ""
    reason: str = ""


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.0f} ms"


# Both topologies compute every first prompt, and on few cores a turn may have to wait for that.
_QUEUE = "the slowest turns wait behind first prompts, which A and B both compute"
_STEP = "a long gap is an engine's step with another's prompt in it, and A and B both have those"

ROWS = (
    Row("requests per second", lambda arm: arm.requests_per_s, "{:.2f}".format, "1.50"),
    Row("first token after, mean", lambda arm: arm.ttft_s.mean, _seconds, "0.50"),
    Row("first token after, P95", lambda arm: arm.ttft_s.p95, _seconds, "0.40", _QUEUE),
    Row("next token after, mean", lambda arm: arm.tpot_s.mean, _seconds, "0.75", _STEP),
    Row("next token after, max", lambda arm: arm.tpot_s.max, _seconds, "0.20", _STEP),
    Row("last event after, mean", lambda arm: arm.last_event_s.mean, _seconds),
    Row("history found cached", lambda arm: arm.hit_rate, "{:.1%}".format, "B: 100 %"),
    Row("prompt tokens computed", lambda arm: arm.prefill_tokens, "{:,.0f}".format),
    Row("bytes of cache", lambda arm: arm.cache_bytes / MIB, "{:,.0f} MiB".format),
)


HEADINGS = ("A: private caches", "B: GD2FS", "B/A", "published")


def print_report(outcome: Outcome, console: Console) -> None:
    """Write the table and what is to be said beside it."""
    console.print(table_of(title_of(outcome), [outcome.pair]))
    for line in remarks_of(outcome):
        console.print(line, markup=False, soft_wrap=True)


def title_of(outcome: Outcome) -> str:
    """What was measured."""
    workload = outcome.workload
    return (
        f"{outcome.setup.instances} llama.cpp engines, {workload.sessions} conversations of "
        f"up to {workload.rounds} turns, random balancer"
    )


def table_of(title: str, pairs: Sequence[Pair]) -> RenderableType:
    """Both topologies, their ratio, and the published one."""
    table = Table(title=title, title_justify="left")
    table.add_column("", no_wrap=True)
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    for cells in cells_of(pairs):
        table.add_row(*cells)
    return table


def cells_of(pairs: Sequence[Pair]) -> list[tuple[str, ...]]:
    """The rows of the table: figures and ratios are medians over ``pairs``."""
    rows: list[tuple[str, ...]] = []
    for row in ROWS:
        before, after = (
            statistics.median(row.value(arm) for arm in arms)
            for arms in zip(*((pair.before, pair.after) for pair in pairs), strict=True)
        )
        if not before and not after:
            continue  # not known of servers that were not started here
        ratio = _ratio(row, pairs)
        text = "-" if ratio is None else f"{ratio:.2f}"
        rows.append((row.label, row.form(before), row.form(after), text, row.published))
    return rows


def explanations(pairs: Sequence[Pair]) -> list[str]:
    """Why a time is a larger part of A's than the published one, for each that is."""
    lines = []
    for row in ROWS:
        ratio = _ratio(row, pairs)
        if row.reason and ratio is not None and ratio > float(row.published):
            lines.append(f"{row.label}: above the published {row.published}, as {row.reason}")
    return lines


def _ratio(row: Row, pairs: Sequence[Pair]) -> float | None:
    ratios = [
        row.value(pair.after) / row.value(pair.before) for pair in pairs if row.value(pair.before)
    ]
    return statistics.median(ratios) if ratios else None


def remarks_of(outcome: Outcome) -> list[str]:
    """What the table cannot say, one line each."""
    count = len(outcome.played_after)
    facts = outcome.as_dict()
    lines = [
        "first token and history: turns after the first; "
        "history: what a cache could hold of earlier turns",
    ]
    lines += explanations([outcome.pair])
    if outcome.disagreeing:
        lines.append(f"texts: {outcome.disagreeing} answers of B differ from the reference's")
    else:
        lines.append(f"texts: all {count} answers of B are the reference's, token for token")
    lines.append(f"texts: {facts['texts_agree_arms']:.1%} of A's answers are the same as B's")
    failures = outcome.after.engine_counts
    lost = failures.get("restore_failures", 0) + failures.get("save_failures", 0)
    if lost:
        lines.append(f"store: {lost} restores or saves of B failed and were computed instead")
    if outcome.kill is not None:
        kill = outcome.kill
        lines.append(
            f"kill: {kill.signal} to the engine (pid {kill.pid}) after turn {kill.turn}; the next "
            f"turn, on another one, computed {kill.history_tokens_recomputed} tokens of history"
        )
    if outcome.node_kill is not None:
        gone = outcome.node_kill
        lines.append(
            f"kill: {gone.signal} to node {gone.node} (pid {gone.pid}) after turn {gone.turn}, one "
            f"of {gone.nodes} with {gone.replicas} copies of everything; the turns after it "
            f"computed {gone.history_tokens_recomputed} tokens of history"
        )
    return lines
