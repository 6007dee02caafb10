"""Report: the table of `gd2fs bench tier`."""

from __future__ import annotations

from statistics import median

from rich.console import Console

from gd2fs.bench.io.report import mark, table
from gd2fs.bench.tier.plan import (
    BESIDE_TARGET,
    CANCEL_TARGET_MS,
    MIB,
    READ_TARGET,
    WARM_TARGET,
    Settings,
)
from gd2fs.bench.tier.run import Outcome

Cells = tuple[str, str, str, str, str, str]


def print_report(outcome: Outcome, settings: Settings, console: Console) -> None:
    """The table, and what stands beside it."""
    rows = table("gd2fs bench tier")
    for heading in ("", "measured", "held against", "figure", "target", ""):
        is_text = heading in ("", "held against")
        rows.add_column(heading, justify="left" if is_text else "right", no_wrap=True)
    for cells in rows_of(outcome, settings):
        rows.add_row(*cells)
    console.print(rows)
    for line in remarks_of(outcome, settings):
        console.print(line, markup=False, soft_wrap=True)


def rows_of(outcome: Outcome, settings: Settings) -> list[Cells]:
    """What is in the table, a row for each promise."""
    return [
        _cold(outcome),
        _beside(outcome),
        _willneed(outcome, settings),
        _cancelled(outcome, settings),
        _dontneed(outcome),
        _over(outcome),
    ]


def remarks_of(outcome: Outcome, settings: Settings) -> list[str]:
    """What the table cannot say, one line each."""
    cold, beside = outcome.cold, outcome.beside
    return [
        f"medians of {settings.rounds} rounds, in turn; the worst of them for cancel",
        f"fio: random reads of 4 MiB, direct, {cold.way} (its best here), into "
        f"{'huge' if cold.is_huge else 'small'} pages; the node: "
        f"{'io_uring' if cold.is_uring else 'threads'}, every block verified",
        f"written to disk beside the reads: {median(beside.written) / MIB:.0f} MiB/s, "
        f"limit {settings.rate / MIB:.0f}",
        f"willneed itself: {_rate(outcome.willneed.load)}; read from disk by the reads after it: "
        f"{outcome.willneed.loaded_by_reads} bytes",
    ]


def _cold(outcome: Outcome) -> Cells:
    ratio = outcome.cold.ratio
    return (
        "4 MiB pages on disk",
        _rate(outcome.cold.node),
        f"fio {_rate(outcome.cold.fio)}",
        f"{ratio:.2f}",
        f"{READ_TARGET:.2f}",
        mark(ratio >= READ_TARGET, False),
    )


def _beside(outcome: Outcome) -> Cells:
    ratio = outcome.beside.ratio
    return (
        "memory, beside writes to disk",
        _rate(outcome.beside.beside),
        f"alone {_rate(outcome.beside.alone)}",
        f"{ratio:.2f}",
        f"{BESIDE_TARGET:.2f}",
        mark(ratio >= BESIDE_TARGET, False),
    )


def _willneed(outcome: Outcome, settings: Settings) -> Cells:
    ratio = outcome.willneed.ratio
    is_met = ratio >= WARM_TARGET and outcome.willneed.loaded_by_reads == 0
    return (
        f"willneed on {settings.file_bytes // MIB} MiB, then read",
        _rate(outcome.willneed.read),
        f"again {_rate(outcome.willneed.warm)}",
        f"{ratio:.2f}",
        f"{WARM_TARGET:.2f}",
        mark(is_met, False),
    )


def _cancelled(outcome: Outcome, settings: Settings) -> Cells:
    cancelled = outcome.cancelled
    after = max(cancelled.bytes_after) // MIB
    is_midway = all(each < settings.file_bytes for each in cancelled.bytes_before)
    return (
        "willneed, cancelled",
        f"{after} MiB came after",
        f"{settings.file_bytes // MIB} MiB to load",
        f"{cancelled.worst_ms:.1f} ms",
        f"{CANCEL_TARGET_MS:.0f} ms",
        mark(is_midway and cancelled.worst_ms <= CANCEL_TARGET_MS, False),
    )


def _dontneed(outcome: Outcome) -> Cells:
    dontneed = outcome.dontneed
    return (
        "dontneed",
        f"{sum(dontneed.freed):,} bytes freed",
        f"{sum(dontneed.wanted):,} asked for",
        f"{len(dontneed.freed)} ranges",
        "exact",
        mark(dontneed.is_exact, False),
    )


def _over(outcome: Outcome) -> Cells:
    over = outcome.over
    return (
        "three times the memory",
        f"{over.hits} of {over.reads} hits",
        f"{over.wrong} with wrong bytes",
        f"{100 * over.hits / over.reads:.1f} %",
        "100 %",
        mark(over.hits == over.reads and over.wrong == 0, False),
    )


def _rate(rates: tuple[float, ...]) -> str:
    return f"{median(rates) / 1e9:.2f} GB/s"
