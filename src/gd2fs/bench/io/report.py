"""Report: the table for people, and the same figures as JSON."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from gd2fs.bench.io.case import Case
from gd2fs.bench.io.latency import Latency, histogram, sparkline
from gd2fs.bench.io.run import Outcome, Row

GIL_BASE_US = 50
GIL_KEY_US = 1
SMALL_BYTES = 1 << 20  # calls of less have their latencies drawn
GOOD, BAD, UNSURE = "✓", "✗", "?"


def as_json(outcome: Outcome) -> dict[str, Any]:
    """All figures. ``ceilings`` in GB/s; ``bytes`` is of one item, times are of one call."""
    return {
        "ceilings": outcome.ceilings,
        "cases": [row.as_dict() for row in outcome.rows],
        "peers": [peer for row in outcome.rows for peer in row.peers()],
        "busy": outcome.is_busy,
        "foreign_cpu": outcome.foreign.processes,
        "steal": outcome.foreign.steal,
        "rung": outcome.rung,
        "ceilings_rung": outcome.raw_rung,
        "remarks": outcome.remarks,
    }


def print_report(outcome: Outcome, console: Console) -> None:
    """The table, and what is to be said beside it."""
    console.print(cases_table(outcome))
    small = [row for row in outcome.rows if row.case.call_bytes < SMALL_BYTES]
    if small:
        console.print(latency_table(small))
    if any(row.peers() for row in outcome.rows):
        console.print(peers_table(outcome))
    for line in remarks_of(outcome):
        console.print(line, markup=False, soft_wrap=True)


def cases_table(outcome: Outcome) -> Table:
    """Every case beside its ceiling."""
    rows = table(f"gd2fs bench io, nodes on {outcome.rung} memory")
    rows.add_column("", no_wrap=True)
    headings = ("p50", "GB/s", "ceiling", "ratio", "of one", "target", "", "CPU ms/GiB")
    for heading in headings:
        rows.add_column(heading, justify="right", no_wrap=True)
    for row in outcome.rows:
        rows.add_row(*_cells(row))
        if row.case.is_batch:
            rows.add_row(*_gil_cells(row))
    return rows


def latency_table(measured: list[Row]) -> Table:
    """Small calls: how their times are spread."""
    rows = table("latency of small calls")
    for heading in ("", "p50", "p99", "p99.9", "calls", "from fastest to slowest"):
        rows.add_column(heading, justify="left" if not heading else "right", no_wrap=True)
    for row in measured:
        facts = row.as_dict()
        times = [_ms(facts[name]) for name in ("ms_p50", "ms_p99", "ms_p999")]
        drawn = sparkline(histogram(row.store.calls_ns))
        rows.add_row(row.case.label(), *times, f"{facts['samples']:,}", drawn)
    return rows


def peers_table(outcome: Outcome) -> Table:
    """Other stores on the same work."""
    rows = table("other stores on the same work, in turn with ours")
    for heading in ("", "store", "p50", "GB/s", "ours", "times ours"):
        rows.add_column(heading, justify="left" if not heading else "right", no_wrap=True)
    for row in outcome.rows:
        ours = _ms(Latency.of_ns(row.store.calls_ns).p50)
        for peer in row.peers():
            figures = [
                _ms(peer["ms_p50"]),
                f"{peer['gbps']:.2f}",
                ours,
                f"{peer['times_ours']:.1f}",
            ]
            rows.add_row(row.case.label(), peer["peer"], *figures)
    return rows


def remarks_of(outcome: Outcome) -> list[str]:
    """What the table cannot say, one line each."""
    lines = list(outcome.remarks)
    lines.append("tcp/2: over TCP, 2 streams to each node")
    lines.append("ratio: ceiling and case in turn, median of the rounds; CPU: both sides together")
    if outcome.is_busy:
        lines.append(f"refused: the machine was busy: {outcome.foreign.text()}; run it again alone")
    elif any(row.foreign.is_busy for row in outcome.rows):
        busy = [row.case.label() for row in outcome.rows if row.foreign.is_busy]
        lines.append(f"{UNSURE}: the machine was busy meanwhile: {'; '.join(busy)}")
    return lines


def gil_limit_us(case: Case) -> int:
    """How long a batch may keep the interpreter's lock."""
    return GIL_BASE_US + GIL_KEY_US * case.count


def _cells(row: Row) -> list[str]:
    facts, target = row.as_dict(), row.case.target()
    one = facts["ratio_one_object"]
    cpu, ceiling_cpu = facts["cpu_ms_per_gib"], facts["ceiling_cpu_ms_per_gib"]
    moves = row.case.call_bytes > 0 and row.case.op != "view"  # a view moves none
    best = f"{facts['ceiling_gbps']:.2f}" if moves else _ms(facts["ceiling_ms"])
    return [
        row.case.label(),
        _ms(facts["ms_p50"]),
        f"{facts['gbps']:.2f}" if moves else "",
        f"{row.ceiling} {best}",
        f"{facts['ratio']:.0%}",
        f"{one:.0%}" if one is not None else "",
        target.text() if target else "",
        mark(target.is_met(facts), row.foreign.is_busy) if target else "",
        f"{cpu:.0f} ({ceiling_cpu:.0f})" if cpu and ceiling_cpu else "",
    ]


def _gil_cells(row: Row) -> list[str]:
    limit_us = gil_limit_us(row.case)
    is_met = mark(row.gil_us <= limit_us, row.foreign.is_busy)
    label = "  interpreter's lock held"
    return [label, f"{row.gil_us:.0f} µs", "", "", "", "", f"≤ {limit_us} µs", is_met, ""]


def mark(is_met: bool, is_unsure: bool) -> str:
    """What stands behind a target."""
    return (GOOD if is_met else BAD) + (UNSURE if is_unsure else "")


def table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)


def _ms(milliseconds: float) -> str:
    return f"{milliseconds * 1000:.0f} µs" if milliseconds < 1 else f"{milliseconds:.2f} ms"
